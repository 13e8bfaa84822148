"""Who lets a cluster in and sends it away (A4a, A4b, A5, D2, D3, D18)."""

from __future__ import annotations

from dataclasses import replace

from clusters.kinds import GROUP, MANAGED_CLUSTER, REGISTER
from tests.actors import rule
from tests.entry_points.admission import scene
from tests.entry_points.admission.row import (
    ACCEPT_ANY,
    ACCEPTS,
    AGENT,
    APPROVER,
    BOOTSTRAP,
    DISCONNECTS,
    HUB,
    JOIN_ANY,
    NOBODY,
    READER,
    SUPERUSER,
    VALIDATING,
    WRITER,
    Allowed,
    Doc,
    Refused,
    Row,
    Who,
    accept_refused,
    changes,
    clerk,
    cluster,
    creates,
    deletes,
    ending_refused,
    invalid,
    labels,
)
from tests.entry_points.admission.ways import API

ACCEPT_ALL, ACCEPT_C1, ACCEPT_C2 = (("clusters.accept_managedcluster", name) for name in ("", "c1", "c2"))
SENT_AWAY = Allowed(DISCONNECTS, act="managedcluster:disconnect")
# H27: in the same write, no matter who makes it and however narrow their right is.
HELD: Doc = {"metadata": {"finalizers": ["cluster.open-cluster-management.io/resource-cleanup"]}}
LET_IN = Allowed(ACCEPTS | HELD, act="managedcluster:accept")
ACCEPTED = cluster(accepted=True)

TURN: Doc = {
    "metadata": {"annotations": {"open-cluster-management.io/automatically-accepted-on": "2026-01-02T03:04:05Z"}}
}
KEY: Doc = {"metadata": {"annotations": {"registration.ocmconsole.io/accept-key": "SHA256:" + "0a" * 32}}}

SPELLINGS: dict[str, Doc] = {
    "update in register": ACCEPT_ANY,
    "update in register by name": rule("update", "managedclusters/accept", groups=REGISTER, names="c1"),
    "create in cluster": rule("create", "managedclusters/accept", groups=GROUP),
    "create in register": rule("create", "managedclusters/accept", groups=REGISTER),
    "create in cluster, singular": rule("create", "managedcluster/accept", groups=GROUP),
    "create in register, singular, by name": rule("create", "managedcluster/accept", groups=REGISTER, names="c1 c2"),
    "update of every accept": rule("update", "*/accept", groups=REGISTER),
    "everything in register": rule("*", "*", groups=REGISTER),
}
NEAR: dict[str, Doc] = {
    "update in cluster": rule("update", "managedclusters/accept", groups=GROUP),
    "update in register, singular": rule("update", "managedcluster/accept", groups=REGISTER),
    "update in register of another": rule("update", "managedclusters/accept", groups=REGISTER, names="c2 c11"),
    "a star in the place of the subresource": rule("update", "managedclusters/*", groups=REGISTER),
    "patch in register": rule("patch", "managedclusters/accept", groups=REGISTER),
    "update of status": rule("update", "managedclusters/status", groups=GROUP),
    "join of the set of that name": rule("create", "managedclustersets/join", groups=GROUP, names="c1"),
}
HOLDERS: dict[str, Who] = {
    "by Django's permission for all": clerk(JOIN_ANY, permissions=(ACCEPT_ALL,)),
    "by the group's permission for all": clerk(JOIN_ANY, permissions=(ACCEPT_ALL,), by_group=True),
    "by mastery": SUPERUSER,
}
HOLDERS_OF_ONE: dict[str, Who] = {
    "by guardian's permission on it": clerk(permissions=(ACCEPT_C1,)),
    "by the group's permission on it": clerk(permissions=(ACCEPT_C1,), by_group=True),
    "by that permission and nothing else": Who("ana", (), (ACCEPT_C1,)),
}

MAY: list[Row] = [
    *(
        changes(f"a cluster is let in by {how}", cluster(), ACCEPTS, LET_IN, "A4b", "A7b", "D2", "H27", "S9", "S20", who=clerk(spelled))
        for how, spelled in SPELLINGS.items()
    ),
    *(
        changes(f"a cluster is let in {how}", cluster(), ACCEPTS, LET_IN, "D2", who=who)
        for how, who in {**HOLDERS, **HOLDERS_OF_ONE}.items()
    ),
    *(
        creates(f"a cluster is created as let in {how}", ACCEPTS, LET_IN, "A4b", "D2", who=who)
        for how, who in {**HOLDERS, "by RBAC": APPROVER}.items()
    ),
    *(
        changes(f"a cluster is sent away {how}", ACCEPTED, DISCONNECTS, SENT_AWAY, "D3", "A5", who=who)
        for how, who in {**HOLDERS, **HOLDERS_OF_ONE, "by RBAC": APPROVER}.items()
    ),
    changes("the hub's own hand needs no right to let in", cluster(), ACCEPTS, LET_IN, "K6", who=HUB),
    changes("the hub's own hand needs no right to send away", ACCEPTED, DISCONNECTS, SENT_AWAY, "K6", "D3", who=HUB),
    changes("who may not let in may still write the rest", cluster(), {"spec": {"leaseDurationSeconds": 5}},
            Allowed({"spec": {"leaseDurationSeconds": 5}}), "A4b"),
    changes("what is let in may be written as let in", ACCEPTED, {"spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 5}},
            Allowed({"spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 5}}), "A4b"),
    creates("a cluster is created as not let in", DISCONNECTS, Allowed(DISCONNECTS, act="managedcluster:create"), "A4b"),
    creates("a cluster is created without a word about it", {},
            Allowed({"spec": {"hubAcceptsClient": False, "leaseDurationSeconds": 60}}), "A4b", "W5", "S137"),
    changes("sending away is free where parity is wanted", ACCEPTED, DISCONNECTS, SENT_AWAY, "A5", "D3",
            settings={"OCMCONSOLE_GUARD_DISCONNECT": False}),
    changes("letting in is guarded where parity is wanted", cluster(), ACCEPTS, accept_refused("raj"), "A4b", "D3",
            settings={"OCMCONSOLE_GUARD_DISCONNECT": False}),
    deletes("a cluster is deleted without that right", ACCEPTED, Allowed(), "A5", "A0"),
]  # fmt: skip

MAY_NOT: list[Row] = [
    changes("letting in needs its own right", cluster(), ACCEPTS, accept_refused("raj"), "A4b", "A0", "S8"),
    *(
        changes(f"no cluster is let in by {how}", cluster(), ACCEPTS, accept_refused("raj"), "A7b", "D2",
                who=clerk(JOIN_ANY, near))
        for how, near in NEAR.items()
    ),
    changes("the permission on another cluster lets this one not in", cluster(), ACCEPTS, accept_refused("raj"), "D2",
            who=clerk(JOIN_ANY, permissions=(ACCEPT_C2,)), around=(scene.other_cluster("c2", accepted=False),)),
    creates("creating as let in needs the right", ACCEPTS, accept_refused("raj"), "A4b"),
    creates("creating as let in needs the right by that name", ACCEPTS, accept_refused("raj"), "A4b", "D2",
            who=clerk(JOIN_ANY, rule("update", "managedclusters/accept", groups=REGISTER, names="c2"))),
    changes("sending away needs the right", ACCEPTED, DISCONNECTS, accept_refused("raj"), "D3"),
    changes("taking the word away is sending away", ACCEPTED, {"spec": {"hubAcceptsClient": None}},
            accept_refused("raj"), "D3"),
    changes("taking the spec away is sending away", ACCEPTED, {"spec": None}, accept_refused("raj"), "D3"),
    changes("an agent does not let itself in", cluster(), ACCEPTS, accept_refused(AGENT.name), "A4b",
            who=replace(AGENT, rules=(rule("get update patch", "managedclusters", groups=GROUP, names="c1"),))),
    creates("a bootstrap agent creates nothing as let in", ACCEPTS, accept_refused("{user}"), "A4b", "A7",
            who=BOOTSTRAP, ways=("post",)),
]  # fmt: skip

OTHERS: dict[str, Doc] = {
    "label": {"metadata": {"labels": {"color": "red"}}},
    "finalizer": {"metadata": {"finalizers": ["example.com/hold"]}},
    "annotation": {"metadata": {"annotations": {"registration.ocmconsole.io/other": "x"}}},
    "taint": {"spec": {"taints": [{"key": "a", "effect": "NoSelect"}]}},
    "lease duration, even while it lets in": {"spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 5}},
}
NO_WRITERS: list[Row] = [
    *(
        changes(f"{who.name} changes no cluster", cluster(), {"metadata": {"labels": {"color": "red"}}},
                Refused(403, f'managedclusters.cluster.open-cluster-management.io "c1" is forbidden: User "{who.name}" cannot '
                        '{verb} resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'),
                "A0", who=who, ways=API)
        for who in (NOBODY, READER)
    ),
    *(
        creates(f"{who.name} creates no cluster",{},
                Refused(403, f'managedclusters.cluster.open-cluster-management.io is forbidden: User "{who.name}" cannot '
                        'create resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope'),
                "A0", "K48", who=who, ways=("post",))
        for who in (NOBODY, READER)
    ),
    *(
        changes(f"the right to let in changes no {what}", cluster(), change,
                Refused(403, 'managedclusters.cluster.open-cluster-management.io "c1" is forbidden: User "ana" cannot {verb} resource '
                        '"managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope: '
                        "clusters.accept_managedcluster granted to ana allows changing "
                        "metadata.annotations.registration.ocmconsole.io/accept-key, spec.hubAcceptsClient only"),
                "D2", "D9", who=Who("ana", (), (ACCEPT_C1,)))
        for what, change in OTHERS.items()
    ),
    changes("who lets in says which key is right", cluster(), KEY,
            Allowed(KEY), "D9",
            who=Who("ana", (), (ACCEPT_C1,))),
    changes("who may not let in does not say which key is right", cluster(), KEY,
            accept_refused("raj", why='user "raj" cannot change the annotation registration.ocmconsole.io/accept-key'), "D9"),
    changes("who may not let in does not say that the policy had its turn", cluster(), TURN,
            accept_refused("raj", why='user "raj" cannot change the annotation open-cluster-management.io/automatically-accepted-on'), "H9"),
    changes("a key is written as a fingerprint", cluster(), {"metadata": {"annotations": {"registration.ocmconsole.io/accept-key": "x"}}},
            invalid(MANAGED_CLUSTER, "c1", 'metadata.annotations[registration.ocmconsole.io/accept-key]: Invalid value: "x": '
                    "must be SHA256: and 64 hexadecimal digits in lower case", webhook=VALIDATING), "D9", who=APPROVER),
]  # fmt: skip

# Who may change a cluster but not delete it makes it go by no other way.
CHANGER = Who("raj", (rule("get update patch", "managedclusters", groups=GROUP), JOIN_ANY))
OWNED: Doc = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "c1", "uid": "1"}]}}


def held(doc: Doc) -> Doc:
    finalizers = ["cluster.open-cluster-management.io/api-resource-cleanup"]
    return {**doc, "metadata": {**doc["metadata"], "finalizers": finalizers}}


def delete_refused(what: str) -> Refused:
    return Refused(403, 'managedclusters.cluster.open-cluster-management.io "c1" is forbidden: User "raj" cannot delete resource '
                   '"managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope: '
                   f"this is needed to change {what}")  # fmt: skip


REMOVAL: list[Row] = [
    changes("who may not delete takes no finalizer of the hub away", held(cluster()), {"metadata": {"finalizers": None}},
            delete_refused("the hub's own metadata.finalizers"), "H27", who=CHANGER),
    changes("who may not delete gives no owner", cluster(), OWNED, delete_refused("metadata.ownerReferences"), "W18", "H27",
            who=CHANGER),
    changes("who may delete takes a finalizer away", held(cluster()), {"metadata": {"finalizers": None}},
            Allowed({"metadata": {"finalizers": None}}), "H27"),
]  # fmt: skip

ENDING: list[Row] = [
    *(
        changes(f"{who.name} lets nobody into a namespace that is ending", cluster(), ACCEPTS, ending_refused(), "A4a",
                who=who, around=(scene.ending_namespace(),))
        for who in (APPROVER, SUPERUSER)
    ),
    creates("nobody is created into a namespace that is ending", ACCEPTS, ending_refused(), "A4a", who=APPROVER,
            around=(scene.ending_namespace(),)),
    creates("who merely asks may ask while the namespace is ending", {}, Allowed(DISCONNECTS), "A4a",
            around=(scene.ending_namespace(),)),
    changes("who is in stays in while the namespace is ending", ACCEPTED, {"metadata": {"labels": {"color": "red"}}},
            Allowed(ACCEPTS), "A4a", around=(scene.ending_namespace(),)),
    changes("who is in is sent away while the namespace is ending", ACCEPTED, DISCONNECTS, SENT_AWAY, "A4a", who=APPROVER,
            around=(scene.ending_namespace(),)),
    changes("another namespace may be ending", cluster(), ACCEPTS, LET_IN, "A4a", who=APPROVER,
            around=(scene.ending_namespace("c2"),)),
    changes("the end of the namespace is told before the missing right", cluster(), ACCEPTS,
            accept_refused("raj", why='cluster namespace "c1" is terminating'), "A7c", "A4a", who=WRITER,
            around=(scene.ending_namespace(),)),
]  # fmt: skip


def guarded(name: str, why: str) -> Refused:
    cause = f"spec.hubAcceptsClient: Forbidden: {why}"
    return invalid(MANAGED_CLUSTER, name, cause, webhook=VALIDATING)


def of_the_system(name: str) -> Refused:
    return guarded(name, f'namespace "{name}" belongs to the system and cannot become a cluster namespace')


GUARDED: list[Row] = [
    *(
        changes(f"{name} is let in by nobody", cluster(), ACCEPTS, of_the_system(name), "D18", name=name, who=APPROVER)
        for name in ("default", "kube-system", "kube-x", "open-cluster-management", "open-cluster-management-hub")
    ),
    creates("kube-public is not created as let in", ACCEPTS, of_the_system("kube-public"), "D18", name="kube-public", who=SUPERUSER),
    creates("kube-public may ask", {}, Allowed(DISCONNECTS), "D18", name="kube-public"),
    creates("kubernetes is a name like others", ACCEPTS, LET_IN, "D18", name="kubernetes", who=APPROVER),
    creates("my-open-cluster-management is a name like others", ACCEPTS, LET_IN, "D18", name="my-open-cluster-management",
            who=APPROVER),
    changes("kube-x that was let in before is sent away", ACCEPTED, DISCONNECTS, SENT_AWAY, "D18", name="kube-x", who=APPROVER),
    changes("kube-x that was let in before may be written", ACCEPTED, {"metadata": {"labels": {"color": "red"}}},
            Allowed(ACCEPTS), "D18", name="kube-x"),
    changes("who may not let in is not told that the name is guarded", cluster(), ACCEPTS, accept_refused("raj", "kube-x"), "D18", "A7c",
            name="kube-x"),
    *(
        changes(f"{name} is the name of a shared role", cluster(), ACCEPTS,
                guarded(name, f'the role "open-cluster-management:managedcluster:{name}" is shared by all clusters'), "D18",
                name=name, who=APPROVER)
        for name in ("work", "registration")
    ),
    changes("nobody is let into a namespace with a binding", cluster(), ACCEPTS,
            guarded("team", 'namespace "team" holds a ManagedClusterSetBinding and cannot become a cluster namespace'), "D18",
            name="team", who=APPROVER, around=(scene.namespace("team"), scene.binding("web", "team"))),
    creates("nobody is created as let in where a set is bound", ACCEPTS,
            guarded("team", 'namespace "team" holds a ManagedClusterSetBinding and cannot become a cluster namespace'), "D18",
            name="team", who=SUPERUSER, around=(scene.namespace("team"), scene.binding("web", "team"))),
    changes("a namespace without a binding may become a cluster's", cluster(), ACCEPTS, LET_IN, "D18", name="team", who=APPROVER,
            around=(scene.namespace("team"), scene.namespace("other"), scene.binding("web", "other"))),
]  # fmt: skip

FIRST: list[Row] = [
    changes("what may not be stamped is told before all else", cluster(),
            {**labels(set="web"), "spec": {**ACCEPTS["spec"], "taints": [{"key": "b", "effect": "NoSelect", "timeAdded": "2001-02-03T04:05:06Z"}]}},
            Refused(400, 'admission webhook "managedclustermutators.admission.cluster.open-cluster-management.io" denied the request: '
                    'It is not allowed to set TimeAdded of Taint "b".'), "A7c", "A1", who=clerk()),
    changes("letting in is told before moving", cluster(), {**labels(set="web"), **ACCEPTS}, accept_refused("raj"), "A7c",
            who=clerk()),
]  # fmt: skip

ROWS = [*MAY, *MAY_NOT, *NO_WRITERS, *REMOVAL, *ENDING, *GUARDED, *FIRST]
