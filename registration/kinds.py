"""Registers CertificateSigningRequest, and says what of it each endpoint may write (W23)."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import Kind, Subresource, Version
from ocmconsole.kubeapi.schema import times, values
from ocmconsole.kubeapi.storage import audit_acts
from registration import wire
from registration.models import CertificateSigningRequest
from registration.pki import agent_names, ca

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

SCHEMA_FILES = Path(__file__).with_name("schemas")
DECISIONS = ("Approved", "Denied")
State = CertificateSigningRequest.State


def _merge(subresource: str, old: Doc | None, new: Doc) -> Doc:
    """Spec is written once; /approval takes decisions and metadata, /status the certificate and other conditions."""
    if old is None:
        return {**new, "status": {}}
    status = new.get("status")
    if subresource and not (
        isinstance(status, dict | None) and isinstance((status or {}).get("conditions"), list | None)
    ):
        return new  # for the schema to refuse
    if subresource == "status":
        merged: Doc = values.copied(old)
        merged["status"] = {**(new.get("status") or {}), "conditions": _with_old_decisions(old, new)}
        return merged
    merged = {**values.copied(old), "metadata": new["metadata"]}
    if subresource == "approval":
        merged["status"] = {**old.get("status", {}), "conditions": _mixed(old, new)}
    return merged


def _with_old_decisions(old: Doc, new: Doc) -> list[Doc]:
    """The new conditions; a decision in them stays as it was. One left out or added is for the rules to refuse."""
    decided = [condition for condition in conditions_of(old) if condition.get("type") in DECISIONS]
    return [  # compared and not looked up: what was sent as a type may be no text
        next((kept for kept in decided if kept["type"] == condition.get("type")), condition)
        for condition in conditions_of(new)
    ]


def _mixed(old: Doc, new: Doc) -> list[Doc]:
    """Decisions from the new document, all other conditions from the old one, in the order of the new."""
    wanted = [condition for condition in conditions_of(new) if condition.get("type") in DECISIONS]
    rest = [condition for condition in conditions_of(old) if condition.get("type") not in DECISIONS]
    order = [condition.get("type") for condition in (*conditions_of(new), *conditions_of(old))]
    return sorted((*wanted, *rest), key=lambda condition: order.index(condition.get("type")))


def conditions_of(doc: Doc) -> list[Any]:
    """Those of any form that defaults and ``_mixed`` can work with; the schema refuses the others."""
    status = doc.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return [condition for condition in found if isinstance(condition, dict)] if isinstance(found, list) else []


def adds(decision: str, old: Doc | None, new: Doc | None) -> bool:
    """Whether a write takes this decision."""
    before, after = ({condition.get("type") for condition in conditions_of(doc or {})} for doc in (old, new))
    return decision in after - before


def state_of(doc: Doc) -> State:
    """One word for where a request stands."""
    types = {condition.get("type") for condition in conditions_of(doc)}
    if "Denied" in types:
        return State.DENIED
    if "Failed" in types:
        return State.FAILED
    if (doc.get("status") or {}).get("certificate"):
        return State.ISSUED
    return State.APPROVED if "Approved" in types else State.PENDING


def request_pem(doc: Doc) -> bytes:
    """The PKCS#10 text. Raises ValueError when it is not base64."""
    try:
        return base64.b64decode(doc["spec"].get("request") or "", validate=True)
    except binascii.Error as error:
        msg = f"spec.request is not base64: {error}"
        raise ValueError(msg) from error


def certificate_pem(doc: Doc) -> bytes:
    return base64.b64decode((doc.get("status") or {}).get("certificate") or "")


def _project(row: CertificateSigningRequest, doc: Doc) -> None:
    labels = doc["metadata"].get("labels") or {}
    row.signer = doc["spec"]["signerName"]
    row.cluster = labels.get(agent_names.CLUSTER_LABEL, "")
    row.addon = labels.get(agent_names.ADDON_LABEL, "")
    row.username = doc["spec"].get("username", "")[:320]
    row.state = state_of(doc)
    moments = [condition["lastUpdateTime"] for condition in conditions_of(doc) if condition.get("lastUpdateTime")]
    row.decided_at = times.parse_time(max(moments)) if moments else None
    row.expires_at = ca.parse_certificate(certificate_pem(doc)).not_after if row.state is State.ISSUED else None
    row.key_fingerprint = ca.parse_request(request_pem(doc)).key_fingerprint


CERTIFICATE_SIGNING_REQUEST = kinds.register(
    Kind(
        kind="CertificateSigningRequest",
        plural="certificatesigningrequests",
        short_names=("csr",),
        namespaced=False,
        versions=(
            Version(
                group="certificates.k8s.io",
                version="v1",
                schema=schema_files.load(
                    SCHEMA_FILES / "certificatesigningrequests.v1.yaml",
                    name="io.k8s.api.certificates.v1.CertificateSigningRequest",
                ),
                columns=wire.CSR_COLUMNS,
                fields={"spec.signerName": lambda doc: doc["spec"].get("signerName", "")},
                protobuf=protobuf_fields.CERTIFICATE_SIGNING_REQUEST,
            ),
        ),
        model=CertificateSigningRequest,
        subresources=(Subresource("approval"), Subresource("status")),
        unconditional_update=True,
        name_check="segment",
        project=_project,
        merge=_merge,
    )
)

# Acts that the audit names (D11) besides the generic verbs.
for _act, _done in (
    ("managedcluster:accept-key", "New key accepted for a known name"),
    ("managedcluster:decline", "Declined"),
    ("managedcluster:evidence", "Evidence of the decision kept"),
    ("managedcluster:lift-decline", "Decline lifted"),
    ("managedcluster:repair", "Agent came back with a repair token"),
    ("certificatesigningrequest:approve", "Certificate request approved"),
    ("certificatesigningrequest:deny", "Certificate request denied"),
    ("certificatesigningrequest:fail", "Certificate request failed"),
    ("certificatesigningrequest:sign", "Certificate signed"),
    ("certificatesigningrequest:supersede", "Older certificate request superseded"),
    ("certificate:issue", "Certificate issued"),
    ("certificate:revoke", "Certificate revoked"),
    ("certificate:record", "Certificate recorded at its first use"),
    ("certificate:unknown", "Unknown certificate of the hub's CA refused"),
    ("hubaddress:create", "Address of the hub added to its certificate"),
    ("hubaddress:delete", "Address of the hub removed from its certificate"),
    ("approvalpolicy:create", "Approval policy made"),
    ("approvalpolicy:update", "Approval policy changed"),
    ("approvalpolicy:enable", "Approval policy enabled"),
    ("approvalpolicy:disable", "Approval policy disabled"),
    ("approvalpolicy:delete", "Approval policy deleted"),
    ("approvalpolicy:use", "Approval policy used"),
):
    audit_acts.declare(_act, _done)
