"""The files of a rotation: who signs, whom the hub and its agents trust, in each phase and after a kill."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from ocmconsole.environment import home as files
from registration.pki import ca
from tests.unit.registration.test_ca import (
    DAY,
    NAMES,
    NOW,
    Organisation,
    certificate,
    csr,
    der,
    key_pem,
    pem,
)

CLIENT, SERVING = ca.AuthorityRole.CLIENT, ca.AuthorityRole.SERVING
STEPS: dict[str, Callable[..., ca.Authority]] = {"rotate": ca.rotate, "back": ca.turn_back, "retire": ca.retire}
# What an agent trusts that joined before the rotation, while it was under way, after the old CA was retired.
PINNED = ("old", "both", "new")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ca.ensure_authority(tmp_path, NAMES, now=NOW)
    return tmp_path


def take(home: Path, step: str, role: ca.AuthorityRole) -> ca.Authority:
    made = STEPS[step](home, role, note=lambda _: None, now=NOW)
    ca.ensure_authority(home, NAMES, now=NOW)  # as each server does
    return made


def content(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir()}


def trusts(home: Path, chain: bytes) -> bool:
    """Whether the hub of that home takes the client certificate."""
    try:
        return ca.trusted_client(der(chain), ca.Roots(ca.client_file(home).read_bytes()), now=NOW)[1] == "hub"
    except ValueError:
        return False


def issue(home: Path) -> bytes:
    return ca.client_authority(home, now=NOW).sign_client(csr(), usages=("client auth",), lifetime=30 * DAY, now=NOW)


def openssl_believes(home: Path, pinned: bytes, tmp_path: Path) -> bool:
    """What openssl says of the chain that the hub shows, to a client that trusts the pinned certificates."""
    for name, text in (("pinned", pinned), ("chain", (home / "serving.crt").read_bytes())):
        (tmp_path / name).write_bytes(text)
    asked = ["-purpose", "sslserver", "-verify_hostname", NAMES[0], "-attime", str(int(NOW.timestamp()))]
    trusted = ["-no-CApath", "-no-CAstore", "-CAfile", str(tmp_path / "pinned")]
    chain = str(tmp_path / "chain")
    done = subprocess.run(
        ["openssl", "verify", *asked, *trusted, "-untrusted", chain, chain], capture_output=True, check=False
    )
    return done.returncode == 0


# ---------------------------------------------------------------- two authorities


def test_one_ca_is_both_authorities_until_a_rotation(home: Path) -> None:
    assert sorted(content(home)) == ["ca.crt", "ca.key", "serving.crt", "serving.key"]
    client, serving = ca.client_authority(home, now=NOW), ca.serving_authority(home, now=NOW)
    assert client.certificate == serving.certificate
    assert ca.phase_of(client) == ca.phase_of(serving) == "steady"


def test_a_new_ca_of_clients_signs_and_the_old_one_is_trusted_beside_it(home: Path) -> None:
    before, earlier = content(home), issue(home)
    new = take(home, "rotate", CLIENT)
    assert ca.phase_of(ca.client_authority(home, now=NOW)) == "rotating"
    assert new.has_signed(issue(home))
    assert trusts(home, earlier)
    assert trusts(home, issue(home))
    assert {name: text for name, text in content(home).items() if name in before} == before  # serving is as it was
    assert (home / "client-ca.key").stat().st_mode & 0o777 == 0o600


def test_serving_gets_a_new_ca_and_clients_keep_theirs(home: Path) -> None:
    earlier, old = issue(home), ca.client_authority(home, now=NOW).certificate
    take(home, "rotate", SERVING)
    assert ca.client_authority(home, now=NOW).certificate == old
    assert not ca.client_authority(home, now=NOW).others
    assert trusts(home, earlier)
    assert trusts(home, issue(home))
    take(home, "retire", SERVING)
    assert ca.client_authority(home, now=NOW).certificate == old
    assert old not in x509.load_pem_x509_certificates((home / "ca.crt").read_bytes())
    assert trusts(home, issue(home))


def test_a_server_certificate_of_a_new_serving_ca_makes_no_client(home: Path) -> None:
    new = take(home, "rotate", SERVING)
    chain, _ = new.issue_client("root", ("system:masters",), DAY, NOW)
    assert not trusts(home, chain)
    cross = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())[1]
    assert not trusts(home, pem(cross))


# ---------------------------------------------------------------- the chain of serving


@pytest.mark.parametrize("brought", [False, True], ids=["own", "of an organisation"])
def test_agents_of_every_phase_believe_the_hub_until_what_they_trust_is_retired(
    tmp_path: Path, *, brought: bool
) -> None:
    home = tmp_path / "home"
    if brought:
        Organisation().place(home)
    old = ca.ensure_authority(home, NAMES, now=NOW).ca_pem
    believed: dict[str, dict[str, bool]] = {}

    def look(phase: str, new: bytes) -> None:
        both = (home / "ca.crt").read_bytes()
        pinned = dict(zip(PINNED, (old, both, new), strict=True))
        believed[phase] = {name: openssl_believes(home, text, tmp_path) for name, text in pinned.items()}

    new = pem(*take(home, "rotate", SERVING).chain)
    look("rotating", new)
    take(home, "back", SERVING)
    look("rolled back", new)
    take(home, "rotate", SERVING)
    look("rotating again", new)
    take(home, "retire", SERVING)
    look("retired", new)
    everybody = dict.fromkeys(PINNED, True)
    assert believed == {
        "rotating": everybody,
        "rolled back": {"old": True, "both": True, "new": False},
        "rotating again": everybody,
        "retired": {"old": False, "both": True, "new": True},
    }


def test_the_cross_signed_certificate_is_in_the_chain_of_serving_alone(home: Path) -> None:
    new = take(home, "rotate", SERVING)
    leaf, cross = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())
    leaf.verify_directly_issued_by(cross)
    assert cross.subject == new.certificate.subject
    assert cross not in x509.load_pem_x509_certificates((home / "ca.crt").read_bytes())
    before = content(home)
    ca.ensure_authority(home, NAMES, now=NOW + DAY)
    assert content(home) == before  # nothing is issued again and again
    take(home, "retire", SERVING)
    assert len(x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())) == 1


def test_a_cross_signature_ends_with_the_old_ca_and_the_hub_goes_on_without_it(home: Path) -> None:
    late = NOW + ca.CA_LIFETIME - 10 * DAY
    for role in (CLIENT, SERVING):
        ca.rotate(home, role, note=lambda _: None, now=late)
    ca.ensure_authority(home, NAMES, now=late)
    assert len(x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())) == 2
    after = late + 11 * DAY
    ca.ensure_authority(home, NAMES, now=after)
    (leaf,) = x509.load_pem_x509_certificates((home / "serving.crt").read_bytes())
    assert leaf.not_valid_after_utc > after


def test_an_organisations_ca_that_may_not_vouch_for_another_is_not_rotated(tmp_path: Path) -> None:
    organisation = Organisation()
    organisation.place(tmp_path)
    subject, issuer = organisation.middle.subject, organisation.root.subject
    middle = certificate(subject, issuer, signer=organisation.root_key, key=organisation.key, is_ca=True, path_length=0)
    (tmp_path / "ca.crt").write_bytes(pem(middle, organisation.root))
    ca.ensure_authority(tmp_path, NAMES, now=NOW)
    before = content(tmp_path)
    with pytest.raises(ca.RotationError, match=r"cannot vouch for another one .*; nothing is changed"):
        take(tmp_path, "rotate", SERVING)
    assert content(tmp_path) == before


# ---------------------------------------------------------------- steps in and out of order


@pytest.mark.parametrize("role", [CLIENT, SERVING])
def test_a_rotation_that_is_started_twice_changes_nothing_and_says_so(home: Path, role: ca.AuthorityRole) -> None:
    take(home, "rotate", role)
    before = content(home)
    with pytest.raises(ca.RotationError, match=f"^the {role} CA is being rotated already, since 2026-11-21 02:00 UTC"):
        take(home, "rotate", role)
    assert content(home) == before


@pytest.mark.parametrize("role", [CLIENT, SERVING])
@pytest.mark.parametrize(
    ("steps", "step", "says"),
    [
        ([], "back", "nothing to roll back"),
        ([], "retire", "nothing to retire"),
        (["rotate", "back"], "back", "nothing to roll back"),
        (["rotate", "retire"], "retire", "nothing to retire"),
        (["rotate", "retire"], "back", "nothing to roll back"),
    ],
)
def test_a_step_out_of_order_changes_nothing_and_says_so(
    home: Path, role: ca.AuthorityRole, steps: list[str], step: str, says: str
) -> None:
    for each in steps:
        take(home, each, role)
    before = content(home)
    with pytest.raises(ca.RotationError, match=says):
        take(home, step, role)
    assert content(home) == before


def test_a_rotation_is_rolled_back_gone_on_with_and_ended_either_way(home: Path) -> None:
    old = ca.client_authority(home, now=NOW).certificate
    of_old = issue(home)
    new = take(home, "rotate", CLIENT).certificate
    of_new = issue(home)
    back = take(home, "back", CLIENT)
    assert (back.certificate, ca.phase_of(back)) == (old, "rolled back")
    assert back.has_signed(issue(home))
    assert [trusts(home, of_old), trusts(home, of_new)] == [True, True]
    again = take(home, "rotate", CLIENT)
    assert (again.certificate, ca.phase_of(again)) == (new, "rotating")
    take(home, "retire", CLIENT)
    assert [trusts(home, of_old), trusts(home, of_new)] == [False, True]
    newest = take(home, "rotate", CLIENT)
    assert newest.certificate not in {old, new}
    take(home, "back", CLIENT)
    take(home, "retire", CLIENT)
    assert ca.client_authority(home, now=NOW).certificate == new


@pytest.mark.parametrize("role", [CLIENT, SERVING])
def test_retired_keys_are_forgotten(home: Path, role: ca.AuthorityRole) -> None:
    old = (home / "ca.key").read_bytes()
    take(home, "rotate", CLIENT)
    take(home, "rotate", SERVING)
    take(home, "retire", CLIENT)
    take(home, "retire", SERVING)
    assert not [name for name, text in content(home).items() if old in text]


def test_a_chain_of_strangers_is_no_rotation(home: Path) -> None:
    """Only a CA whose key the hub has is trusted beside the one that signs."""
    take(home, "rotate", CLIENT)
    (home / "client-ca.crt").write_bytes((home / "client-ca.crt").read_bytes() + pem(Organisation().root))
    with pytest.raises(ca.AuthorityError, match=r"client-ca\.crt is not a chain"):
        ca.client_authority(home, now=NOW)


def test_a_file_of_three_cas_is_refused(home: Path) -> None:
    take(home, "rotate", CLIENT)
    third = Organisation()
    for file, more in (("client-ca.crt", pem(third.root)), ("client-ca.key", key_pem(third.root_key))):
        (home / file).write_bytes((home / file).read_bytes() + more)
    with pytest.raises(ca.AuthorityError, match=r"client-ca\.crt holds 3 CAs"):
        ca.client_authority(home, now=NOW)


def test_clients_are_not_signed_by_the_serving_ca_because_a_file_is_missing(home: Path) -> None:
    take(home, "rotate", SERVING)
    (home / "client-ca.crt").unlink()
    with pytest.raises(ca.AuthorityError, match=r"client-ca\.crt is missing"):
        ca.client_authority(home, now=NOW)


def test_a_key_in_the_old_form_of_openssl_is_read(tmp_path: Path) -> None:
    """With parameters of the curve before it, as openssl ecparam writes them."""
    organisation = Organisation()
    organisation.place(tmp_path)
    plain = tmp_path / "plain.key"
    plain.write_bytes(key_pem(organisation.key))
    done = subprocess.run(["openssl", "ec", "-in", str(plain)], capture_output=True, check=True).stdout
    made = subprocess.run(["openssl", "ecparam", "-name", "prime256v1"], capture_output=True, check=True).stdout
    (tmp_path / "ca.key").write_bytes(made + done)
    assert ca.client_authority(tmp_path, now=NOW).certificate == organisation.middle


# ---------------------------------------------------------------- killed


@pytest.mark.parametrize("role", [CLIENT, SERVING])
@pytest.mark.parametrize(("steps", "step"), [([], "rotate"), (["rotate"], "back"), (["rotate"], "retire")])
def test_a_kill_before_or_after_any_write_leaves_the_old_phase_or_the_new(
    tmp_path: Path, role: ca.AuthorityRole, steps: list[str], step: str
) -> None:
    found = set()
    for number in range(12):
        home = tmp_path / str(number)
        ca.ensure_authority(home, NAMES, now=NOW)
        of_old = issue(home)
        for each in steps:
            take(home, each, role)
        before = _phases(home)
        process = multiprocessing.get_context("fork").Process(target=killed_at, args=(home, role, step, number))
        process.start()
        process.join(60)
        is_killed = process.exitcode == -signal.SIGKILL
        after = _phases(home)
        ca.ensure_authority(home, NAMES, now=NOW)
        assert trusts(home, issue(home))
        assert trusts(home, of_old) or (role, step) == (CLIENT, "retire")
        if after == before:
            take(home, step, role)
        assert _phases(home)[role] == {"rotate": "rotating", "back": "rolled back", "retire": "steady"}[step]
        found.add((is_killed, after == before))
        if not is_killed:
            break
    assert {(True, True), (True, False), (False, False)} <= found


def _phases(home: Path) -> dict[ca.AuthorityRole, str]:
    found = {CLIENT: ca.client_authority(home, now=NOW), SERVING: ca.serving_authority(home, now=NOW)}
    return {role: ca.phase_of(each).value for role, each in found.items()}


def killed_at(home: Path, role: ca.AuthorityRole, step: str, number: int) -> None:
    """Of each file the rename is where a kill matters: before it, and right after it."""
    write, count = files.write_file, 0

    def write_or_die(*args: Any, **options: Any) -> None:
        nonlocal count
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        write(*args, **options)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    files.write_file = write_or_die
    STEPS[step](home, role, note=lambda _: None, now=NOW)


def test_two_that_rotate_at_once_make_one_new_ca(home: Path) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        outcomes = pool.starmap(_rotated, [(home,)] * 4)
    assert sorted(outcomes) == [False, False, False, True]
    assert len(ca.client_authority(home, now=NOW).others) == 1


def _rotated(home: Path) -> bool:
    try:
        ca.rotate(home, CLIENT, note=lambda _: None, now=NOW)
    except ca.RotationError:
        return False
    return True


def test_what_cannot_be_noted_is_not_done(home: Path) -> None:
    def refuse(_: ca.Authority) -> None:
        raise OSError("the database is away")

    with pytest.raises(OSError, match="away"):
        ca.rotate(home, CLIENT, note=refuse, now=NOW)
    assert ca.phase_of(ca.client_authority(home, now=NOW)) == "steady"


def test_a_new_ca_is_younger_than_one_of_the_same_minute(home: Path) -> None:
    for _ in range(3):
        made = take(home, "rotate", CLIENT)
        assert ca.phase_of(made) == "rotating"
        assert made.certificate.not_valid_before_utc <= NOW + timedelta(seconds=3)
        take(home, "retire", CLIENT)
