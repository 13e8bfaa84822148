"""Who binds which set into which namespace (A8, A9, A10, D2, D4, K2, K5), and that sets have no such rules (A12)."""

from __future__ import annotations

from functools import partial

from clusters.kinds import GROUP
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from tests.actors import rule
from tests.entry_points.admission import row, scene
from tests.entry_points.admission.row import (
    BIND_ANY,
    BINDING,
    CLERK,
    HUB,
    JOIN_ANY,
    NAME_OF_SET,
    SUPERUSER,
    Allowed,
    Doc,
    Refused,
    Row,
    bind_refused,
    clerk,
    invalid,
)

TEAM = scene.namespace("team")
BIND_ALL, BIND_WEB, JOIN_ALL = (
    (f"clustersets.{act}_managedclusterset", name) for act, name in (("bind", ""), ("bind", "web"), ("join", ""))
)
PARITY = {"OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING": True}
BINDER = clerk(BIND_ANY)
creates = partial(
    row.creates, kind=MANAGED_CLUSTER_SET_BINDING, name="web", namespace="team", who=BINDER, around=(TEAM,)
)
changes = partial(
    row.changes, kind=MANAGED_CLUSTER_SET_BINDING, name="web", namespace="team", who=CLERK, around=(TEAM,)
)
deletes = partial(
    row.deletes, kind=MANAGED_CLUSTER_SET_BINDING, name="web", namespace="team", who=CLERK, around=(TEAM,)
)


def to(name: str | None) -> Doc:
    return {"spec": {"clusterSet": name}}


NAMED: list[Row] = [
    creates("a binding is called like its set", to("web"), Allowed(to("web")), "A8", "A10"),
    creates("a binding is called like no other set", to("db"), NAME_OF_SET, "A8", "A0"),
    creates("a binding without a spec names no set", {}, NAME_OF_SET, "A8"),
    creates("case tells names apart", to("Web"), NAME_OF_SET, "A8"),
    changes("a binding never turns to another set", to("web"), to("db"), NAME_OF_SET, "A8"),
    changes("a binding that is wrong already stays so for nobody", to("db"), {"metadata": {"labels": {"color": "red"}}},
            NAME_OF_SET, "A8"),
    changes("a binding that is wrong already is put right", to("db"), to("web"), Allowed(to("web")), "A8"),
    creates("the name is told before the right", to("db"), NAME_OF_SET, "A8", "A9", who=CLERK),
]  # fmt: skip

SPELLINGS: dict[str, Doc] = {
    "in the plural": BIND_ANY,
    "in the plural, by name": rule("create", "managedclustersets/bind", groups=GROUP, names="web"),
    "in the singular": rule("create", "managedclusterset/bind", groups=GROUP),
    "in the singular, by name": rule("create", "managedclusterset/bind", groups=GROUP, names="web db"),
}
NEAR: dict[str, Doc] = {
    "join": JOIN_ANY,
    "update": rule("update", "managedclustersets/bind", groups=GROUP),
    "the right on another": rule("create", "managedclustersets/bind", groups=GROUP, names="db"),
    "the right in the group that upstream names": rule("create", "managedclustersets/bind", groups="apps"),
    "the right on sets alone": rule("create", "managedclustersets", groups=GROUP),
}

RIGHT: list[Row] = [
    creates("binding needs its own right", to("web"), bind_refused("raj", "web"), "A9", "K2", "S134", who=CLERK),
    *(
        creates(f"a set is bound by the right {how}", to("web"), Allowed(to("web")), "A9", "D2", "S135", who=clerk(spelled))
        for how, spelled in SPELLINGS.items()
    ),
    *(
        creates(f"no set is bound by {how}", to("web"), bind_refused("raj", "web"), "A9", "D2", "K2", who=clerk(near))
        for how, near in NEAR.items()
    ),
    creates("a set is bound by Django's permission for all", to("web"), Allowed(to("web")), "D2", "A9",
            who=clerk(permissions=(BIND_ALL,))),
    creates("a set is bound by guardian's permission on it", to("web"), Allowed(to("web")), "D2", "A9",
            who=clerk(permissions=(BIND_WEB,)), around=(TEAM, scene.clusterset("web"))),
    creates("a set is bound by the group's permission on it", to("web"), Allowed(to("web")), "D2", "A9",
            who=clerk(permissions=(BIND_WEB,), by_group=True), around=(TEAM, scene.clusterset("web"))),
    creates("the permission on one set binds no other", to("db"), bind_refused("raj", "db"), "D2", "A9", name="db",
            who=clerk(permissions=(BIND_WEB,)), around=(TEAM, scene.clusterset("web"), scene.clusterset("db"))),
    creates("Django's permission to join binds no set", to("web"), bind_refused("raj", "web"), "D2", "A9",
            who=clerk(permissions=(JOIN_ALL,))),
    creates("a superuser binds", to("web"), Allowed(to("web")), "A9", who=SUPERUSER),
    creates("the hub's own hand binds", to("web"), Allowed(to("web")), "K6", who=HUB),
    changes("a binding is written without the right", to("web"), {"metadata": {"labels": {"color": "red"}}},
            Allowed({**to("web"), "metadata": {"labels": {"color": "red"}}}), "A9"),
    deletes("a binding is deleted without the right", to("web"), Allowed(), "A9", "A10"),
]  # fmt: skip


def registered(name: str) -> Refused:
    why = f'namespace "{name}" is the cluster namespace of a registered cluster; bind the set into another one'
    return invalid(MANAGED_CLUSTER_SET_BINDING, "web", f"metadata.namespace: Forbidden: {why}", webhook=BINDING)


WARNING = 'namespace "team" is the cluster namespace of a registered cluster; bind the set into another one'
IN = (TEAM, scene.other_cluster("team", accepted=True))

PLACE: list[Row] = [
    creates("no set is bound into the namespace of a cluster", to("web"), registered("team"), "D4", "K5", "S121", "S163", around=IN),
    creates("not even by a superuser", to("web"), registered("team"), "D4", around=IN, who=SUPERUSER),
    creates("nor where a cluster is being sent away", to("web"), registered("team"), "D4", around=(scene.sent_away("team"),)),
    creates("nor where a cluster was sent away", to("web"), registered("team"), "D4", around=(scene.sent_away("team"),), settled=True),
    creates("where parity is wanted it is warned about", to("web"), Allowed(to("web"), WARNING), "D4", "K5", "A10", around=IN,
            settings=PARITY),
    creates("a cluster that merely asks blocks no namespace", to("web"), Allowed(to("web")), "D4",
            around=(TEAM, scene.other_cluster("team", accepted=False))),
    creates("the right is told before the place", to("web"), bind_refused("raj", "web"), "A9", "D4", around=IN, who=CLERK),
    changes("a binding that is there already may be written", to("web"), {"metadata": {"labels": {"color": "red"}}},
            Allowed(to("web")), "D4", around=IN),
    deletes("a binding that is there already may be deleted", to("web"), Allowed(), "D4", "A10", around=IN),
    creates("there is no binding where there is no namespace", to("web"),
            Refused(404, 'namespaces "team" not found'), "A10", around=()),
]  # fmt: skip

in_sets = partial(row.creates, kind=MANAGED_CLUSTER_SET, who=CLERK)
BY_LABELS: Doc = {"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}}

SETS: list[Row] = [
    in_sets("a set of any name is created without further rights", {}, Allowed(), "A12", name="a.b"),
    in_sets("a set that takes every cluster is created without further rights", BY_LABELS, Allowed(BY_LABELS), "A12", name="all"),
    row.changes("a set is changed without further rights", {"spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}},
                BY_LABELS, Allowed(BY_LABELS), "A12", kind=MANAGED_CLUSTER_SET, who=CLERK, name="web"),
    row.deletes("a set with clusters is deleted without further rights", BY_LABELS, Allowed(), "A12", kind=MANAGED_CLUSTER_SET,
                who=CLERK, name="web", around=(scene.other_cluster("c2", accepted=False),)),
]  # fmt: skip

ROWS = [*NAMED, *RIGHT, *PLACE, *SETS]
