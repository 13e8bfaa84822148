"""Certificate requests: what may be asked, decided and signed (W23 to W25)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.conformance.wire.api import PROTOBUF, Api, Doc, eventually, refused, worked
from tests.conformance.wire.conftest import Account, Made
from tests.conformance.wire.documents import REQUEST, REQUESTS, SIGNER, pem, request_spec
from tests.conformance.wire.identities import approve, bootstrap_token, grant, rule
from tests.conformance.wire.protobufs import envelope, labels, message, metadata

APPROVAL = "/approval"


def request(name: str, **spec: object) -> Doc:
    doc = REQUEST.doc(name)
    doc["spec"] |= spec
    return doc


def decision(kind: str, **more: object) -> Doc:
    return {"status": {"conditions": [{"type": kind, "status": "True", "reason": "Tested", "message": "", **more}]}}


@pytest.mark.contract("W23", "W154")
def test_requester_is_the_user_who_asked(admin: Api, bearer: Callable[[str], Api], name: str) -> None:
    token = bootstrap_token(admin)
    grant(
        admin,
        name,
        [rule("create get", "certificatesigningrequests", group="certificates.k8s.io")],
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"system:bootstrap:{token[:6]}"},
    )
    asker = bearer(token)
    eventually(lambda: asker.get(f"{REQUESTS}/{name}").status_code == 404)
    spec = asker.create(REQUESTS, request(name, username="somebody-else", groups=["system:masters"], uid="1"))["spec"]
    assert spec["username"] == f"system:bootstrap:{token[:6]}"
    assert {*spec["groups"]} == {"system:bootstrappers", "system:bootstrappers:managedcluster", "system:authenticated"}


@pytest.mark.contract("W23", "W154")
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"request": ""}, "spec.request"),
        ({"request": base64.b64encode(b"text").decode()}, "spec.request: Invalid value"),
        ({"request": base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n").decode()}, "spec.request: Invalid value"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["flying"]}, "spec.usages"),
        ({"signerName": ""}, "spec.signerName"),
        ({"signerName": "x"}, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        ({"expirationSeconds": 10}, "spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 600 seconds (10 minutes)"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_request_has_a_form(admin: Api, name: str, spec: Doc, text: str) -> None:
    refused(
        admin.post(REQUESTS, request(name, **spec)),
        422,
        "Invalid",
        f'CertificateSigningRequest.certificates.k8s.io "{name}" is invalid',
        text,
    )


@pytest.mark.contract("W24")
def test_masters_get_no_certificate(admin: Api, name: str) -> None:
    """Refused when asked for, or failed when approved."""
    answer = admin.post(REQUESTS, request(name, request=base64.b64encode(pem("root", "system:masters")).decode()))
    assert answer.status_code in {403, 422}, answer.text
    assert "system:masters" in answer.json()["message"]


@pytest.mark.contract("W23", "W154")
def test_main_path_changes_neither_spec_nor_status(admin: Api, name: str, made: Made) -> None:
    doc = made(REQUEST)
    patch = {"spec": {"signerName": "example.com/other"}, "metadata": {"labels": {"a": "b"}}, **decision("Approved")}
    told = admin.merge(f"{REQUESTS}/{name}", patch)
    assert told["spec"] == doc["spec"]
    assert not (told.get("status") or {}).get("conditions")
    assert told["metadata"]["labels"] == {"a": "b"}


@pytest.mark.contract("W23", "W154")
def test_approval_takes_decisions_and_labels(admin: Api, name: str, made: Made) -> None:
    made(REQUEST)
    told = admin.merge(
        f"{REQUESTS}/{name}/approval",
        {"metadata": {"labels": {"a": "b"}}, **decision("Approved", reason="Clusteradm Approve")},
    )
    (only,) = told["status"]["conditions"]
    assert (only["type"], only["reason"]) == ("Approved", "Clusteradm Approve")
    assert only["lastUpdateTime"]
    assert only["lastTransitionTime"]
    assert told["metadata"]["labels"] == {"a": "b"}


@pytest.mark.contract("W23", "W154")
@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({"status": "False"}, 'status.conditions[0].status: Unsupported value: "False": supported values: "True"'),
        ({"status": ""}, "status.conditions[0].status"),
        ({"type": ""}, "status.conditions[0].type"),
    ],
    ids=str,
)
def test_decision_has_a_form(admin: Api, name: str, made: Made, condition: Doc, text: str) -> None:
    """A condition without a type is no decision, and may be left aside."""
    made(REQUEST)
    answer = admin.patch(f"{REQUESTS}/{name}/approval", "merge", decision("Denied", **condition))
    if condition == {"type": ""} and answer.status_code == 200:
        assert not answer.json()["status"].get("conditions")
    else:
        refused(answer, 422, "Invalid", text)


@pytest.mark.contract("W154", "W23")
def test_decision_stands(admin: Api, name: str, made: Made) -> None:
    made(REQUEST)
    approve(admin, name)
    path = f"{REQUESTS}/{name}/approval"
    both = decision("Approved")["status"]["conditions"] + decision("Denied")["status"]["conditions"]

    def refusal(body: Doc) -> str:
        said: str = refused(admin.patch(path, "merge", body), 422, "Invalid")["message"]
        return said

    assert "Approved and Denied conditions are mutually exclusive" in refusal({"status": {"conditions": both}})
    assert 'updates may not remove a condition of type "Approved"' in refusal({"status": {"conditions": []}})


@pytest.mark.contract("W154", "W23")
@pytest.mark.parametrize("method", ["PUT", "merge", "strategic"])
def test_status_takes_and_drops_no_decision(admin: Api, name: str, method: str) -> None:
    """Of a signer that the server does not know, so that nobody else writes."""
    admin.create(REQUESTS, request(name, signerName="example.com/mine"))
    path = f"{REQUESTS}/{name}/status"

    def write(*conditions: Doc) -> httpx.Response:
        body: Doc = {"status": {"conditions": [*conditions]}}
        if method == "PUT":
            return admin.put(path, {**admin.read(f"{REQUESTS}/{name}"), **body})
        return admin.patch(path, method, body)

    (denied,) = decision("Denied")["status"]["conditions"]
    refused(write(denied), 422, "Invalid", 'updates may not add a condition of type "Denied"')
    (approved,) = approve(admin, name)["status"]["conditions"]
    other = {"type": "Other", "status": "True", "reason": "Tested", "message": ""}
    refused(write(), 422, "Invalid", 'updates may not remove a condition of type "Approved"')
    refused(write(other), 422, "Invalid", 'updates may not remove a condition of type "Approved"')
    told = worked(write({**approved, "message": "another"}, other))["status"]["conditions"]
    assert [each["type"] for each in told] == ["Approved", "Other"]
    assert told[0] == approved


@pytest.mark.contract("W105", "W23")
def test_approval_comes_as_protobuf(admin: Api, name: str, made: Made) -> None:
    """`kubectl certificate approve`: the whole object, with a condition whose times are empty messages."""
    doc = made(REQUEST)
    spec = message(
        (1, base64.b64decode(doc["spec"]["request"])), (2, doc["spec"]["username"]), (3, ""),
        *((4, group) for group in doc["spec"]["groups"]), *((5, usage) for usage in doc["spec"]["usages"]), (7, SIGNER),
    )  # fmt: skip
    text = "This CSR was approved by kubectl certificate approve."
    condition = message((1, "Approved"), (2, "KubectlApprove"), (3, text), (4, b""), (5, b""), (6, "True"))
    meta = metadata(name, uid=doc["metadata"]["uid"], resourceVersion=doc["metadata"]["resourceVersion"])
    body = envelope(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        message((1, meta), (2, spec), (3, message((1, condition)))),
    )
    told = worked(admin.ask("PUT", f"{REQUESTS}/{name}/approval", body, kind=PROTOBUF))
    (only,) = told["status"]["conditions"]
    assert (only["type"], only["reason"], only["message"], only["status"]) == (
        "Approved",
        "KubectlApprove",
        text,
        "True",
    )
    assert only["lastUpdateTime"] > "2020"


@pytest.mark.contract("W103", "W1", "W2")
def test_request_comes_as_protobuf(admin: Api, name: str) -> None:
    """An agent's first act: labels, no username, usages unpacked."""
    text = pem("system:open-cluster-management:c:a", "system:open-cluster-management:c")
    usages = [(5, usage) for usage in ("digital signature", "key encipherment", "client auth")]
    spec = message((1, text), (2, ""), (3, ""), *usages, (7, SIGNER), (8, 3600))
    meta = metadata("", generateName=f"{name}-") + message(*labels(**{"example.com/cluster": name}))
    body = envelope("certificates.k8s.io/v1", "CertificateSigningRequest", message((1, meta), (2, spec), (3, b"")))
    answer = admin.ask("POST", REQUESTS, body, kind=PROTOBUF, accept=f"{PROTOBUF},application/json")
    assert answer.status_code == 201
    if answer.headers["Content-Type"].startswith(PROTOBUF):
        admin.made.extend(
            f"{REQUESTS}/{each}" for each in admin.names(REQUESTS, labelSelector=f"example.com/cluster={name}")
        )
    (made,) = admin.items(REQUESTS, labelSelector=f"example.com/cluster={name}")
    assert made["metadata"]["name"].startswith(f"{name}-")
    assert base64.b64decode(made["spec"]["request"]) == text
    assert made["spec"]["expirationSeconds"] == 3600
    assert made["spec"]["username"]


@pytest.mark.contract("W24")
def test_certificate_is_what_was_asked_for(admin: Api, name: str) -> None:
    wanted = pem(f"user-{name}", "group-b", "group-a")
    admin.create(REQUESTS, request(name, **request_spec(wanted, expirationSeconds=3600)))
    approve(admin, name)
    issued = eventually(lambda: admin.read(f"{REQUESTS}/{name}").get("status", {}).get("certificate"))
    certificate = x509.load_pem_x509_certificate(base64.b64decode(issued))
    subject = certificate.subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [f"user-{name}"]
    assert {each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)} == {"group-a", "group-b"}
    now = datetime.now(UTC)
    assert now - timedelta(minutes=6) < certificate.not_valid_before_utc <= now
    assert now + timedelta(minutes=50) < certificate.not_valid_after_utc < now + timedelta(minutes=66)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [*usage] == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.contract("W24", "W25")
def test_denied_request_gets_nothing(admin: Api, name: str, made: Made) -> None:
    made(REQUEST)
    told = approve(admin, name, "Denied")
    assert [each["type"] for each in told["status"]["conditions"]] == ["Denied"]
    assert not admin.read(f"{REQUESTS}/{name}")["status"].get("certificate")


@pytest.mark.contract("W23")
def test_deciding_needs_two_rights(admin: Api, name: str, made: Made, limited: Account) -> None:
    """On the subresource, and on the signer."""
    made(REQUEST)
    group = "certificates.k8s.io"
    half = limited(
        rule("get", "certificatesigningrequests", group=group),
        rule("update patch", "certificatesigningrequests/approval", group=group),
    )
    eventually(lambda: half.get(f"{REQUESTS}/{name}").status_code == 200)
    refused(half.patch(f"{REQUESTS}/{name}/approval", "merge", decision("Approved")), 403, "Forbidden")
    whole = limited(
        rule("get", "certificatesigningrequests", group=group),
        rule("update patch", "certificatesigningrequests/approval", group=group),
        rule("approve", "signers", group=group, names=["kubernetes.io/*"]),
        called=f"{name}-whole",
    )
    eventually(lambda: whole.get(f"{REQUESTS}/{name}").status_code == 200)
    worked(whole.patch(f"{REQUESTS}/{name}/approval", "merge", decision("Approved")))


@pytest.mark.contract("W23")
def test_certificate_from_elsewhere_must_be_one(admin: Api, name: str) -> None:
    admin.create(REQUESTS, request(name, signerName="example.com/mine"))
    path = f"{REQUESTS}/{name}/status"
    bad = {"status": {"certificate": base64.b64encode(b"text").decode()}}
    refused(admin.patch(path, "merge", bad), 422, "Invalid", "status.certificate: Invalid value")


@pytest.mark.contract("W123", "W154")
def test_accepting_person_finds_the_requests_of_a_cluster(admin: Api, name: str) -> None:
    """Clusteradm writes blanks around the sign, and plus signs for blanks."""
    admin.create(REQUESTS, REQUEST.doc(name, labels={"open-cluster-management.io/cluster-name": name}))
    url = f"{REQUESTS}?labelSelector=open-cluster-management.io%2Fcluster-name+%3D+{name}"
    assert [each["metadata"]["name"] for each in worked(admin.http.get(url))["items"]] == [name]


@pytest.mark.contract("W25")
def test_request_can_be_forgotten(admin: Api, name: str, made: Made) -> None:
    made(REQUEST)
    worked(admin.delete(f"{REQUESTS}/{name}"))
    refused(admin.get(f"{REQUESTS}/{name}"), 404, "NotFound")
