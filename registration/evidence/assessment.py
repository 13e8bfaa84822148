"""What the hub knows about a request to join, and what it makes of it: Safe, Check or Blocked.

Invariant: what could not be computed counts as Check, never as Safe, and one name that breaks does not break a list.
The number of queries does not grow with the names. Called by pages, bulk decisions and their audit.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusters.models import ClusterFacts
from ocmconsole.environment.durations import in_words
from registration import superseding
from registration.evidence import evidence_queries, risk_checks
from registration.evidence.evidence_items import SUPERSEDED, Asked, Evidence, Fact, KeyHistory, Recorded, Verdict
from registration.keys import key_history, repair_tokens
from registration.kinds import conditions_of, state_of
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocmconsole.kubeapi.errors import Doc
    from registration.evidence.evidence_queries import Gathered
    from registration.keys.key_history import Asker
    from registration.models import CertificateSigningRequest

__all__ = ["Asked", "Evidence", "Fact", "KeyHistory", "Recorded", "Verdict", "evidence_of", "lifetime_text", "of_all"]

log = logging.getLogger(__name__)


def evidence_of(name: str) -> Evidence:
    """Evidence about one name; the cluster or the requests may be missing."""
    return of_all([name])[name]


def of_all(names: Iterable[str]) -> dict[str, Evidence]:
    """The same about many, in their order."""
    wanted = list(dict.fromkeys(names))
    gathered = evidence_queries.gather_evidence(wanted)
    return {name: of_gathered(name, gathered) for name in wanted}


def of_gathered(name: str, gathered: Gathered) -> Evidence:
    """Evidence about one of the names for which the rows were read."""
    cluster = gathered.clusters.get(name)
    found = Evidence(name, cluster, [], Recorded(), gathered.facts.get(name) or ClusterFacts(cluster=name))
    try:
        _fill(found, gathered)
    except Exception:
        log.exception("the evidence about %s cannot be computed", name)
        text = "The hub could not read all that it has about this name. Its log says why."
        found.checked = [Fact(ok=False, title="The evidence could not be computed", text=text, weight=Verdict.CHECK)]
    return found


def _fill(found: Evidence, gathered: Gathered) -> None:
    rows = gathered.requests.get(found.name, [])
    found.recorded = gathered.recorded(_newest(found.cluster, rows, gathered))
    found.has_namespace = found.name in gathered.namespaces
    found.declines = gathered.declines.get(found.name, [])
    found.keys = gathered.keys.get(found.name, [])
    found.earlier = gathered.lives.get(found.name, [])
    found.asked, gave_way = _standing([_asked(row, gathered) for row in rows])
    gave_way |= gathered.gave_way.get(found.name, {})
    found.superseded = sum(superseding.traced(gave_way, asked.name) for asked in found.waiting)
    found.checked = risk_checks.checked(found, gathered)


def _standing(asked: list[Asked]) -> tuple[list[Asked], dict[str, str]]:
    """The requests, of which those that give way wait no more, and which gives way to which (K11)."""
    if len(asked) < 2:  # noqa: PLR2004 - one alone has nothing to give way to
        return asked, {}
    gave_way = superseding.giving_way([
        superseding.candidate(each.doc, each.asker, state=each.state, created=each.asked) for each in asked
    ])  # fmt: skip
    return [replace(each, state=SUPERSEDED) if each.name in gave_way else each for each in asked], gave_way


def _newest(cluster: Any, rows: list[CertificateSigningRequest], gathered: Gathered) -> Any:
    created = (gathered.creation_of(row) for row in rows)
    return next((event for event in created if event is not None), None) or gathered.creation_of(cluster)


def _asked(row: CertificateSigningRequest, gathered: Gathered) -> Asked:
    doc = row.doc
    spec = doc["spec"]
    event = gathered.creation_of(row)
    request, asker = key_history.requested(doc), key_history.asker_of(event, user=spec.get("username", ""))
    usages = spec.get("usages") or []
    return Asked(
        name=row.name,
        uid=row.uid,
        resource_version=row.resource_version,
        asked=row.created,
        doc=doc,
        request=request,
        requester=spec.get("username", ""),
        groups=tuple(spec.get("groups") or ()),
        signer=row.signer,
        usages=tuple(usages),
        expires=lifetime_text(spec.get("expirationSeconds")),
        state=str(state_of(doc)),
        problems=tuple(agent_names.identity_problems(request, cluster=row.cluster, signer=row.signer, usages=usages)),
        recorded=gathered.recorded(event),
        asker=asker,
        history=_history(row, doc, request.key_fingerprint, asker, gathered),
        reason=_decision_text(doc),
        decline=key_history.decline_among(gathered.declines.get(row.cluster, ()), request.key_fingerprint, asker),
    )


def _history(
    row: CertificateSigningRequest, doc: Doc, fingerprint: str, asker: Asker, gathered: Gathered
) -> KeyHistory:
    known = {key.fingerprint for key in gathered.keys.get(row.cluster, ())}
    closed = gathered.closed_keys.get(row.cluster, set())
    if known and not key_history.is_strange(fingerprint, known, closed):
        return KeyHistory.KNOWN
    if key_history.is_renewal(doc, asker, row.cluster, gathered.revoked.__contains__):
        return KeyHistory.RENEWAL
    if (token := gathered.tokens.get(asker.credential)) is not None and token.is_repair:
        continues = repair_tokens.continued_by(doc, row.cluster, asker) is not None
        return KeyHistory.REPAIR if continues else KeyHistory.UNKNOWN
    return KeyHistory.UNKNOWN if known else KeyHistory.FIRST


def _decision_text(doc: Doc) -> str:
    return next((condition.get("message", "") for condition in conditions_of(doc)), "")


def lifetime_text(seconds: float | None) -> str:
    """``365 days``, ``12 hours``; the hub's default when nothing was asked."""
    return in_words(timedelta(seconds=round(seconds))) if seconds else "the hub's default lifetime"
