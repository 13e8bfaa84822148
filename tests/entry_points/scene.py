"""What every way of a suite meets, a cluster that waits with its request, and what a way leaves behind.

A trace is made of rows and audit entries as `manage.py dumpdata` prints them, so that the same code reads the database
of the test and that of a served hub. Two traces are equal when the ways did the same.
"""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.management import call_command

from clusters.models import ManagedCluster
from ocmconsole.kubeapi.access.actor import Actor
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import CertificateSigningRequest
from registration.pki import agent_names
from tests import factories as make
from tests.factories import ADMIN

Record = dict[str, Any]

APPS = ("clusters", "clustersets", "corekinds", "kubeapi", "registration")
AUDIT = "kubeapi.auditevent"
ISSUED = "registration.issuedcertificate"
# The order of writes, not what they left: kubectl needs two requests for what the others do in one transaction.
PROGRESS = {AUDIT, "kubeapi.change", "kubeapi.revision", "kubeapi.workitem"}
# How and when somebody came in; everything else of an audit entry must be equal.
OF_THE_WAY = {"entry_point", "credential", "address", "user_agent", "request_id", "time", "revision", "same"}
# Bookkeeping of each write: who wrote which field with which tool, and as which revision.
OF_THE_WRITE = {"managedFields", "resourceVersion", "resource_version"}
# Random by nature; that there is one must be equal.
RANDOM = {
    "certificate_fingerprint", "key_fingerprint", "fingerprint", "serial", "renew_time", "skew", "request", "line", "lines",
}  # fmt: skip
# What a person saw when they decided. A page and a command look at it; kubectl shows none.
EVIDENCE = "managedcluster:evidence"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@dataclass(frozen=True)
class Waiting:
    """A cluster that asks to join, and the name of its certificate request."""

    name: str
    request: str


def ask(name: str) -> Waiting:
    """Prepared in the test's own database."""
    make.cluster(name)
    return ask_again(Waiting(name, f"{name}-00001"))


def ask_again(waiting: Waiting, *, speaks_for: str = "", by: Actor = ADMIN) -> Waiting:
    """One more request, with a new key; ``speaks_for`` is what its subject claims, else the cluster."""
    spec = {
        "signerName": agent_names.SIGNER,
        "usages": sorted(agent_names.AGENT_USAGES),
        "request": base64.b64encode(_signing_request(speaks_for or waiting.name)).decode(),
    }
    labels = {agent_names.CLUSTER_LABEL: waiting.name}
    make.create(CSR, make.document(CSR, waiting.request, spec=spec, labels=labels), by=by)
    make.settle()
    return waiting


def _signing_request(cluster: str) -> bytes:
    group = f"system:open-cluster-management:{cluster}"
    parts = [
        (NameOID.ORGANIZATION_NAME, group),
        (NameOID.ORGANIZATION_NAME, "system:open-cluster-management:managed-clusters"),
        (NameOID.COMMON_NAME, f"{group}:agent"),
    ]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def is_accepted(waiting: Waiting) -> bool:
    return bool(ManagedCluster.objects.get(name=waiting.name).hub_accepts_client)


def state_of(waiting: Waiting) -> str:
    """One word for where the request stands."""
    return str(CertificateSigningRequest.objects.get(name=waiting.request).state)


# ---------------------------------------------------------------- what is in the database


def records() -> list[Record]:
    out = io.StringIO()
    call_command("dumpdata", *APPS, stdout=out)
    return parsed(out.getvalue())


def parsed(dump: str) -> list[Record]:
    found: list[Record] = json.loads(dump)
    return found


def everything_but_audit() -> list[Record]:
    """Rows, revisions, log and work: what a refusal leaves as it was. A way may need a kubeconfig to be refused."""
    return [record for record in records() if record["model"] != AUDIT and not _is_kubeconfig(record)]


def _is_kubeconfig(record: Record) -> bool:
    return bool(record["model"] == ISSUED and not record["fields"]["request"])


def rows_of(waiting: Waiting, found: list[Record]) -> list[str]:
    """Every row that names the cluster or its request, columns and documents, in comparable form."""
    about = [record for record in found if record["model"] not in PROGRESS and waiting.name in json.dumps(record)]
    return sorted(_comparable(waiting, {"model": record["model"], **record["fields"]}) for record in about)


def audit_of(waiting: Waiting, found: list[Record], *, user: str = "") -> list[str]:
    """Every audit entry about them, of everybody or of one user, but for what only the way explains."""
    fields = [record["fields"] for record in found if record["model"] == AUDIT and record["fields"]["act"] != EVIDENCE]
    about = [entry for entry in fields if waiting.name in json.dumps(entry) and user in {"", entry["user"]}]
    return sorted(
        _comparable(waiting, {name: value for name, value in entry.items() if name not in OF_THE_WAY})
        for entry in about
    )


def _comparable(waiting: Waiting, record: Record) -> str:
    if "wire" in record:
        record = {**record, "wire": json.loads(record["wire"])}
    text = json.dumps(_plain(record), sort_keys=True)
    return text.replace(waiting.request, "REQUEST").replace(waiting.name, "CLUSTER")


def _plain(value: Any) -> Any:
    """Without what differs between two runs of the same act through the same way."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return TIME.sub("TIME", UID.sub("UID", value))
    if not isinstance(value, dict):
        return value
    return {name: _part(name, part, value) for name, part in value.items() if name not in OF_THE_WRITE}


def _part(name: str, part: Any, whole: Record) -> Any:
    if name in RANDOM:
        return bool(part)
    if name == "common_name":
        return part.rpartition(":")[0]  # the agent's own part of it is random
    if name == "certificate":
        return _subject(part)
    if whole.get("path") == "status.certificate" and name == "new":
        return bool(part)  # cut short in the audit
    if whole.get("type") in {"Approved", "Denied"} and name in {"reason", "message"}:
        return "free text: each client has its own words"
    return _plain(part)


def _subject(encoded: str) -> list[str]:
    """Whom a signed certificate names, and for how long; the agent's own part of the name is random."""
    certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    names = [str(part.value) for part in certificate.subject]
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return [*sorted(name.rpartition(":")[0] for name in names), f"{lifetime.total_seconds():.0f} s"]
