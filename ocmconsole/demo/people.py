"""The people of a demonstration hub, what they may do, and the sets, namespaces and tokens that they work with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User

from clusters.kinds import GROUP
from clusters.models import ClusterPermission
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSet, SetPermission
from ocmconsole.accounts import people, permissions
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE, ROLE, ROLE_BINDING
from ocmconsole.core.models import TokenPermission
from ocmconsole.core.tokens import tokens
from ocmconsole.demo.families import SETS, TOKENS
from ocmconsole.kubeapi import (
    clock,
    verbs,
)
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Kind

RBAC = "rbac.authorization.k8s.io"
LONG = timedelta(days=365)  # life of the demonstration's tokens, so that they outlast it
# Who they are: their groups, and Django permissions on all objects.
PEOPLE = {
    "ana": ("reviewers", "operators"),
    "raj": ("stores-fr-owners",),
    "li": ("viewers",),
    "mallory": (),
}
GROUPS = {
    "reviewers": (ClusterPermission.VIEW, ClusterPermission.ACCEPT),
    "operators": (
        ClusterPermission.CHANGE,
        ClusterPermission.DELETE,
        SetPermission.VIEW,
        SetPermission.CHANGE,
        SetPermission.JOIN,
        SetPermission.BIND,
        TokenPermission.ADD,
    ),
    "viewers": (ClusterPermission.VIEW, SetPermission.VIEW),
    "stores-fr-owners": (),
}
OWNED = "stores-fr"
SELECTING = "production"  # a set by labels
VIEWING = "console-viewers"  # a ClusterRole and its binding
NAMESPACES = {
    "shop": ("web", "stores-fr", "stores-de"),
    "payments": ("web",),
    "telemetry": ("global",),
    "sandbox": (),
}
READS: Doc = {
    "apiGroups": [GROUP, "certificates.k8s.io"],
    "resources": ["managedclusters", "managedclustersets", "managedclustersetbindings", "certificatesigningrequests"],
    "verbs": ["get", "list", "watch"],
}
BINDS: Doc = {"apiGroups": [GROUP], "resources": ["managedclustersetbindings"], "verbs": ["*"]}


def actor(name: str) -> Actor:
    """A person who has signed in at the console."""
    user = User.objects.get(username=name)
    return actor_for(
        user,
        entry_point=EntryPoint.WEB,
        credential=f"session:{user.pk}",
        address="10.20.4.17",
        user_agent="Mozilla/5.0",
    )


def introduce(admin: Actor, password: str) -> None:
    """Everybody, with groups and rights; then sets, of which raj owns one."""
    groups = {name: Group(name=name) for name in GROUPS}
    for name, group in groups.items():
        people.save_group(admin, group)
        _allow(admin, group, GROUPS[name])
    for name, member_of in PEOPLE.items():
        user = User(
            username=name, first_name=name.capitalize(), password=make_password(password), date_joined=clock.now()
        )
        people.save_user(admin, user, groups=[groups[each] for each in member_of])
    _bind_role(admin, VIEWING, [READS], ["viewers", "reviewers"])
    _make_sets(admin)
    owned = ManagedClusterSet.objects.get(name=OWNED)
    rights = [each for each in SetPermission if each is not SetPermission.DELETE]
    _allow(admin, groups["stores-fr-owners"], rights, owned)


def _allow(admin: Actor, group: Group, labels: Iterable[str], obj: ManagedClusterSet | None = None) -> None:
    for label in labels:
        permissions.grant_permission(admin, label, to=group, obj=obj)


def _make_sets(admin: Actor) -> None:
    for name in SETS:
        _create(admin, MANAGED_CLUSTER_SET, name)
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    _create(admin, MANAGED_CLUSTER_SET, SELECTING, spec={"clusterSelector": selector})
    for namespace, bound in NAMESPACES.items():
        _create(admin, NAMESPACE, namespace)
        for name in bound:
            _create(admin, MANAGED_CLUSTER_SET_BINDING, name, namespace, spec={"clusterSet": name})
    _create(admin, ROLE, "binder", "shop", rules=[BINDS])
    subjects = [{"kind": "Group", "apiGroup": RBAC, "name": "stores-fr-owners"}]
    _create(admin, ROLE_BINDING, "binder", "shop", roleRef=_reference(ROLE, "binder"), subjects=subjects)


def _bind_role(admin: Actor, name: str, rules: list[Doc], groups: list[str]) -> None:
    _create(admin, CLUSTER_ROLE, name, rules=rules)
    subjects = [{"kind": "Group", "apiGroup": RBAC, "name": group} for group in groups]
    _create(admin, CLUSTER_ROLE_BINDING, name, roleRef=_reference(CLUSTER_ROLE, name), subjects=subjects)


def _reference(kind: Kind, name: str) -> Doc:
    return {"apiGroup": RBAC, "kind": kind.kind, "name": name}


def _create(admin: Actor, kind: Kind, name: str, namespace: str = "", **parts: object) -> None:
    doc = {"apiVersion": kind.storage.api_version, "kind": kind.kind, "metadata": {"name": name}, **parts}
    verbs.create(admin, kind, doc, namespace=namespace)


def mint(admin: Actor) -> dict[str, str]:
    """A token of each family, by name, all of which still work."""
    return {name: tokens.issue_bootstrap_token(admin, name=name, ttl=LONG) for name in TOKENS}


def mint_others(admin: Actor) -> None:
    """Tokens as they lie about: for one cluster, ended soon, never used."""
    tokens.issue_bootstrap_token(admin, name="GPU rack", ttl=timedelta(days=2), cluster="ml-batch-gpu-01")
    tokens.issue_bootstrap_token(admin, name="workshop", ttl=timedelta(hours=8))


def mint_and_revoke(admin: Actor) -> None:
    token = tokens.issue_bootstrap_token(admin, name="pasted into a chat", ttl=LONG)
    tokens.revoke_bootstrap_token(admin, token.partition(".")[0])
