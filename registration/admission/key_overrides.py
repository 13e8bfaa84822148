"""Overrides as acts that can take two people (D9, K7): what another person has to look at, and whether they have.

An override is the moment in which a key outside the line of a known name is accepted, or one of several who ask for a
name at once, who approves the request and by which way; the record of decisions calls ``agreed`` there, under the
counter's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import clock
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.rules import ActName
from registration.keys import key_history, key_lines, repair_tokens
from registration.models import CertificateSigningRequest
from registration.pki import agent_names

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.second_approval.models import ProposedAct
    from registration.keys.key_history import KeyOverride

State = CertificateSigningRequest.State


def agreed(actor: Actor, cluster: str, doc: Doc, override: KeyOverride | None) -> list[Model]:
    """D9: rows to save with the approval of a request, where it is an override that other people agree to.

    Raises Deferred where they do not yet.
    """
    if acts.rule_of(ActName.KEY_OVERRIDE) is None or not _is_override(cluster, doc, override):
        return []
    key = key_history.requested(doc).key_fingerprint
    is_meant = override is not None and override.cluster == cluster
    return gate.passed(
        gate.WantedAct(
            actor,
            ActName.KEY_OVERRIDE,
            cluster,
            {"key": key},
            _evidence(cluster, doc),
            reason=key_history.reason_of(override, cluster, key),
            also={"set": override.clusterset} if override is not None and is_meant and override.clusterset else {},
        )
    )


def _is_override(cluster: str, doc: Doc, override: KeyOverride | None) -> bool:
    asker = key_history.asker_of_request(doc)
    if key_history.is_renewal(doc, asker, cluster):
        return False
    if override is None and repair_tokens.continued_by(doc, cluster, asker) is not None:
        return False
    if key_history.is_unknown_key(cluster, key_history.requested(doc).key_fingerprint):
        return True
    others = key_history.askers_of_requests([row.doc for row in _others(cluster, doc)])
    return any(other.same != asker.same for other in others.values())


def evidence_of(found: ProposedAct) -> Doc | None:
    """As it is now; None where no request with this key waits any more."""
    rows = CertificateSigningRequest.objects.filter(
        state=State.PENDING, key_fingerprint=found.arguments["key"], signer=agent_names.SIGNER
    )
    fitting = [row.doc for row in rows.order_by("-created", "-pk") if found.subject in key_history.names_of(row.doc)]
    return _evidence(found.subject, fitting[0]) if fitting else None


def _evidence(cluster: str, doc: Doc) -> Doc:
    """In the words of the page that shows it. What the approval itself changes is no part of it."""
    request, asker = key_history.requested(doc), key_history.asker_of_request(doc)
    keys = sorted(key_history.present_keys(cluster), key=lambda key: (key.accepted_at, key.fingerprint))
    return {
        "Request": {
            "name": doc["metadata"]["name"],
            "uid": doc["metadata"]["uid"],
            "key": request.key_fingerprint,
            "kind of key": request.key_text,
            "common name": request.common_name,
            "organizations": sorted(request.organizations),
            "asked by": asker.user,
            "with": asker.credential,
            "from": asker.address,
            "at": asker.at.isoformat() if asker.at else "",
        },
        "Keys that were accepted": [
            {"key": key.fingerprint, "by": key.accepted_by, "at": key.accepted_at.isoformat(), "how": key.how}
            for key in keys
        ],
        "Certificates that end": [
            {"certificate": row.pk, "of": row.common_name, "until": row.not_after.isoformat()}
            for row in key_lines.certificates_of(cluster, clock.now())
        ],
        "Others who ask": [_other(row) for row in _others(cluster, doc)],
        "Declined": [
            {"key": each.fingerprint, "by": each.declined_by, "reason": each.reason}
            for each in key_history.present_declines(cluster)
        ],
    }


def _others(cluster: str, doc: Doc) -> QuerySet[CertificateSigningRequest]:
    """Who else waits to be let in under the name."""
    found = CertificateSigningRequest.objects.filter(cluster=cluster, addon="", state=State.PENDING)
    return found.exclude(uid=doc["metadata"]["uid"]).order_by("name")


def _other(row: CertificateSigningRequest) -> dict[str, Any]:
    asker = key_history.asker_of_request(row.doc)
    return {"request": row.name, "key": row.key_fingerprint, "with": asker.credential, "from": asker.address}
