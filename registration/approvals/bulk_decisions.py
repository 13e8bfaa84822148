"""Decisions about several requests: each authorized, checked and recorded by itself, as if made alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clusters import cluster_rights
from clusters.fleet import bulk_acts as clusters_bulk
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterPermission
from ocmconsole.components.links import explain_url
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.control import bulk_jobs
from registration.approvals import inbox, sending_away, services, snooze, stale_decision
from registration.approvals.forms import DisconnectForm, PresetReasonForm, UntilForm
from registration.approvals.stale_decision import SeenVersions
from registration.evidence.evidence_items import Verdict
from registration.models import IssuedCertificate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.control.bulk_jobs import Arguments
    from ocmconsole.kubeapi.models import BulkJob, BulkSelection
    from registration.approvals.inbox import Filter

WHY = "Revoked with others on the page of selected clusters."
BACK = ("registration:approvals", "Approvals")
LACKING = f"takes {ClusterPermission.ACCEPT}"


GONE = "it does not wait any more, or you may not see it"
CHANGED = "it changed since you selected it"
MOVED_ON = frozenset({GONE, CHANGED})


def _accept(actor: Actor, name: str, arguments: Arguments) -> str:
    """Never one that is Blocked: the service refuses it without an override."""
    approved = services.accept_cluster(actor, name, seen=_seen(arguments))
    return (
        f"its request {approved[0]} is approved"
        if approved
        else "it has not asked for a certificate yet: that request waits for a decision of its own"
    )


def _decline(actor: Actor, name: str, arguments: Arguments) -> str:
    denied = services.decline_cluster(actor, name, reason=arguments["reason"], seen=_seen(arguments))
    return f"its request {denied[0]} is denied" if denied else "its name is refused"


def _put_off(actor: Actor, name: str, arguments: Arguments) -> str:
    """Raises NotFound, Conflict when it is not what the person selected any more."""
    until = datetime.fromisoformat(arguments["until"]) if arguments["until"] else None
    if not snooze.put_off(actor, name, _seen(arguments), until):
        raise errors.Conflict(stale_decision.refusal_text(name, _seen(arguments)))
    return ""


def _seen(arguments: Arguments) -> SeenVersions:
    return SeenVersions(arguments["cluster"], arguments["requests"])


def _until(form: Any) -> dict[str, Any]:
    moment = form.moment()
    return {"until": moment.isoformat() if moment else ""}


def _reason(form: Any) -> dict[str, Any]:
    return {"reason": form.cleaned_data["words"]}


# What can be done to many requests at once, in the order of the buttons.
ACTS = {
    act.name: act
    for act in (
        clusters_bulk.ClusterAct(
            "later", "Put off", "put off",
            perform=_put_off, allowed=lambda _, names: set(names), form=UntilForm, arguments=_until,
            effects=("You alone do not see them meanwhile; they still wait for everybody else.",
                     "One that changes comes back at once."),
        ),
        clusters_bulk.ClusterAct(
            "decline", "Decline", "declined",
            perform=_decline, permit=services.require_accept, allowed=services.acceptable, lacking=LACKING,
            right=("update", cluster_rights.ACCEPT_RESOURCE), form=PresetReasonForm, arguments=_reason,
            commands=lambda _, names, __: [
                f"for name in {' '.join(names)}; do {PROGRAM} decline $name --reason '…'; done"
            ],
            effects=("Their certificate requests are denied with your reason.",
                     "The same keys, and the same credentials for these names, stay refused until that is lifted."),
        ),
        clusters_bulk.ClusterAct(
            "accept", "Accept", "accepted",
            perform=_accept, permit=services.require_accept, allowed=services.acceptable, lacking=LACKING,
            right=("update", cluster_rights.ACCEPT_RESOURCE),
            commands=lambda _, names, __: [f"{PROGRAM} accept {' '.join(names)}"],
            effects=("The newest certificate request of each is approved, and each cluster is let in.",),
        ),
    )
}  # fmt: skip
for _act in ACTS.values():
    bulk_jobs.register(
        replace(
            clusters_bulk.job_of(_act, "registration", page="registration:request", back=BACK),
            is_audited=_act.name != "later",
        )
    )


def select_requests(
    actor: Actor, names: Iterable[str], wanted: Filter, *, every_safe: bool = False, query: str = ""
) -> BulkSelection:
    """Keep the named requests, or with ``every_safe`` all safe ones that the filter shows on all its pages as well.

    Each is kept with what the person saw of it, all of them with the ``query`` of the list. What is decided one by one
    is never among them.
    """
    rows = {row.name: row for row in inbox.rows_of(actor, names)}
    if every_safe:
        shown = inbox.shown_rows(inbox.inbox_for(actor, wanted).rows, wanted)
        rows |= {row.name: row for row in shown if row.verdict is Verdict.SAFE}
    chosen = sorted((row for row in rows.values() if row.can_select), key=lambda row: row.order)
    items = {row.name: {**asdict(row.seen), "verdict": str(row.verdict)} for row in chosen}
    return bulk_jobs.store_selection(actor, items, query=query)


def plan_requests(
    actor: Actor, act: clusters_bulk.ClusterAct, items: Mapping[str, Arguments]
) -> clusters_bulk.BulkPlan:
    """What the act would do to a selection now; a number of queries that does not grow with it."""
    rows = {row.name: row for row in inbox.rows_of(actor, items)}
    may = act.allowed(actor, rows)
    steps = []
    for name, given in items.items():
        row = rows.get(name)
        if row is not None and name not in may:
            verb, resource = act.right
            steps.append(clusters_bulk.BulkStep(name, "", act.lacking, explain_url(verb, resource, name=name), row))
        else:
            steps.append(clusters_bulk.BulkStep(name, "", _obstacle(row, given), row=row))
    return clusters_bulk.BulkPlan(steps)


def _obstacle(row: inbox.InboxRow | None, given: Arguments) -> str:
    if row is None:
        return GONE
    if row.verdict is Verdict.BLOCKED:
        return "it is blocked: such requests are decided one by one"
    is_worse = given.get("verdict") == str(Verdict.SAFE) and row.verdict is not Verdict.SAFE
    return (
        ""
        if not is_worse and stale_decision.is_present(_seen(given), row.found.cluster, row.found.waiting)
        else CHANGED
    )


def start_requests(
    actor: Actor,
    act: clusters_bulk.ClusterAct,
    planned: clusters_bulk.BulkPlan,
    items: Mapping[str, Arguments],
    arguments: Arguments,
) -> BulkJob:
    """Begin the job for what can be done, and for what moved on meanwhile: of that the results say why not."""
    job = bulk_jobs.find_act(f"registration.{act.name}")
    assert job is not None
    moved_on = act.allowed(actor, [step.name for step in planned.steps if step.obstacle in MOVED_ON])
    names = [step.name for step in planned.steps if not step.obstacle or step.name in moved_on]
    return bulk_jobs.start_job(actor, job, {name: items[name] for name in names}, **arguments)


def _may_revoke(actor: Actor, fingerprint: str) -> None:
    """Raises Forbidden, as the act itself does; a certificate that is unknown is for the act to refuse."""
    row = IssuedCertificate.objects.filter(pk=fingerprint).first()
    if row is not None and row.cluster:
        services.require_accept(actor, row.cluster)


def _revoke(actor: Actor, fingerprint: str, arguments: Arguments) -> str:
    row = services.revoke_certificate(actor, fingerprint, reason=arguments["reason"])
    return f"that of {row.common_name}"


REVOKE = bulk_jobs.register(
    bulk_jobs.BulkAct(
        name="registration.revoke",
        title="Revoke",
        done="revoked",
        resource=MANAGED_CLUSTER.resource,
        page="registration:revoke",
        back=("registration:certificates", "Certificates"),
        perform=_revoke,
        permit=_may_revoke,
        noun="certificate",
    )
)


def revoke_certificates(actor: Actor, fingerprints: Iterable[str], *, reason: str) -> BulkJob:
    return bulk_jobs.start_job(actor, REVOKE, {fingerprint: {} for fingerprint in fingerprints}, reason=reason)


def _disconnect(actor: Actor, name: str, arguments: Arguments) -> str:
    revoked = sending_away.send_away(actor, name, revoke=arguments["revoke"])
    return f"{len(revoked)} certificate{'s' * (len(revoked) != 1)} revoked" if arguments["revoke"] else ""


def _revoke_all(actor: Actor, name: str, arguments: Arguments) -> str:  # noqa: ARG001 - the signature of acts
    revoked = services.revoke_all(actor, name, reason=WHY)
    return f"{len(revoked)} certificate{'s' * (len(revoked) != 1)} revoked" if revoked else "none was valid any more"


clusters_bulk.register(
    clusters_bulk.ClusterAct(
        "disconnect", "Disconnect", "disconnected",
        perform=_disconnect, allowed=services.acceptable, lacking=LACKING,
        right=("update", cluster_rights.ACCEPT_RESOURCE), form=DisconnectForm,
        obstacle=lambda row: "" if row.hub_accepts_client else "it is not let in",
        arguments=lambda form: {"revoke": form.cleaned_data["revoke"]},
        effects=(
            "The agents lose their rights within a second; the clusters stay in the list as Disconnected.",
            "Letting them in again on their pages restores everything, as long as their certificates are valid.",
        ),
    )
)  # fmt: skip
clusters_bulk.register(
    clusters_bulk.ClusterAct(
        "revoke", "Revoke certificates", "revoked",
        perform=_revoke_all, allowed=services.acceptable, lacking=LACKING,
        right=("update", cluster_rights.ACCEPT_RESOURCE), is_final=True,
        effects=(
            "Every valid certificate of each cluster ends within a second; its agent can neither speak nor renew.",
            "The clusters stay accepted. To come back, an agent needs a new bootstrap kubeconfig and a decision.",
        ),
    )
)  # fmt: skip
