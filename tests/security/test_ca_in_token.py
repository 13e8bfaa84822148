"""A hub whose CA of clients has its key in SoftHSM: the main job through HTTP, the token away, a backup and its restore."""

from __future__ import annotations

import base64
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import httpx
import pyrage
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests import factories as make
from tests import hub as hubs
from tests import preloaded, softhsm, tools
from tests.conftest import missing
from tests.fleet import CLUSTERS, REQUESTS, USAGES, Agent, Doc, Fleet, NotYet, eventually
from tests.softhsm import Token

pytestmark = [pytest.mark.slow, pytest.mark.contract("W24", "D22")]

KEY = ec.generate_private_key(ec.SECP256R1())
URI = "pkcs11:token=hub;object=clients"


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Token:
    if (module := tools.softhsm()) is None:
        missing("softhsm2")
    token = Token(tmp_path / "softhsm", module)
    token.make()
    assert token.put("clients", KEY) == URI
    monkeypatch.setenv("SOFTHSM2_CONF", str(token.configuration))
    return token


@pytest.fixture
def token_here(token: Token, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Token]:
    """Used by this process."""
    token.use(monkeypatch, settings)
    yield token
    softhsm.forget()


@pytest.fixture
def hub(token: Token, tmp_path: Path) -> Iterator[hubs.Hub]:
    """Started for the first time with a file that names the key."""
    if "TEST_DATABASE_URL" in os.environ:
        pytest.skip("its home is laid out by hand, for SQLite")
    home = tmp_path / "hub"
    home.mkdir()
    shutil.copy(hubs.migrated(Path(os.environ["TEST_HOME"])).home / "hub.sqlite3", home)
    (home / "client-ca.key").write_text(f"{URI}\n")
    with hubs.serve(home, **token.settings) as hub:
        yield hub


def renew(agent: Agent) -> Agent:
    """As an agent does by itself: with the certificate that it has, for a new key, under its own name."""
    agent.fleet.asked += 1
    new = Agent(agent.fleet, agent.name, f"again{agent.fleet.asked}-{agent.request[-5:]}", agent.name)
    spec = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": USAGES,
        "request": base64.b64encode(new.signing_request()).decode(),
    }
    labels = {"open-cluster-management.io/cluster-name": agent.name}
    doc: Doc = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": new.request, "labels": labels},
        "spec": spec,
    }
    agent.client.post(REQUESTS, json=doc).raise_for_status()
    return new


def certificate(agent: Agent) -> x509.Certificate | None:
    """As the hub has it now."""
    found = agent.fleet.admin.get(f"{REQUESTS}/{agent.request}").raise_for_status().json()["status"]
    text = found.get("certificate")
    return x509.load_pem_x509_certificate(base64.b64decode(text)) if text else None


def code(agent: Agent) -> int:
    return agent.client.get(f"{CLUSTERS}/{agent.name}").status_code


def must_say(hub: hubs.Hub, text: str) -> None:
    if text not in hub.log("server"):
        raise NotYet(f"the log does not say: {text}")


def holds_key(content: bytes) -> bool:
    """In any form in which a file of keys or a dump has one."""
    number = KEY.private_numbers().private_value.to_bytes(32, "big")
    lines = softhsm.pkcs8(KEY).splitlines()[1:-1]
    return any(each in content for each in (number, number.hex().encode(), *lines))


def refused(hub: hubs.Hub, *command: str) -> str:
    """What a command says that ends with an error."""
    done = preloaded.run([*hub.program, *command], cwd=hubs.ROOT, env=dict(hub.environment))
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_a_hub_signs_with_a_key_that_it_never_sees_and_waits_for_its_token(
    hub: hubs.Hub, token: Token, tmp_path: Path
) -> None:
    with Fleet(hub) as fleet:
        agent = fleet.join("edge")
        first = certificate(agent)
        assert first is not None
        KEY.public_key().verify(first.signature, first.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
        renewed = renew(agent)
        renewed.beat()
        hub.manage("revoke_certificate", first.fingerprint(hashes.SHA256()).hex(), "--reason", "a newer one is there")
        assert (code(agent), code(renewed)) == (401, 200)

        token.take_away()
        waiting = renew(renewed)
        eventually(lambda: must_say(hub, "certificate requests wait: the token pkcs11:token=hub does not answer"))
        assert certificate(waiting) is None
        renewed.beat()
        token.bring_back()
        waiting.beat()
        assert "certificate requests are signed again" in hub.log("server")

        key, backup = tmp_path / "key.txt", tmp_path / "place" / "hub.backup"
        identity = pyrage.x25519.Identity.generate()
        key.write_text(f"{identity}\n")
        backup.parent.mkdir()
        assert f"not in it: the CA key {URI}" in hub.manage("backup", str(backup), "--key", str(key))
        opened = pyrage.decrypt(backup.read_bytes(), [identity])
        with tarfile.open(fileobj=BytesIO(opened)) as archive:
            members = {each.name: archive.extractfile(each) for each in archive}
            texts = {name: file.read() for name, file in members.items() if file is not None}
        assert "client-ca.key" in texts
        texts |= {str(path): path.read_bytes() for path in hub.home.rglob("*") if path.is_file()}
        assert [name for name, text in texts.items() if holds_key(text)] == []
        assert holds_key(softhsm.pkcs8(KEY))  # it would be found

    hub.stop("server")
    elsewhere = replace(
        hub, home=tmp_path / "new", environment={**hub.environment, "OCMCONSOLE_HOME": str(tmp_path / "new")}
    )
    said = elsewhere.manage("restore", str(backup), "--key", str(key))
    assert f"its CA key {URI} is where it was" in said
    wrong = replace(elsewhere, environment={**elsewhere.environment, "OCMCONSOLE_PKCS11_PIN": "1111"})
    del wrong.environment["OCMCONSOLE_PKCS11_PIN_FILE"]  # type: ignore[attr-defined] # a dict of our own
    assert "the token pkcs11:token=hub refuses the PIN (PinIncorrect)" in refused(wrong, "serve")
    with hubs.running(elsewhere), Fleet(elsewhere) as fleet:
        restored = replace(waiting, fleet=fleet)
        assert code(restored) == httpx.codes.OK
        renew(restored).beat()


def command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_a_rotation_into_a_token_is_shown_checked_and_forgets_what_it_leaves(
    token_here: Token, tmp_path: Path, settings: Any
) -> None:
    make.hub(tmp_path / "home", settings)
    admin = User.objects.create_superuser("admin")
    with pytest.raises(CommandError, match=f"^{URI}x: the token has no such key"):
        command("ca", "rotate", "client", "--key", f"{URI}x")
    assert URI not in command("ca", "status")
    assert re.search(rf"signs .* key SHA256:\S+, {URI}\n", command("ca", "rotate", "client", "--key", URI))
    command("ca", "retire", "client", "--force")
    assert "certificates: ok" in command("doctor")
    token_here.take_away()
    with pytest.raises(CommandError, match=r"^the token pkcs11:token=hub does not answer"):
        command("user_kubeconfig", "ana")
    out = StringIO()
    with pytest.raises(CommandError, match=r"^1 of \d+ checks failed"):
        call_command("doctor", stdout=out)
    assert "certificates: the token pkcs11:token=hub does not answer" in out.getvalue()
    token_here.bring_back()
    page = Client()
    page.force_login(admin)
    assert f"home: <code>{URI}</code> signs with it." in page.get(reverse("registration:ca")).content.decode()
    with pytest.raises(CommandError, match="say where the new one is, by --key"):
        command("ca", "rotate", "client")
    command("ca", "rotate", "client", "--key", "file")
    with pytest.raises(CommandError, match="leave out --key"):
        command("ca", "rotate", "client", "--back", "--key", URI)
    assert f"The hub has forgotten the key {URI}" in command("ca", "retire", "client", "--force")
