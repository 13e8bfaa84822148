"""Printer columns of CertificateSigningRequest: functions of the served document."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ocmconsole.core.wire import AGE
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.formats import tables
from ocmconsole.kubeapi.kinds import PrinterColumn

_START = datetime(2000, 1, 1, tzinfo=UTC)


def request_state(doc: Doc) -> str:
    """``Pending``, ``Approved``, ``Approved,Issued``, ``Denied``, with ``,Failed`` behind the decision."""
    status = doc.get("status") or {}
    types = {found.get("type") for found in status.get("conditions") or ()}
    word = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    issued = ",Issued" if status.get("certificate") else ""
    return word + failed + issued


def requested_duration(doc: Doc) -> str:
    seconds = (doc.get("spec") or {}).get("expirationSeconds")
    if seconds is None:
        return "<none>"
    return tables.age(_START, _START + timedelta(seconds=seconds))


def _signer(doc: Doc) -> str:
    return (doc.get("spec") or {}).get("signerName") or "<none>"


CSR_COLUMNS = (
    AGE,
    PrinterColumn("SignerName", "string", _signer, description="Who should sign."),
    PrinterColumn("Requestor", "string", ".spec.username", description="Who asked."),
    PrinterColumn(
        "RequestedDuration", "string", requested_duration, description="How long the certificate should last."
    ),
    PrinterColumn("Condition", "string", request_state, description="What became of the request."),
)
