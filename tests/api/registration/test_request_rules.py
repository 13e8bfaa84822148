"""What a certificate request may say, who writes which part of it, and what a decision or a certificate must be (W23)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from tests import factories as make
from tests import requests
from tests.actors import grant, rule

Doc = dict[str, Any]

pytestmark = [pytest.mark.django_db, pytest.mark.contract("W23")]

SIGNED_ELSEWHERE = "example.com/signer"
HERE = Key("", "r")
SIGNER = Actor(user="signer", groups=("system:authenticated",))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    make.hub(tmp_path, settings)
    return tmp_path


def ask(by: Actor = make.ADMIN, **spec: Any) -> Doc:
    """A request that no reconciler of the hub touches."""
    doc = requests.document("r", requests.agent_pem("c1"), cluster="c1", signerName=SIGNED_ELSEWHERE)
    doc["spec"] |= spec
    return make.create(CSR, doc, by=by)


def write(subresource: str, change: Callable[[Doc], Any], *, by: Actor = make.ADMIN) -> Doc:
    doc = verbs.edit(by, CSR, HERE, change, subresource=subresource).doc
    assert doc is not None
    return doc


def decide(*conditions: tuple[str, str], by: Actor = make.ADMIN) -> Doc:
    said = [{"type": kind, "status": status, "reason": "Test"} for kind, status in conditions]
    return write("approval", lambda doc: doc.setdefault("status", {}).update(conditions=said), by=by)


def certify(certificate: bytes, *, by: Actor = make.ADMIN) -> Doc:
    encoded = base64.b64encode(certificate).decode()
    return write("status", lambda doc: doc.setdefault("status", {}).update(certificate=encoded), by=by)


# ---------------------------------------------------------------- create


def test_the_caller_is_the_requester_whatever_the_body_says() -> None:
    grant(requests.BOOTSTRAP, rule("create", "certificatesigningrequests", groups=CSR.group))
    spec = ask(requests.BOOTSTRAP, username="root", groups=["system:masters"], uid="1", extra={"a": ["b"]})["spec"]
    assert spec["username"] == requests.BOOTSTRAP.user
    assert spec["groups"] == list(requests.BOOTSTRAP.groups)
    assert spec.keys().isdisjoint({"uid", "extra"})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"request": base64.b64encode(b"no request").decode()}, "spec.request: Invalid value"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "flying"]}, r'spec.usages\[1\]: Unsupported value: "flying"'),
        ({"usages": ["client auth", "client auth"]}, r'spec.usages\[1\]: Duplicate value: "client auth"'),
        ({"signerName": "nobody"}, "spec.signerName: Invalid value"),
        (
            {"expirationSeconds": 599},
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than",
        ),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            "spec.signerName: Invalid value: .*: the legacy signerName is not allowed via this API version",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_nobody_could_sign_is_not_stored(spec: Doc, said: str) -> None:
    with pytest.raises(errors.Invalid, match=said):
        ask(**spec)


# ---------------------------------------------------------------- decide


def test_the_hub_says_when_it_was_decided_where_the_client_does_not() -> None:
    ask()
    (condition,) = decide(("Approved", "True"))["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]


@pytest.mark.contract("W154")
@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([("Approved", "False")], 'Unsupported value: "False"'),
        ([("Approved", "True"), ("Denied", "True")], "mutually exclusive"),
        ([("Approved", "True"), ("Approved", "True")], "Duplicate value"),
    ],
    ids=str,
)
def test_a_decision_is_true_and_one(conditions: list[tuple[str, str]], said: str) -> None:
    ask()
    with pytest.raises(errors.Invalid, match=said):
        decide(*conditions)


@pytest.mark.contract("W154")
def test_a_decision_stays() -> None:
    ask()
    decide(("Approved", "True"))
    for conditions in ([], [("Denied", "True")]):
        with pytest.raises(errors.Invalid, match='may not remove a condition of type "Approved"'):
            decide(*conditions)


def test_any_other_condition_has_one_of_three_values() -> None:
    ask()
    noted = {"type": "Noted", "status": "Perhaps"}
    with pytest.raises(errors.Invalid, match='Unsupported value: "Perhaps"'):
        write("status", lambda doc: doc.setdefault("status", {}).update(conditions=[noted]))


@pytest.mark.contract("W154", "W23")
def test_the_status_takes_and_drops_no_decision() -> None:
    ask()
    noted = {"type": "Noted", "status": "True"}

    def say(*said: Doc) -> Doc:
        return write("status", lambda doc: doc.setdefault("status", {}).update(conditions=[*said]))

    for decision in ("Approved", "Denied"):
        with pytest.raises(errors.Invalid, match=f'updates may not add a condition of type "{decision}"'):
            say(noted, {"type": decision, "status": "True"})
    oddities: tuple[Any, ...] = ([], {"a": "b"}, 7, None)
    for odd in oddities:
        with pytest.raises(errors.Invalid, match=r"status\.conditions"):
            say({"type": odd, "status": "True"})
    (approved,) = decide(("Approved", "True"))["status"]["conditions"]
    for kept in ([], [noted]):
        with pytest.raises(errors.Invalid, match='updates may not remove a condition of type "Approved"'):
            say(*kept)
    stored = say(noted, approved | {"reason": "Another", "message": "changed"})["status"]["conditions"]
    assert [each["type"] for each in stored] == ["Noted", "Approved"]
    assert stored[1] == approved


def test_deciding_needs_the_verb_approve_on_the_signer() -> None:
    ask()
    may = "certificatesigningrequests certificatesigningrequests/approval"
    grant(SIGNER, rule("get patch", may, groups=CSR.group))
    with pytest.raises(errors.Forbidden, match=f'permitted to approve requests with signerName "{SIGNED_ELSEWHERE}"'):
        decide(("Approved", "True"), by=SIGNER)
    grant(SIGNER, rule("approve", "signers", groups=CSR.group, names=SIGNED_ELSEWHERE))
    assert decide(("Approved", "True"), by=SIGNER)["status"]["conditions"]


@pytest.mark.contract("D11")
def test_decisions_and_signatures_have_names_of_their_own_in_the_audit(home: Path) -> None:
    ask()
    decide(("Approved", "True"))
    certify(certificate_of(home))
    acts = AuditEvent.objects.filter(resource=CSR.resource).order_by("revision").values_list("act", flat=True)
    assert list(acts)[1:] == ["certificatesigningrequest:approve", "certificatesigningrequest:sign"]


# ---------------------------------------------------------------- sign


def certificate_of(tmp_path: Path) -> bytes:
    return (tmp_path / "ca.crt").read_bytes()


def test_signing_needs_the_verb_sign_on_the_signer(home: Path) -> None:
    ask()
    grant(SIGNER, rule("get patch", "certificatesigningrequests certificatesigningrequests/status", groups=CSR.group))
    with pytest.raises(errors.Forbidden, match=f'not permitted to sign requests with signerName "{SIGNED_ELSEWHERE}"'):
        certify(certificate_of(home), by=SIGNER)
    grant(SIGNER, rule("sign", "signers", groups=CSR.group, names="example.com/*"))
    assert certify(certificate_of(home), by=SIGNER)["status"]["certificate"]


def test_a_certificate_can_be_read_and_is_set_once(home: Path) -> None:
    ask()
    with pytest.raises(errors.Invalid, match="must contain at least one CERTIFICATE PEM block"):
        certify(b"no certificate")
    certify(certificate_of(home))
    with pytest.raises(errors.Invalid, match="updates may not modify a certificate that is set"):
        certify(certificate_of(home) * 2)
