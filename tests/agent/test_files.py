"""What an agent keeps is one whole version, whatever is killed while it is written."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from registration.agent.bootstrapping.hub_files import NAMES, FolderOfFiles, what_is_wrong
from registration.agent.client.clock import AgentClock
from registration.agent.client.kubeconfig import ApiEndpoint, hub_kubeconfig
from registration.agent.keys import MANAGED_CLUSTERS, AgentSubject, OpenSSL, subject_of
from tests import preloaded
from tests.hub import ROOT

HUB = ApiEndpoint("https://hub.example:6443")
MOST_STEPS = 60  # more than writing takes


def write(folder: Path, word: str, steps: int = MOST_STEPS) -> int:
    """In a process of its own that is killed after so many steps; its exit code."""
    command = [sys.executable, "-m", "tests.agent.writer", str(folder), word, str(steps)]
    return preloaded.run(command, cwd=ROOT).returncode


def read(folder: Path) -> dict[str, str]:
    return asyncio.run(FolderOfFiles(folder).load())


def whole(word: str) -> dict[str, str]:
    return {name: f"{name} of {word}\n" * 2000 for name in NAMES}


@pytest.mark.slow
@pytest.mark.contract("G24")
def test_killed_at_any_step_of_writing_it_has_the_former_files_or_the_new_ones(tmp_path: Path) -> None:
    assert write(tmp_path, "former") == 0
    ends: list[str] = []
    for step in range(MOST_STEPS):
        code = write(tmp_path, f"step-{step}", step)
        found = read(tmp_path)
        others = [each for each in ("former", *(f"step-{past}" for past in range(step + 1))) if found == whole(each)]
        assert len(others) == 1, f"after step {step}: { ({name: text[:30] for name, text in found.items()}) }"
        # Others that mount the folder read by name, not by version.
        assert {name: (tmp_path / name).read_text() for name in NAMES} == found
        ends += others
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert len(ends) > 10
    assert ends[0] == "former"
    assert ends[-1] == f"step-{len(ends) - 1}"
    left = [path.name for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(left) == 1


@pytest.mark.slow
def test_killed_at_the_first_writing_it_has_nothing_or_everything(tmp_path: Path) -> None:
    for step in range(MOST_STEPS):
        folder = tmp_path / str(step)
        code = write(folder, "new", step)
        assert read(folder) in ({}, whole("new"))
        if code == 0:
            return
    raise AssertionError("it takes more steps than expected")


def test_files_of_a_folder_that_kubernetes_did_not_lay_out_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "cluster-name").write_text("c1")
    assert read(tmp_path) == {"cluster-name": "c1"}
    assert read(tmp_path / "none") == {}


# ------------------------------------------------------------------------------------------------- what they are good for


def files(name: str = "system:open-cluster-management:c1:abcde", *, days: float = 10) -> dict[str, str]:
    """As an agent keeps them, with a certificate that ends in so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=20))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    return {
        "kubeconfig": hub_kubeconfig(HUB),
        "tls.crt": certificate.public_bytes(serialization.Encoding.PEM).decode(),
        "tls.key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    }


def wrong(kept: dict[str, str], hub: ApiEndpoint = HUB, ahead: timedelta = timedelta()) -> str:
    return asyncio.run(what_is_wrong(kept, "c1", "abcde", hub, OpenSSL(), AgentClock(ahead)))


@pytest.mark.contract("G5")
def test_files_are_good_for_the_hub_that_the_bootstrap_kubeconfig_names() -> None:
    kept = files()
    assert wrong(kept) == ""
    assert wrong(kept, ApiEndpoint("https://other.example:6443")).startswith(
        "the bootstrap kubeconfig names another hub"
    )
    assert wrong(kept, ApiEndpoint(HUB.server, name="other")).startswith("the bootstrap kubeconfig names another hub")


@pytest.mark.contract("G5", "G26")
def test_files_with_another_name_another_key_or_an_ended_certificate_are_good_for_nothing() -> None:
    assert wrong({}) == "there is no kubeconfig yet"
    assert wrong({**files(), "tls.key": ""}) == "tls.key is missing"
    assert wrong(files("system:open-cluster-management:c2:abcde")).startswith("the certificate is for system:")
    assert wrong(files(days=-1)).startswith("the certificate expired at ")
    assert wrong(files(), ahead=timedelta(days=11)).startswith("the certificate expired at ")
    assert "the key is not that of the certificate" in wrong({**files(), "tls.key": files()["tls.key"]})
    assert wrong({**files(), "tls.crt": "nothing"}).startswith("the certificate cannot be read")
    assert wrong({**files(), "kubeconfig": "{}"}).startswith("the hub's kubeconfig cannot be used")


@pytest.mark.contract("G3", "G20")
@pytest.mark.filterwarnings("ignore:Attribute's length must be")
@pytest.mark.parametrize("cluster", ["c1", "a-name-as-long-as-a-namespace-may-be-which-is-63-characters-long"[:63]])
def test_a_request_has_a_p256_key_and_the_agents_names_however_long(cluster: str) -> None:
    """X.520 gives a name 64 characters, which OpenSSL keeps to unless told otherwise; Kubernetes gives it more."""
    made = asyncio.run(OpenSSL().make_request(subject_of(cluster, "abcde")))
    request = x509.load_pem_x509_csr(made.request.encode())
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert request.is_signature_valid
    assert list(request.extensions) == []
    names = [(each.oid, each.value) for each in request.subject]
    group = f"system:open-cluster-management:{cluster}"
    assert names == [
        (NameOID.ORGANIZATION_NAME, group),
        (NameOID.ORGANIZATION_NAME, MANAGED_CLUSTERS),
        (NameOID.COMMON_NAME, f"{group}:abcde"),
    ]


def test_a_chain_says_its_first_subject_and_the_time_in_which_all_of_it_is_valid() -> None:
    long, short = files(days=10), files("other, with: signs/and=more", days=5)
    said = asyncio.run(OpenSSL().read_chain(short["tls.crt"] + long["tls.crt"]))
    assert said.subject == AgentSubject("other, with: signs/and=more", frozenset())
    assert abs(said.not_after - datetime.now(UTC) - timedelta(days=5)) < timedelta(minutes=1)


@pytest.mark.contract("G3", "G25")
@pytest.mark.parametrize("name", ["c1", 'odd + O=c1, "q" <a>;\\ #'], ids=["plain", "odd"])
def test_groups_are_read_one_by_one_from_a_certificate_that_go_made(name: str) -> None:
    """Go writes all organizations into one set; a renewal is asked for with the groups that were read."""
    groups = [f"system:open-cluster-management:{name}", MANAGED_CLUSTERS]
    certificate = asyncio.run(OpenSSL().read_chain(signed_by_go(f"{groups[0]}:abcde", groups)))
    assert certificate.subject == AgentSubject(f"{groups[0]}:abcde", frozenset(groups))


def signed_by_go(common_name: str, organizations: list[str]) -> str:
    """A certificate with the subject as kube-controller-manager writes it."""
    several = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    one = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    subject = x509.Name([x509.RelativeDistinguishedName(several), x509.RelativeDistinguishedName(one)])
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_openssl_ends_with_the_task_that_waits_for_it(tmp_path: Path) -> None:
    program, pid = tmp_path / "openssl", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}.new && mv {pid}.new {pid} && exec sleep 60\n")
    program.chmod(0o700)

    async def cancel() -> None:
        asking = asyncio.create_task(OpenSSL(str(program)).make_request(subject_of("c1", "abcde")))
        while not pid.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancel())
    assert not Path("/proc", pid.read_text().strip()).exists()
