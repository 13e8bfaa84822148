"""Reconcilers of namespaces, token secrets and aggregated roles, and the expiry of events.

Garbage collection is in ``garbage_collection``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ocmconsole.core import admission, kinds
from ocmconsole.core.models import ClusterRole, Event, Namespace, Secret
from ocmconsole.core.tokens import token_formats, tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi import kinds as registry
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.control import controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.storage.selectors import LabelSelector, Operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

log = logging.getLogger(__name__)

KUBERNETES = "kubernetes"
ROOT_CA = "kube-root-ca.crt"
ABOUT_ROOT_CA = {"kubernetes.io/description": "The certificate authority that signs this hub's serving certificate."}
# Deletions report themselves; this is for what refused to go.
LOOK_AGAIN = timedelta(seconds=30)
EVENT_LIFETIME = timedelta(hours=1)  # as kube-apiserver's --event-ttl
EVENTS_A_SWEEP = 1_000  # deletions of one sweep; the next comes a minute later

namespaces = Actor.controller("namespaces")
roles = Actor.controller("roles")
expiry = Actor.controller("expiry")


# ---------------------------------------------------------------- namespaces


def namespace_of_gone(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (Key("", key.namespace),) if new is None and key.namespace else ()


def namespace_of_edited_ca(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    return (Key("", key.namespace),) if key.name == ROOT_CA and old is not None and new is not None else ()


@controllers.reconciler(kinds.NAMESPACE, also={None: namespace_of_gone, kinds.CONFIG_MAP: namespace_of_edited_ca})
def reconcile_namespace(key: Key) -> timedelta | None:
    """W27: an active namespace has its CA and default ServiceAccount; a terminating one is emptied, then removed.

    1. Active: ConfigMap ``kube-root-ca.crt`` has the CA and ServiceAccount ``default`` exists.
    2. Terminating: each object in it is deleted, once; those with finalizers go when these are taken off.
    3. Empty: its finalizer is taken off, and it goes.

    Returns when to look again while something in a terminating one remains.
    """
    namespace = Namespace.objects.at(key).first()
    if namespace is None:
        return None
    if namespace.deleted_at is None:
        _furnish(namespace.name)
        return None
    return _empty(namespace)


def _furnish(namespace: str) -> None:
    with verbs.batch(namespaces) as batch:
        furnish(batch, namespace)


def furnish(batch: verbs.Batch, namespace: str) -> None:
    """W27: the CA and the default account of an active namespace, as far as they lack or differ."""
    if certificate := tokens.ca_certificate():
        _keep_ca(batch, Key(namespace, ROOT_CA), {"ca.crt": certificate})
    if batch.find(kinds.SERVICE_ACCOUNT, Key(namespace, "default")) is None:
        batch.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "default"}}, namespace=namespace, by=namespaces)


def _keep_ca(batch: verbs.Batch, key: Key, data: dict[str, str]) -> None:
    found = batch.find(kinds.CONFIG_MAP, key)
    if found is None:
        doc = {"metadata": {"name": key.name, "annotations": ABOUT_ROOT_CA}, "data": data}
        batch.create(kinds.CONFIG_MAP, doc, namespace=key.namespace, by=namespaces)
    elif found.get("data") != data:
        batch.edit(kinds.CONFIG_MAP, key, lambda doc: doc.update(data=data), by=namespaces)


def _empty(namespace: Namespace) -> timedelta | None:
    """Delete what is there, once; objects with finalizers leave in their own time."""
    remains = False
    for kind in [kind for kind in registry.all_kinds() if kind.namespaced]:
        inside: Any = kind.model.objects.filter(namespace=namespace.name)
        for name in inside.filter(deleted_at=None).values_list("name", flat=True):
            _delete(kind, Key(namespace.name, name))
        remains = remains or inside.exists()
    if remains:
        return LOOK_AGAIN
    with suppress(errors.NotFound):
        verbs.edit(namespaces, kinds.NAMESPACE, namespace.key, _let_go, subresource="finalize")
    return None


def _delete(kind: Kind, key: Key) -> None:
    try:
        verbs.delete(namespaces, kind, key)
    except errors.NotFound:
        pass
    except errors.ApiError:
        log.exception("%s %s does not leave its namespace", kind.resource, key)


def _let_go(doc: Doc) -> None:
    doc["spec"]["finalizers"] = [name for name in doc["spec"].get("finalizers") or [] if name != KUBERNETES]


# ---------------------------------------------------------------- tokens of accounts


def account_that_went(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (key,) if new is None else ()


def account_of_token_secret(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:
    """Of a new one: its account may have gone while it was written."""
    if old is not None or new is None or new["type"] != token_formats.ACCOUNT_TYPE:
        return ()
    return (Key(key.namespace, admission.account_of(new["metadata"])),)


@controllers.reconciler(kinds.SERVICE_ACCOUNT, keys=account_that_went, also={kinds.SECRET: account_of_token_secret})
def reconcile_token_secrets(key: Key) -> None:
    """W21: token Secrets of a ServiceAccount are deleted with it, also when another of its name exists.

    1. The uid of the present ServiceAccount of that name is read; without one it is empty.
    2. Each token Secret of that name with another uid is deleted.
    """
    account = verbs.find(kinds.SERVICE_ACCOUNT, key)
    uid = account["metadata"]["uid"] if account else ""
    for secret in Secret.objects.filter(namespace=key.namespace, type=token_formats.ACCOUNT_TYPE, deleted_at=None):
        metadata = secret.doc["metadata"]
        is_ours = admission.account_of(metadata) == key.name
        if is_ours and metadata["annotations"].get(admission.ACCOUNT_UID) != uid:
            with suppress(errors.NotFound, errors.Conflict):
                verbs.delete(expiry, kinds.SECRET, secret.key, options=verbs.Options(uid=secret.uid))


# ---------------------------------------------------------------- aggregated roles


def aggregating_roles(old: Doc | None, new: Doc | None, key: Key) -> Iterator[Key]:
    """The roles that gather their rules from this one, before or after the write."""
    if new is not None and new.get("aggregationRule"):
        yield key
    labels = [doc["metadata"]["labels"] for doc in (old, new) if doc and doc["metadata"].get("labels")]
    if not labels:
        return
    for role in plain_sql.rows_by(ClusterRole.objects, aggregated=True):
        if role.name != key.name and any(
            selector.matches(some) for selector in _selectors(role.doc) for some in labels
        ):
            yield role.key


@controllers.reconciler(kinds.CLUSTER_ROLE, keys=aggregating_roles)
def reconcile_aggregation(key: Key) -> None:
    """W22: an aggregated ClusterRole has the rules of the roles that it selects, by role name, each once.

    1. A ClusterRole without an aggregationRule is left as it is.
    2. The rules of all roles that its selectors match are collected.
    3. They replace its rules where they differ.
    """
    role = ClusterRole.objects.at(key).first()
    if role is None or not role.aggregated:
        return
    doc = role.doc
    rules = _gathered(doc)
    if rules != (doc.get("rules") or []):
        verbs.edit(roles, kinds.CLUSTER_ROLE, key, lambda doc: doc.update(rules=rules))


def _gathered(doc: Doc) -> list[Doc]:
    found: dict[str, Doc] = {}
    for selector in _selectors(doc):
        for role in _with_keys(selector).exclude(name=doc["metadata"]["name"]):
            if selector.matches(role.labels):
                found[role.name] = role.doc
    rules: list[Doc] = []
    for name in sorted(found):
        rules += [rule for rule in found[name].get("rules") or [] if rule not in rules]
    return rules


def _with_keys(selector: LabelSelector) -> QuerySet[ClusterRole]:
    """Among thousands of roles, those that have the labels which the selector asks for."""
    found = ClusterRole.objects.all()
    for requirement in selector.requirements:
        if requirement.operator in {Operator.EQUALS, Operator.IN, Operator.EXISTS}:
            found = found.filter(labels__has_key=requirement.key)
    return found


def _selectors(doc: Doc) -> list[LabelSelector]:
    selectors = []
    for selector in (doc.get("aggregationRule") or {}).get("clusterRoleSelectors") or []:
        try:
            selectors.append(LabelSelector.from_wire(selector))
        except ValueError:
            log.warning("role %s has a selector that cannot be read", doc["metadata"]["name"], exc_info=True)
    return selectors


# ---------------------------------------------------------------- events


def expire_events(now: datetime) -> int:
    """Delete events that nobody touched for an hour; returns how many went. Called by the clock."""
    old = Event.objects.filter(last_seen__lt=now - EVENT_LIFETIME).order_by("last_seen")
    keys = [Key(*place) for place in old.values_list("namespace", "name")[:EVENTS_A_SWEEP]]
    for key in keys:
        with suppress(errors.NotFound):
            verbs.delete(expiry, kinds.EVENT, key)
    return len(keys)
