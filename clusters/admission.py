"""Rules of ManagedCluster: taint times, shape, who may let a cluster in or make it go (A1 to A5). And of Lease.

Membership of sets has its rules in ``clustersets``. Defaults run before the schema has been checked, so they touch only
what has the right form and leave the rest for the schema to refuse.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings

from clusters import webhook_refusals
from clusters.acceptance import agent_roles, obstacles
from clusters.kinds import (
    ACCEPTS_CLIENT,
    ACCEPTS_CLIENT_PATH,
    GROUP,
    LEASE,
    MANAGED_CLUSTER,
    OWN_FINALIZERS,
    REGISTER,
    RESOURCE_CLEANUP,
    is_accepted,
    spec_of,
)
from clusters.models import ClusterFacts, ClusterPermission
from clusters.webhook_refusals import CLUSTER_MUTATING_WEBHOOK, CLUSTER_WEBHOOK
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.core.models import Namespace
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import (
    admission,
    clock,
    errors,
    request_cache,
)
from ocmconsole.kubeapi.access import authorization, request_limits
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import names, times
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

# D18: accepting is refused for these names: namespaces of the system, and a name whose group every agent is in.
GUARDED_NAMES = re.compile(r"default|kube-.*|open-cluster-management.*|managed-clusters")
ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)
LEASE_LIMITS = (
    ("leaseDurationSeconds", 1, "must be greater than 0"),
    ("leaseTransitions", 0, "must be greater than or equal to 0"),
)
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
Stored = dict[tuple[str, str], dict[str, Any]]  # taints by key and effect


def _accept_spellings(name: str) -> list[Attributes]:
    """D2: the right to accept is granted by the RBAC rule that upstream checks today, or by those of its documents."""
    return [
        Attributes("update", REGISTER, "managedclusters", "accept", name=name),
        *(
            Attributes("create", group, resource, "accept", name=name)
            for group in (GROUP, REGISTER)
            for resource in ("managedclusters", "managedcluster")
        ),
    ]


authorization.spell(ClusterPermission.ACCEPT, _accept_spellings)
known_rights.register(
    known_rights.domain_right(
        "accept", ClusterPermission.ACCEPT, group=GROUP, plural="managedclusters", phrase="accept {}", noun="cluster"
    )
)


# ---------------------------------------------------------------- defaults


@admission.defaulter(MANAGED_CLUSTER)
def acceptance_is_said(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W5: a missing ``hubAcceptsClient`` becomes false, as upstream's mutating webhook leaves it behind."""
    spec = new.setdefault("spec", {})
    if isinstance(spec, dict):
        spec.setdefault(ACCEPTS_CLIENT, False)


@admission.defaulter(MANAGED_CLUSTER)
def accepted_clusters_are_held(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """H27: a cluster gets the finalizer ``resource-cleanup`` in the write that accepts it.

    A later write would leave a moment in which a deletion skips the clean-up of its namespace.
    """
    spec, metadata = new.get("spec"), new["metadata"]
    if not isinstance(spec, dict) or not settings.OCMCONSOLE_FEATURE_GATES["ResourceCleanup"]:
        return
    if metadata.get("deletionTimestamp") or not is_accepting(old, new):
        return
    finalizers = metadata.get("finalizers") or []
    if isinstance(finalizers, list) and RESOURCE_CLEANUP not in finalizers:
        metadata["finalizers"] = [RESOURCE_CLEANUP, *finalizers]


@admission.defaulter(MANAGED_CLUSTER)
def taints_are_stamped(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """A1: only the hub sets ``timeAdded`` of taints. Raises BadRequest when the client sent another time.

    A new or changed taint gets the present time, an unchanged one keeps the stored time.
    """
    now = times.timestamp(clock.now())
    before = _by_key(_taints(old) if old is not None else [])
    refused = [taint["key"] for taint in _taints(new) if not _stamp(taint, before, now, is_new=old is None)]
    if refused:
        text = f"It is not allowed to set TimeAdded of Taint {quoted(','.join(refused))}."
        raise webhook_refusals.bad_request(CLUSTER_MUTATING_WEBHOOK, text)


def _taints(doc: Doc) -> list[Doc]:
    spec = doc.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    return [
        taint
        for taint in (taints if isinstance(taints, list) else ())
        if isinstance(taint, dict) and isinstance(taint.get("key"), str)
    ]


def _by_key(taints: list[Doc]) -> Stored:
    """The first of each key and effect, and the first of each key: a list may be long, and each new one looks here."""
    found: Stored = {}
    for taint in taints:
        for effect in (taint["effect"], ""):
            found.setdefault((taint["key"], effect), taint)
    return found


def _stamp(taint: Doc, before: Stored, now: str, *, is_new: bool) -> bool:
    """Set the time; False when the client may not have set the one it sent."""
    try:
        sent = _time(taint.get("timeAdded"))
    except (TypeError, ValueError):
        return True  # the schema says what is wrong with it
    stored = _counterpart(taint, before)
    if stored is not None and _same(taint, stored):
        if sent != _time(stored.get("timeAdded")):
            return False
        taint["timeAdded"] = stored.get("timeAdded")
    elif sent is None or is_new:
        taint["timeAdded"] = now
    else:
        return False
    return True


def _counterpart(taint: Doc, before: Stored) -> Doc | None:
    """K3: a taint is compared with the stored one of its key and effect, else of its key (upstream: of its key)."""
    key, effect = taint["key"], taint.get("effect")
    return (before.get((key, effect)) if isinstance(effect, str) else None) or before.get((key, ""))


def _same(taint: Doc, stored: Doc) -> bool:
    return (taint.get("value") or "", taint.get("effect")) == (stored.get("value") or "", stored.get("effect"))


def _time(value: Any) -> datetime | None:
    """None for absent and for Go's zero time. Raises TypeError and ValueError when it is no time."""
    moment = datetime.fromisoformat(value) if value is not None else ZERO_TIME
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return None if moment == ZERO_TIME else moment


# ---------------------------------------------------------------- shape


@admission.validator(MANAGED_CLUSTER, subresource="status")
def claims_are_so_many(actor: Actor, old: Doc | None, new: Doc) -> None:
    """D23: a status holds at most ``OCMCONSOLE_LIMIT_CLAIMS`` claims. Raises OverSizeError.

    Claims are rows of their own, all written again when one changes, and read by pages and filters.
    """
    claims, before = (((doc or {}).get("status") or {}).get("clusterClaims") or [] for doc in (new, old))
    most = settings.OCMCONSOLE_LIMIT_CLAIMS
    if most and len(claims) > most and not actor.is_controller and claims != before and len(claims) >= len(before):
        name = new["metadata"]["name"]
        text = f'{MANAGED_CLUSTER.resource} "{name}": too many claims: {len(claims)}, limit is {most}'
        raise request_limits.OverSizeError("OCMCONSOLE_LIMIT_CLAIMS", text)


@admission.validator(MANAGED_CLUSTER)
def cluster_is_well_formed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """A3: a name is a DNS label of at most 63 characters, URLs of client configs are https. Raises BadRequest.

    K1: the name is checked at every creation and at no update: a stored cluster with a bad name must stay removable.
    """
    problems = [
        f"url {quoted(config['url'])} is invalid in client configs"
        for config in spec_of(new).get("managedClusterClientConfigs") or ()
        if not _is_https(config["url"])
    ]
    if old is None and (flaws := _name_flaws(new["metadata"]["name"])):
        problems.append(f"metadata.name format is not correct: {','.join(flaws)}")
    if problems:
        raise webhook_refusals.bad_request(CLUSTER_WEBHOOK, "\n".join(sorted(problems)))


def _name_flaws(name: str) -> list[str]:
    """A7d: messages about a malformed name are Kubernetes', with "characters" for "bytes"."""
    return [re.sub(r"bytes$", "characters", flaw) for flaw in names.label_flaws(name)]


def _is_https(url: str) -> bool:
    """A3: a URL is valid that Go's url.Parse accepts, with scheme https; an empty host passes."""
    if any(not char.isprintable() or char.isspace() for char in url.partition("?")[0]):
        return False
    try:
        parts = urlsplit(url)
        port_is_sane = parts.port is None or parts.port >= 0
    except ValueError:
        return False
    return port_is_sane and parts.scheme == "https" and not BAD_ESCAPE.search(parts.netloc + parts.path)


@admission.validator(MANAGED_CLUSTER)
def token_is_for_this_cluster(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: a bootstrap token that was made for one cluster creates no other. Raises Forbidden."""
    name = new["metadata"]["name"]
    bound = tokens.cluster_of(actor) if old is None else ""
    if bound and bound != name:
        asked = Attributes("create", GROUP, MANAGED_CLUSTER.plural, name=name)
        raise authorization.forbidden_error(
            actor, asked, f"the bootstrap token is for the cluster {quoted(bound)} only"
        )


# ---------------------------------------------------------------- what holds a cluster


@admission.validator(MANAGED_CLUSTER)
def removal_is_for_those_who_may_delete(actor: Actor, old: Doc | None, new: Doc) -> None:
    """H27, W18: changing owners or removing the hub's finalizers needs ``delete``. Raises Forbidden.

    Both decide when a cluster goes. Writes of the hub itself pass.
    """
    touched = [part for part, differs in _holds(old, new) if differs]
    if not touched or actor.is_controller:
        return
    asked = Attributes("delete", GROUP, MANAGED_CLUSTER.plural, name=new["metadata"]["name"])
    if not authorization.authorize(actor, asked).allowed:
        raise authorization.forbidden_error(actor, asked, f"this is needed to change {' and '.join(touched)}")


def _holds(old: Doc | None, new: Doc) -> Iterator[tuple[str, bool]]:
    before, after = old["metadata"] if old is not None else {}, new["metadata"]
    yield "metadata.ownerReferences", (before.get("ownerReferences") or []) != (after.get("ownerReferences") or [])
    lost = set(before.get("finalizers") or ()) - set(after.get("finalizers") or ())
    yield "the hub's own metadata.finalizers", not lost.isdisjoint(OWN_FINALIZERS)


# ---------------------------------------------------------------- letting in


def is_accepting(old: Doc | None, new: Doc) -> bool:
    """A4: whether a write accepts a cluster: creates it accepted, or sets ``hubAcceptsClient`` to true."""
    return is_accepted(new) and not is_accepted(old)


def is_disconnecting(old: Doc | None, new: Doc) -> bool:
    return is_accepted(old) and not is_accepted(new)


NAMESPACE_ENDS = obstacles.register("namespace_ends", Namespace.objects.filter(deleted_at__isnull=False), "name")


@admission.validator(MANAGED_CLUSTER)
def namespace_is_not_ending(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """A4a: no cluster is accepted while the namespace of its name is Terminating. Raises Forbidden."""
    name = new["metadata"]["name"]
    if is_accepting(old, new) and obstacles.is_met(NAMESPACE_ENDS, name):
        raise _accept_forbidden(name, f'cluster namespace "{name}" is terminating')


@admission.validator(MANAGED_CLUSTER)
def accept_needs_permission(actor: Actor, old: Doc | None, new: Doc) -> None:
    """A4b: accepting needs the right to accept that cluster. D3: un-accepting needs the same. Raises Forbidden."""
    guarded = is_accepting(old, new) or (settings.OCMCONSOLE_GUARD_DISCONNECT and is_disconnecting(old, new))
    if not guarded or actor.is_controller or actor.is_master:
        return
    name = new["metadata"]["name"]
    cluster = request_cache.row_at(MANAGED_CLUSTER, Key("", name)) if old is not None else None
    if not authorization.permitted(actor, ClusterPermission.ACCEPT, obj=cluster, name=name).allowed:
        raise _accept_forbidden(name, f"user {quoted(actor.user)} cannot update the HubAcceptsClient field")


@admission.validator(MANAGED_CLUSTER)
def guarded_names_stay_out(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """D18: no cluster is accepted under a guarded name, or one whose role is shared by all clusters. Raises Invalid.

    Accepting gives the agent rights in the namespace of that name, and creates a role named after it.
    """
    name = new["metadata"]["name"]
    if not is_accepting(old, new):
        return
    if GUARDED_NAMES.fullmatch(name):
        raise accept_invalid(name, f'namespace "{name}" belongs to the system and cannot become a cluster namespace')
    if name in agent_roles.TAKEN_NAMES:
        raise accept_invalid(name, f'the role "{agent_roles.role_name(name)}" is shared by all clusters')


def accept_invalid(name: str, why: str) -> errors.Invalid:
    cause = errors.forbidden_field(ACCEPTS_CLIENT_PATH, why)
    return webhook_refusals.webhook_invalid(CLUSTER_WEBHOOK, MANAGED_CLUSTER.kind, name, cause)


def _accept_forbidden(name: str, why: str) -> errors.Forbidden:
    return webhook_refusals.webhook_forbidden(CLUSTER_WEBHOOK, "managedclusters/accept", name, why)


# ---------------------------------------------------------------- names and records


@admission.names_act(MANAGED_CLUSTER)
def acceptance_act(old: Doc | None, new: Doc | None) -> str | None:
    """D11: the audit names acceptance and disconnection; None for any other write."""
    if new is None:
        return None
    if is_accepting(old, new):
        return "managedcluster:accept"
    return "managedcluster:disconnect" if is_disconnecting(old, new) else None


@admission.records(CLUSTER_ROLE)
def withheld_renewal_is_remembered(actor: Actor, old: Doc | None, new: Doc | None) -> list[ClusterFacts]:
    """D5: removing the ``renew`` rule from a cluster's role is recorded and lasts until a write restores the rule."""
    cluster = agent_roles.cluster_of(new["metadata"]["name"]) if new is not None else ""
    if new is None or not cluster or actor.is_controller:
        return []
    withheld = not agent_roles.allows_renewal(new)
    if withheld and old is not None and not agent_roles.allows_renewal(old):
        return []
    facts = ClusterFacts.objects.filter(cluster=cluster).first() or ClusterFacts(cluster=cluster)
    if facts.renewal_withheld == withheld:
        return []
    facts.renewal_withheld = withheld
    return [facts]


# ---------------------------------------------------------------- leases


@admission.validator(LEASE)
def lease_is_well_formed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W29: a Lease's duration is positive and its transitions are not negative. Raises Invalid."""
    spec = spec_of(new)
    causes = [
        errors.invalid_field(f"spec.{field}", quoted(spec[field]), text)
        for field, least, text in LEASE_LIMITS
        if spec.get(field) is not None and spec[field] < least
    ]
    if causes:
        raise errors.is_invalid(LEASE.group, LEASE.kind, new["metadata"]["name"], causes)
