"""An agent's rights end with the write that ends them: in its transaction, not when a reconciler comes to it.

Invariant: what is sent after the answer to an un-acceptance or a deletion is refused, by every process: the bindings
are gone in the commit that the answer is about, and who was examined before is examined again (``Revision.rights``).
``reconcilers`` calls the same functions, for rights that somebody gave by hand and for clusters that are gone already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from clusters import object_writer
from clusters.acceptance import agent_roles
from clusters.kinds import MANAGED_CLUSTER, is_accepted, is_deleting
from clusters.models import ManagedCluster
from clusters.object_writer import CONTROLLER
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING
from ocmconsole.kubeapi import admission, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import plain_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import Model

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind


@admission.companion(MANAGED_CLUSTER)
def rights_end_at_once(batch: verbs.Batch, old: Doc | None, new: Doc | None) -> None:
    """H7, H10: the write that un-accepts or deletes a cluster takes the rights of its agents away with it."""
    if old is None or is_deleting(old) or old["metadata"]["name"] in agent_roles.TAKEN_NAMES:
        return
    name = old["metadata"]["name"]
    if new is None or is_deleting(new):
        remove(batch.acting_as(CONTROLLER), name)
    elif is_accepted(old) and not is_accepted(new):
        expel(batch.acting_as(CONTROLLER), name)


def expel(batch: verbs.Batch, name: str) -> bool:
    """H7, K8, K8b: of an un-accepted cluster's rights, reading its own cluster remains. Returns whether it had any."""
    had_rights = batch.find(CLUSTER_ROLE, Key("", agent_roles.role_name(name))) is not None
    if had_rights:
        role = agent_roles.cluster_role(name, agent_roles.denied_rules(name), settings.OCMCONSOLE_RESOURCE_LABELS)
        object_writer.ensure_object(batch, CLUSTER_ROLE, role)
    _drop_bindings(batch, name)
    return had_rights


def remove(batch: verbs.Batch, name: str) -> None:
    """H10, H31: of a deleted cluster's rights nothing remains but what D20 leaves."""
    _drop(batch, CLUSTER_ROLE, Key("", agent_roles.role_name(name)))
    _drop(batch, CLUSTER_ROLE_BINDING, Key("", agent_roles.role_name(name)))
    _drop_bindings(batch, name)


def _drop_bindings(batch: verbs.Batch, name: str) -> None:
    """The one for works has a finalizer, which holds it until the clean-up is over (D20)."""
    for binding in (agent_roles.registration_binding_name(name), agent_roles.work_binding_name(name)):
        _drop(batch, ROLE_BINDING, Key(name, binding))


def _drop(batch: verbs.Batch, kind: Kind, key: Key) -> None:
    present = batch.find(kind, key)
    if present is not None and not is_deleting(present):
        batch.delete(kind, key)


def only_while_accepted(batch: verbs.Batch, name: str) -> None:
    """H4: what gives rights is committed only while the cluster is accepted; verbs.Stale where it was not any more.

    Looked at under the counter's lock: a write that was decided before an un-acceptance must not follow it.
    """

    def still_accepted() -> Iterable[Model]:
        row = plain_sql.row_by(ManagedCluster.objects, name=name)
        if row is None or not row.hub_accepts_client or row.deleted_at is not None:
            raise verbs.Stale(f"{name} is not accepted any more")
        return ()

    batch.records.append(still_accepted)
