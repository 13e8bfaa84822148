"""Which set a cluster is in, and who may move it (A2, A6, A7, D2, D6, K6)."""

from __future__ import annotations

from clusters.kinds import GROUP
from tests.actors import rule
from tests.entry_points.admission import scene
from tests.entry_points.admission.row import (
    AGENT,
    BOOTSTRAP,
    CLERK,
    HUB,
    SUPERUSER,
    WRITER,
    Allowed,
    Doc,
    Refused,
    Row,
    Who,
    changes,
    clerk,
    cluster,
    creates,
    join_refused,
    labels,
)

GATE_OFF = {"OCMCONSOLE_FEATURE_GATES": {"DefaultClusterSet": False}}
COPIED = (
    "label open-cluster-management.io/clusterset is deprecated: its value was copied to "
    "cluster.open-cluster-management.io/clusterset, use that label"
)


def member(**given: str) -> Doc:
    """A stored cluster with exactly these labels."""
    return {**cluster(), **labels(**given)}


def join(*names: str, resource: str = "managedclustersets/join", verb: str = "create", group: str = GROUP) -> Doc:
    return rule(verb, resource, groups=group, names=" ".join(names))


def is_in(name: str | None, **more: str | None) -> Allowed:
    return Allowed(labels(set=name, **more))


WITHOUT: dict[str, Doc] = {
    "no metadata": {},
    "labels that are null": {"metadata": {"labels": None}},
    "no labels": {"metadata": {"labels": {}}},
    "an empty label": labels(set=""),
}
GIVEN: list[Row] = [
    *(
        creates(f"a cluster with {how} comes into the default set", new, is_in("default"), "A2")
        for how, new in WITHOUT.items()
    ),
    creates("other labels stay beside it", labels(color="red"), is_in("default", color="red"), "A2"),
    creates("a cluster comes into the set that it names", labels(set="web"), is_in("web"), "A2"),
    changes("who loses its label comes into the default set", member(set="web"), labels(set=None), is_in("default"), "A2"),
    changes("whose label is emptied comes into the default set", member(set="web"), labels(set=""), is_in("default"), "A2"),
    changes("who loses all labels comes into the default set", member(set="web", color="red"),
            {"metadata": {"labels": None}}, is_in("default", color=None), "A2"),
    changes("who never had a label gets one with the next write", member(), labels(color="red"),
            is_in("default", color="red"), "A2"),
    creates("without the gate no set is given", {}, is_in(None), "A2", "H24", settings=GATE_OFF),
    creates("without the gate an empty label stays", labels(set=""), is_in(""), "A2", settings=GATE_OFF),
    changes("without the gate a label can be taken away", member(set="web"), labels(set=None), is_in(None), "A2",
            settings=GATE_OFF),
]  # fmt: skip

OLD_KEY: list[Row] = [
    creates("the oldest document's label is copied", labels(old="web"),
            Allowed(labels(old="web", set="web"), COPIED), "D6", "K28", "S19"),
    creates("the label of today wins over the old one", labels(old="web", set="db"), is_in("db", old="web"), "D6"),
    creates("an empty old label says nothing", labels(old=""), is_in("default", old=""), "D6"),
    changes("the old label is set later", member(set="default"), labels(old="web"),
            Allowed(labels(old="web", set="web"), COPIED), "D6"),
    changes("the old label is changed", member(set="web", old="web"), labels(old="db"),
            Allowed(labels(old="db", set="db"), COPIED), "D6"),
    changes("the old label is changed where both differ", member(set="own", old="web"), labels(old="db"),
            Allowed(labels(old="db", set="db"), COPIED), "D6"),
    changes("both labels are changed and that of today wins", member(set="web", old="web"), labels(old="db", set="own"),
            is_in("own", old="db"), "D6"),
    changes("the old label stays and that of today is changed", member(set="web", old="web"), labels(set="own"),
            is_in("own", old="web"), "D6"),
    changes("the old label stays and another is changed", member(set="own", old="web"), labels(color="red"),
            is_in("own", old="web"), "D6"),
    changes("the old label is taken away and nothing happens", member(set="web", old="web"), labels(old=None),
            is_in("web", old=None), "D6"),
    changes("the old label stays and that of today is taken away", member(set="web", old="web"), labels(set=None),
            is_in("default", old="web"), "D6", "A2"),
    changes("the old label needs the right to leave", member(set="web"), labels(old="db"), join_refused("raj", "web"),
            "D6", "A6", who=clerk(join("db"))),
    changes("the old label needs the right to enter", member(set="web"), labels(old="db"), join_refused("raj", "db"),
            "D6", "A6", who=clerk(join("web"))),
    creates("who creates with the old label needs no right on the default set", labels(old="web"),
            Allowed(labels(set="web"), COPIED), "D6", "A7", who=clerk(join("web"))),
    creates("the old label is copied without the gate as well", labels(old="web"),
            Allowed(labels(set="web"), COPIED), "D6", settings=GATE_OFF),
]  # fmt: skip

SPELLINGS: dict[str, Doc] = {
    "in the plural": join(),
    "in the plural, by name": join("web", "db"),
    "in the singular": join(resource="managedclusterset/join"),
    "in the singular, by name": join("web", "db", resource="managedclusterset/join"),
    "to join anything": join(resource="*/join"),
}
NEAR: dict[str, Doc] = {
    "update": join(verb="update"),
    "bind": join(resource="managedclustersets/bind"),
    "the right in another group": join(group="register.open-cluster-management.io"),
    "the right on sets alone": join(resource="managedclustersets"),
}
JOIN_ALL, JOIN_WEB, JOIN_DB, BIND_ALL = (
    (f"clustersets.{act}_managedclusterset", name)
    for act, name in (("join", ""), ("join", "web"), ("join", "db"), ("bind", ""))
)
SETS = (scene.clusterset("web"), scene.clusterset("db"))

MOVED: list[Row] = [
    *(
        changes(f"a cluster is moved by the right {how}", member(set="web"), labels(set="db"), is_in("db"), "A6", "D2", "S132",
                who=clerk(spelled))
        for how, spelled in SPELLINGS.items()
    ),
    *(
        changes(f"no cluster is moved by {how}", member(set="web"), labels(set="db"), join_refused("raj", "web"), "A6", "D2",
                who=clerk(near))
        for how, near in NEAR.items()
    ),
    changes("a cluster is moved by Django's permission for all", member(set="web"), labels(set="db"), is_in("db"), "D2", "A6",
            who=clerk(permissions=(JOIN_ALL,))),
    changes("a cluster is moved by guardian's permissions on both sets", member(set="web"), labels(set="db"), is_in("db"),
            "D2", "A6", who=clerk(permissions=(JOIN_WEB, JOIN_DB)), around=SETS),
    changes("a cluster is moved by the group's permissions on both sets", member(set="web"), labels(set="db"), is_in("db"),
            "D2", "A6", who=clerk(permissions=(JOIN_WEB, JOIN_DB), by_group=True), around=SETS),
    changes("a cluster is moved by one right of each sort", member(set="web"), labels(set="db"), is_in("db"),
            "D2", "A6", who=clerk(join("db"), permissions=(JOIN_WEB,)), around=SETS),
    changes("Django's permission to bind moves no cluster", member(set="web"), labels(set="db"), join_refused("raj", "web"),
            "D2", "A6", who=clerk(permissions=(BIND_ALL,))),
    changes("the permission on the set that is left is not enough", member(set="web"), labels(set="db"),
            join_refused("raj", "db"), "D2", "A6", who=clerk(permissions=(JOIN_WEB,)), around=SETS),
    changes("a superuser moves clusters", member(set="web"), labels(set="db"), is_in("db"), "A6", who=SUPERUSER),
    changes("the set that is left is asked first", member(set="web"), labels(set="db"), join_refused("raj", "web"), "A6",
            who=CLERK),
    changes("leaving needs the right on the old set", member(set="web"), labels(set="db"), join_refused("raj", "web"), "A6",
            who=clerk(join("db"))),
    changes("entering needs the right on the new set", member(set="web"), labels(set="db"), join_refused("raj", "db"), "A6",
            who=clerk(join("web"))),
    changes("losing the label is leaving", member(set="web"), labels(set=None), join_refused("raj", "web"), "A6", "A2",
            who=clerk(join("default"))),
    changes("losing the label is entering the default set", member(set="web"), labels(set=None),
            join_refused("raj", "default"), "A6", "A2", who=clerk(join("web"))),
    changes("without the gate losing the label needs the old set alone", member(set="web"), labels(set=None), is_in(None),
            "A6", who=clerk(join("web")), settings=GATE_OFF),
    changes("without the gate who had no label needs the new set alone", member(), labels(set="web"), is_in("web"),
            "A6", who=clerk(join("web")), settings=GATE_OFF),
    changes("who moves nothing needs no right", member(set="web"), labels(set="web", color="red"), is_in("web", color="red"),
            "A6", who=CLERK),
    changes("who has never had a set is moved by the next write", member(), labels(color="red"),
            join_refused("raj", "default"), "A7", "K6", who=CLERK),
    changes("the hub's own hand gives the default set freely", member(), labels(color="red"),
            is_in("default", color="red"), "K6", who=HUB),
    changes("the hub's own hand moves freely", member(set="web"), labels(set="db"), is_in("db"), "K6", who=HUB),
]  # fmt: skip

CREATED: list[Row] = [
    creates("anyone who creates a cluster joins the default set", {}, join_refused("raj", "default"), "A7", "A6", who=CLERK),
    creates("anyone who may join the default set may create", {}, is_in("default"), "A7", who=clerk(join("default"))),
    creates("without the gate creating needs no right to join", {}, is_in(None), "A7", who=CLERK, settings=GATE_OFF),
    creates("anyone who creates into a set needs the right on it alone", labels(set="web"), is_in("web"), "A6",
            who=clerk(join("web"))),
    creates("the right on the default set leads into no other", labels(set="web"), join_refused("raj", "web"), "A6",
            who=clerk(join("default"))),
    creates("the set need not exist", labels(set="none-such"), is_in("none-such"), "A6", who=WRITER),
    creates("the permission on a set that exists counts", labels(set="web"), is_in("web"), "D2", "A6",
            who=clerk(permissions=(JOIN_WEB,)), around=SETS),
    creates("the permission on one set does not count for one that does not exist", labels(set="none-such"),
            join_refused("raj", "none-such"), "D2", "A6", who=clerk(permissions=(JOIN_WEB,)), around=SETS),
    creates("the permission for all counts for a set that does not exist", labels(set="none-such"), is_in("none-such"), "D2",
            who=clerk(permissions=(JOIN_ALL,))),
    creates("a bootstrap agent creates its cluster", {}, is_in("default"), "A7", who=BOOTSTRAP, ways=("post",)),
    creates("a bootstrap token for this cluster creates it", {}, is_in("default"), "A7", "K4",
            who=Who("c1", sort=BOOTSTRAP.sort), ways=("post",)),
    creates("a bootstrap token for another cluster creates none", {},
            Refused(403, 'managedclusters.cluster.open-cluster-management.io "c1" is forbidden: User "{user}" cannot create resource '
                    '"managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope: '
                    'the bootstrap token is for the cluster "c2" only'),
            "K4", who=Who("c2", sort=BOOTSTRAP.sort), ways=("post",)),
    creates("the hub's own hand creates freely", labels(set="web"), is_in("web"), "K6", who=HUB),
]  # fmt: skip

AGENTS: list[Row] = [
    changes("an agent does not move its own cluster", cluster(accepted=True, clusterset="web"), labels(set="db"),
            join_refused(AGENT.name, "web"), "A6",
            who=AGENT, settled=True, ways=("put",)),
    changes("an agent writes other labels of its own cluster", cluster(accepted=True, clusterset="web"), labels(color="red"),
            is_in("web", color="red"), "A6",
            who=AGENT, settled=True, ways=("put",)),
]  # fmt: skip

ROWS = [*GIVEN, *OLD_KEY, *MOVED, *CREATED, *AGENTS]
