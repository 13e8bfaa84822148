"""What a decision about a request leaves behind, and what no later one may undo without saying so (D9, D10).

The validators and records of ``key_history``: they hold for every entry point, the hub's own reconcilers included. Who
may decide at all is checked before, in ``request_admission``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusters import webhook_refusals
from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from clusters.models import ClusterPermission
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import (
    admission,
    clock,
    errors,
    request_cache,
)
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.values import quoted
from registration.admission import key_overrides
from registration.admission.request_admission import request_forbidden
from registration.keys import key_history, key_lines, repair_tokens
from registration.keys.key_history import KeyOverride
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import adds, conditions_of
from registration.models import Decline
from registration.pki import agent_names

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from registration.keys.key_history import Asker

AUTO_ACCEPTED = "open-cluster-management.io/automatically-accepted-on"
# D9, H9: annotations by which an agent could have its own key accepted, or itself be accepted again by the gate.
GUARDED_ANNOTATIONS = (ACCEPT_KEY, AUTO_ACCEPTED)
FINGERPRINT = re.compile(r"SHA256:[0-9a-f]{64}")


# ---------------------------------------------------------------- approving


@admission.validator(CSR, subresource="approval")
def declined_stays_declined(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """D10: what was declined (key, credential, name) is not approved until a person lifts it. Raises Forbidden."""
    if not adds("Approved", old, new):
        return
    fingerprint = key_history.requested(new).key_fingerprint
    for cluster in clusters_named(new):
        declines = key_history.present_declines(cluster)
        if declines and (
            decline := key_history.decline_among(declines, fingerprint, key_history.asker_of_request(new))
        ):
            raise request_forbidden(new["metadata"]["name"], declined_text(decline, fingerprint))


def declined_text(decline: Decline, fingerprint: str) -> str:
    what = f"the key {fingerprint}" if decline.fingerprint == fingerprint else "the credential that asks"
    if decline.scope == Decline.Scope.NAME:
        what = "everyone who asks"
    reason = f" ({decline.reason})" if decline.reason else ""
    return (
        f"{what} was declined for the cluster {quoted(decline.cluster)} by {decline.declined_by}{reason}; a person "
        f"must lift that first: {PROGRAM} decline {decline.cluster} --lift, or the console's page of the request"
    )


def clusters_named(doc: Doc) -> list[str]:
    """The clusters that a request names, in its subject or, when it is no add-on's, in its label."""
    labels = doc["metadata"].get("labels") or {}
    if doc["spec"]["signerName"] != agent_names.SIGNER or labels.get(agent_names.ADDON_LABEL):
        return list(key_history.names_of(doc))
    return sorted({*key_history.names_of(doc), labels.get(agent_names.CLUSTER_LABEL, "")} - {""})


@admission.validator(CSR, subresource="approval")
@admission.reads_given
def known_names_keep_their_keys(actor: Actor, old: Doc | None, new: Doc, *, given: object = None) -> None:  # noqa: ARG001 - a rule's signature
    """D9, D29, K7: an unknown key is not approved for a known name without an override. Raises Forbidden.

    The override is a KeyOverride that the act gives, or the annotation with the key's fingerprint on the
    ManagedCluster. A renewal needs none, nor does a request that came with a repair token.
    """
    if adds("Approved", old, new):
        _require_known(new, _override_of(given))


def _override_of(given: object) -> KeyOverride | None:
    return given if isinstance(given, KeyOverride) else None


def _require_known(doc: Doc, override: KeyOverride | None) -> None:
    fingerprint = key_history.requested(doc).key_fingerprint
    for cluster in key_history.names_of(doc):
        if not key_history.is_barred(cluster, fingerprint, override):
            continue
        asker = key_history.asker_of_request(doc)
        is_renewal = key_history.is_renewal(doc, asker, cluster)
        if not is_renewal and repair_tokens.continued_by(doc, cluster, asker) is None:
            raise request_forbidden(doc["metadata"]["name"], stranger_text(cluster, fingerprint))


def stranger_text(cluster: str, fingerprint: str) -> str:
    return (
        f"the cluster {quoted(cluster)} is known under other keys, and the key {fingerprint} was never accepted for "
        f"it; if it is the right one, annotate the ManagedCluster with {ACCEPT_KEY}: {fingerprint}"
    )


# ---------------------------------------------------------------- remembering


@admission.records(CSR)
@admission.reads_given
def accepted_key_is_remembered(actor: Actor, old: Doc | None, new: Doc | None, *, given: object = None) -> list[Model]:
    """D9, D19: an approved key enters the key history; one outside the open line ends it and revokes its certificates.

    D29: that of a request which came with a repair token enters the line for which the token was minted.

    Known names are checked once more under the counter's lock, because two users may approve at the same time; and an
    override may take a second person.
    """
    if new is None or not adds("Approved", old, new):
        return []
    override = _override_of(given)
    with request_cache.remembering():  # one read of each name's keys, under the lock
        _require_known(new, override)
        names = key_history.names_of(new)
        agreed = [row for cluster in names for row in key_overrides.agreed(actor, cluster, new, override)]
        return agreed + [row for cluster in names for row in key_lines.accepted(actor, cluster, new, override)]


@admission.records(CSR)
def decline_is_remembered(actor: Actor, old: Doc | None, new: Doc | None) -> list[Decline]:
    """D10: a denial by a user is recorded as a decline with its reason; one by the hub repeats an older decline."""
    if new is None or actor.is_controller or not adds("Denied", old, new):
        return []
    fingerprint, asker = key_history.requested(new).key_fingerprint, key_history.asker_of_request(new)
    condition = next(each for each in conditions_of(new) if each.get("type") == "Denied")
    reason = condition.get("message") or condition.get("reason") or ""
    request = new["metadata"]["name"]
    return [
        decline_row(actor, cluster, asker, reason, fingerprint=fingerprint, request=request)
        for cluster in clusters_named(new)
    ]


def decline_row(
    actor: Actor,
    cluster: str,
    asker: Asker,
    reason: str,
    *,
    fingerprint: str = "",
    request: str = "",
    scope: Decline.Scope = Decline.Scope.ASKER,
) -> Decline:
    return Decline(
        cluster=cluster,
        scope=scope,
        fingerprint=fingerprint,
        requester=asker.user[:320],
        credential=asker.credential[:330],
        reason=reason,
        request=request,
        declined_by=actor.user[:320],
        declined_at=clock.now(),
    )


# ---------------------------------------------------------------- annotations of a cluster


@admission.validator(MANAGED_CLUSTER)
def annotations_of_acceptance_need_accept(actor: Actor, old: Doc | None, new: Doc) -> None:
    """D9, H9: changing the annotations of overrides and of automatic acceptance needs the right to accept.

    Raises Forbidden, and Invalid for a fingerprint in another form.
    """
    name = new["metadata"]["name"]
    changed = [each for each in GUARDED_ANNOTATIONS if _annotation(old, each) != _annotation(new, each)]
    if not changed:
        return
    if not actor.is_controller:
        cluster = request_cache.row_at(MANAGED_CLUSTER, Key("", name)) if old is not None else None
        if not authorization.permitted(actor, ClusterPermission.ACCEPT, obj=cluster, name=name).allowed:
            text = f"user {quoted(actor.user)} cannot change the annotation {changed[0]}"
            raise webhook_refusals.webhook_forbidden(
                webhook_refusals.CLUSTER_WEBHOOK, "managedclusters/accept", name, text
            )
    key = _annotation(new, ACCEPT_KEY)
    if ACCEPT_KEY in changed and key is not None and not FINGERPRINT.fullmatch(key):
        text = "must be SHA256: and 64 hexadecimal digits in lower case"
        cause = errors.invalid_field(f"metadata.annotations[{ACCEPT_KEY}]", quoted(key), text)
        raise webhook_refusals.webhook_invalid(webhook_refusals.CLUSTER_WEBHOOK, MANAGED_CLUSTER.kind, name, cause)


def _annotation(doc: Doc | None, name: str) -> str | None:
    found: str | None = (doc["metadata"].get("annotations") or {}).get(name) if doc else None
    return found
