"""What two people agreed on, killed between the second approval and the act, and in the midst of the act: each whole."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests import preloaded
from tests.conftest import StartHub
from tests.fleet import Fleet
from tests.hub import Hub

PASSWORD = "a long enough password"
NAME = "agreed"
KILLED_AT = (0.7, 0.85, 0.95, 1.0, 1.05)  # of the time that such a command takes


@pytest.fixture(scope="module")
def hub(start_hub: StartHub) -> Iterator[Hub]:
    with start_hub(SECOND_APPROVAL="key-override") as hub:
        yield hub


def begin(hub: Hub, *arguments: str, who: str) -> subprocess.Popen[bytes]:
    """As a person who proves it."""
    command = [*hub.program, *arguments, "--as", who, "--prove"]
    pipe = subprocess.PIPE
    process = preloaded.Popen[bytes](
        command, cwd=hub.folder, env=dict(hub.environment), stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert process.stdin
    process.stdin.write(f"{PASSWORD}\n".encode())
    process.stdin.close()
    return process


def end(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        said = process.stdout.read() + process.stderr.read()
    process.wait()
    return said.decode()


def state(hub: Hub) -> tuple[str, int, int, int]:
    """The proposal's state, approvals, overrides that were accepted, and what the audit has of carrying it out."""
    with hub.reading() as ask:
        return (
            ask("SELECT state FROM second_approval_proposedact")[0][0],
            ask("SELECT COUNT(*) FROM second_approval_actapproval")[0][0],
            ask(f"SELECT COUNT(*) FROM registration_acceptedkey WHERE cluster = '{NAME}' AND how = 'override'")[0][0],  # noqa: S608 - a name of this file
            ask("SELECT COUNT(*) FROM kubeapi_auditevent WHERE act = 'second-approval:done'")[0][0],
        )


BEFORE, AFTER = ("waiting", 1, 0, 0), ("done", 1, 1, 1)


def test_killed_between_the_approval_and_the_act_or_within_it_both_are_whole(hub: Hub) -> None:
    for who in ("ana", "ben"):
        environment = {**hub.environment, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        made = [*hub.program, "createsuperuser", "--noinput", "--username", who, "--email", ""]
        assert preloaded.run(made, cwd=hub.folder, env=environment).returncode == 0
    with Fleet(hub) as fleet:
        fleet.join(NAME)
        newest = fleet.request(NAME)
    with hub.reading() as ask:
        [(key,)] = ask(
            f"SELECT key_fingerprint FROM registration_certificatesigningrequest WHERE name = '{newest.request}'"  # noqa: S608 - as above
        )
    said = end(begin(hub, "accept", NAME, "--accept-key", key, "--reason", "read out by phone", who="ana"))
    assert "waits as proposal" in said, said
    with hub.reading() as ask:
        [(number, digest)] = ask("SELECT id, digest FROM second_approval_proposedact")

    approving = begin(hub, "proposals", "approve", str(number), "--digest", digest, who="ben")
    while not state(hub)[1]:
        assert approving.poll() in {None, 0}, end(approving)  # it may end between the two questions
    approving.kill()  # the approval is stored, and nothing was done yet
    end(approving)
    assert state(hub) == BEFORE

    began = time.monotonic()
    end(begin(hub, "proposals", "show", str(number), who="ben"))
    lasts = time.monotonic() - began
    for part in KILLED_AT:
        carrying_out = begin(hub, "proposals", "carry-out", str(number), "--digest", digest, who="ben")
        time.sleep(lasts * part)
        carrying_out.kill()
        end(carrying_out)
        assert state(hub) in {BEFORE, AFTER}
    end(begin(hub, "proposals", "carry-out", str(number), "--digest", digest, who="ben"))
    assert state(hub) == AFTER
    hub.manage("audit", "verify")
