"""CA keys in a token of SoftHSM: what is signed, what a rotation does, and what is said when one is not there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from registration.pki import ca, pkcs11_keys
from tests import softhsm, tools
from tests.conftest import missing
from tests.softhsm import Token
from tests.unit.registration.test_ca import DAY, NAMES, NOW, Organisation, csr
from tests.unit.registration.test_ca_rotation import CLIENT, SERVING, content, openssl_believes, trusts

pytestmark = pytest.mark.contract("W24")

FIRST, SECOND = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Token:
    """With the keys ``first`` and ``second``."""
    if (module := tools.softhsm()) is None:
        missing("softhsm2")
    token = Token(tmp_path_factory.mktemp("token") / "softhsm", module)
    token.make()
    token.put("first", FIRST)
    token.put("second", SECOND)
    return token


@pytest.fixture
def token(made: Token, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Token]:
    made.use(monkeypatch, settings)
    yield made
    softhsm.forget()


def uri(label: str) -> str:
    return f"pkcs11:token=hub;object={label}"


def start(home: Path) -> ca.Authority:
    ca.ensure_authority(home, NAMES, now=NOW)
    return ca.client_authority(home, now=NOW)


def first_start(home: Path, line: str, file: str = "ca.key") -> ca.Authority:
    home.mkdir(exist_ok=True)
    (home / file).write_text(f"{line}\n")
    return start(home)


def issue(home: Path) -> bytes:
    return ca.client_authority(home, now=NOW).sign_client(csr(), usages=("client auth",), lifetime=30 * DAY, now=NOW)


def step(home: Path, act: Any, role: ca.AuthorityRole = CLIENT, **options: str) -> ca.Authority:
    done: ca.Authority = act(home, role, note=lambda _: None, now=NOW, **options)
    start(home)  # as each server does
    return done


# ---------------------------------------------------------------- signing


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("first", FIRST),
        ("p384", ec.generate_private_key(ec.SECP384R1())),
        ("rsa", rsa.generate_private_key(65537, 2048)),
    ],
    ids=["P-256", "P-384", "RSA"],
)
def test_a_first_start_makes_a_ca_of_the_key_that_its_file_names(
    token: Token, tmp_path: Path, label: str, key: softhsm.Key
) -> None:
    place = uri(label) if key is FIRST else token.put(label, key)
    authority = first_start(tmp_path / "home", place)
    assert authority.certificate.public_key() == key.public_key()
    assert authority.key_place == place
    assert trusts(tmp_path / "home", issue(tmp_path / "home"))
    assert openssl_believes(tmp_path / "home", (tmp_path / "home" / "ca.crt").read_bytes(), tmp_path)
    assert b"PRIVATE KEY" not in (tmp_path / "home" / "ca.key").read_bytes()
    with pytest.raises(TypeError, match="does not leave its place"):
        authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_the_ca_of_clients_may_be_in_a_token_and_that_of_serving_in_a_file(token: Token, tmp_path: Path) -> None:
    authority = first_start(tmp_path, uri("first"), "client-ca.key")
    assert authority.certificate.public_key() == FIRST.public_key()
    assert ca.serving_authority(tmp_path, now=NOW).key_place == ""
    assert ca.key_places(tmp_path) == [uri("first")]
    assert trusts(tmp_path, issue(tmp_path))


def test_an_organisation_brings_its_certificate_and_names_the_key(token: Token, tmp_path: Path) -> None:
    organisation = Organisation()
    organisation.place(tmp_path)
    place = token.put("organisation", organisation.key)
    assert first_start(tmp_path, place).certificate == organisation.middle
    assert trusts(tmp_path, issue(tmp_path))


def test_threads_and_forked_processes_sign_at_once(token: Token, tmp_path: Path) -> None:
    authority = first_start(tmp_path, uri("first"))
    wrong: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                authority.issue(x509.Name([]), SECOND.public_key(), (), timedelta(days=1), NOW)
        except Exception as error:  # noqa: BLE001 - shown below
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(2):
        if (child := os.fork()) == 0:
            wrong.clear()
            work()
            os._exit(len(wrong))
        children.append(child)
    for thread in threads:
        thread.join()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    work()
    assert wrong == []


# ---------------------------------------------------------------- rotation


@pytest.mark.parametrize("role", [CLIENT, SERVING])
def test_a_rotation_takes_a_key_from_a_file_into_a_token_and_back(
    token: Token, tmp_path: Path, role: ca.AuthorityRole
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    start(home)
    earlier, pinned = issue(home), (home / "ca.crt").read_bytes()
    new = step(home, ca.rotate, role, place=uri("first"))
    assert new.key_place == uri("first")
    assert trusts(home, earlier)
    assert trusts(home, issue(home))
    assert openssl_believes(home, pinned, tmp_path)
    assert step(home, ca.turn_back, role).key_place == ""
    with pytest.raises(ca.RotationError, match="goes on with the key that it began with: leave out --key"):
        ca.rotate(home, role, note=lambda _: None, place=uri("second"), now=NOW)
    step(home, ca.rotate, role)
    step(home, ca.retire, role)
    assert b"PRIVATE KEY" not in (home / f"{'client-ca' if role is CLIENT else 'ca'}.key").read_bytes()
    with pytest.raises(ca.RotationError, match=r"not in the home \(pkcs11:.*\): say where the new one is, by --key"):
        ca.rotate(home, role, note=lambda _: None, now=NOW)
    with pytest.raises(ca.RotationError, match="is the key of a CA of this hub already"):
        ca.rotate(home, role, note=lambda _: None, place=uri("first"), now=NOW)
    assert step(home, ca.rotate, role, place=uri("second")).key_place == uri("second")
    step(home, ca.retire, role)
    assert ca.key_places(home) == [uri("second")]
    assert step(home, ca.rotate, role, place="file").key_place == ""
    assert trusts(home, issue(home))


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("pkcs11:token=hub", "does not say which key"),
        ("pkcs11:object=first", "does not say which key"),
        ("pkcs11:token=hub;object=first;slot-id=3", "'slot-id' is not one of token, "),
        ("pkcs11:token=hub;token=other;object=first", "'token' is not one of token, "),
        ("pkcs11:token=hub;object=first;type=public", "is not a private key"),
        ("pkcs11:token=hub;object=%ff", "it is not UTF-8"),
        ("pkcs11:token=hub;object=first?pin-value=482615", "^pkcs11:token=hub;object=first says more .* settings"),
        ("pkcs11:token=hub;pin-value=482615;object=first", "'pin-value' is not one of token, "),
        ("pkcs11:token=hub;object=none", "the token has no such key"),
    ],
)
def test_a_uri_that_names_no_key_is_refused_in_a_sentence(token: Token, tmp_path: Path, place: str, text: str) -> None:
    with pytest.raises(ca.AuthorityError, match=text) as refused:
        first_start(tmp_path, place)
    assert softhsm.PIN not in str(refused.value)
    assert sorted(content(tmp_path)) == ["ca.key"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("OCMCONSOLE_PKCS11_MODULE", "", r"^the key pkcs11:\S+ is in a token: set OCMCONSOLE_PKCS11_MODULE"),
        ("OCMCONSOLE_PKCS11_MODULE", "/nowhere.so", "there is no such file"),
        ("OCMCONSOLE_PKCS11_MODULE", __file__, "is no PKCS #11 module"),
        ("OCMCONSOLE_PKCS11_PIN", "", "wants a PIN: set OCMCONSOLE_PKCS11_PIN_FILE"),
        ("OCMCONSOLE_PKCS11_PIN", "111111", r"refuses the PIN \(PinIncorrect\): see to OCMCONSOLE_PKCS11_PIN_FILE"),
    ],
)
def test_settings_that_open_no_token_are_said_at_the_start_and_nothing_changes(
    token: Token, tmp_path: Path, settings: Any, name: str, value: str, text: str
) -> None:
    first_start(tmp_path, uri("first"))
    before = content(tmp_path)
    pkcs11_keys._tokens.begin_anew()
    setattr(settings, name, value)
    with pytest.raises(ca.AuthorityError, match=text) as refused:
        start(tmp_path)
    assert not isinstance(refused.value, ca.KeyAwayError)
    assert [str(refused.value)] == ca.key_problems(tmp_path)
    assert content(tmp_path) == before


def test_a_pin_that_was_refused_is_not_tried_again(token: Token, tmp_path: Path, settings: Any) -> None:
    first_start(tmp_path, uri("first"))
    pkcs11_keys._tokens.begin_anew()
    settings.OCMCONSOLE_PKCS11_PIN = "111111"
    said = ca.key_problems(tmp_path)
    token.take_away()
    try:
        assert ca.key_problems(tmp_path) == said  # nobody asked the token
    finally:
        token.bring_back()
    settings.OCMCONSOLE_PKCS11_PIN = softhsm.PIN
    assert ca.key_problems(tmp_path) == []


def test_a_key_of_another_certificate_signs_nothing(
    token: Token, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """Named in the file, or put into a token in the place of the one that was there."""
    home = tmp_path / "home"
    first_start(home, uri("first"))
    written = (home / "ca.key").read_text()
    (home / "ca.key").write_text(f"{uri('second')}\n")
    with pytest.raises(ca.AuthorityError, match=r"^ca\.key is not the key of the first certificate in ca\.crt"):
        start(home)
    (home / "ca.key").write_text(written)
    other = replace(token, folder=tmp_path / "other")
    other.make()
    other.put("first", SECOND)
    other.use(monkeypatch, settings)
    before = content(home)
    for act in (start, issue):
        with pytest.raises(ca.AuthorityError, match="signs with another key than that of the CA's certificate"):
            act(home)
    assert content(home) == before


def test_a_token_that_is_away_holds_up_what_must_be_signed_and_nothing_else(
    token: Token, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first_start(tmp_path, uri("first"))
    issued, before = issue(tmp_path), content(tmp_path)
    token.take_away()
    try:
        with pytest.raises(ca.KeyAwayError, match=r"^the token pkcs11:token=hub does not answer"):
            issue(tmp_path)
        start(tmp_path)
        assert "no certificate is signed for now: the token pkcs11:token=hub does not" in caplog.text
        assert trusts(tmp_path, issued)
        with pytest.raises(ca.KeyAwayError):
            ca.ensure_authority(tmp_path, ["elsewhere.example.com"], now=NOW)
        assert content(tmp_path) == before
        assert len(ca.key_problems(tmp_path)) == 1
    finally:
        token.bring_back()
    assert trusts(tmp_path, issue(tmp_path))
    assert ca.key_problems(tmp_path) == []


def test_a_token_that_did_not_answer_is_left_alone_for_some_seconds(
    token: Token, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_start(tmp_path, uri("first"))
    monkeypatch.setattr(pkcs11_keys, "REST_SECONDS", 60.0)
    token.take_away()
    said = ca.key_problems(tmp_path)
    token.bring_back()
    assert ca.key_problems(tmp_path) == said != []
