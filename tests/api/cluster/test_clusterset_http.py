"""Rules of cluster sets at the HTTP entry: the default set, moving clusters, binding sets (ocm.md 2)."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import override_settings

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from clustersets.admission import OLD_CLUSTERSET_LABEL
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.entry import APPLY, JSON_PATCH, MERGE, Answer, Doc, Entry

pytestmark = pytest.mark.django_db

URL = f"/apis/{GROUP}/v1/managedclusters"
BINDINGS = f"/apis/{GROUP}/v1beta2/namespaces/apps/managedclustersetbindings"
CLUSTER_DENIED = f'admission webhook "managedclustervalidators.admission.{GROUP}" denied the request: '
BINDING_DENIED = f'admission webhook "managedclustersetbindingvalidators.admission.{GROUP}" denied the request: '


def labelled(labels: Doc, by: Entry | None = None) -> Answer:
    return (by or entry.root()).patch(f"{URL}/c1", {"metadata": {"labels": labels}})


def set_of(answer: Answer) -> str | None:
    assert answer.code in {200, 201}, answer.body
    label: str | None = (answer.doc["metadata"].get("labels") or {}).get(CLUSTERSET_LABEL)
    return label


@pytest.fixture
def raj() -> Entry:
    """May write clusters, and join the sets that a test grants."""
    grant(person("raj"), rule("create update patch", "managedclusters", groups=GROUP))
    return entry.person("raj")


def may_join(*sets: str, resource: str = "managedclustersets/join") -> None:
    grant(person("raj"), rule("create", resource, groups=GROUP, names=" ".join(sets)))


# ---------------------------------------------------------------- A2, D6


@pytest.mark.contract("A2")
@pytest.mark.parametrize("labels", [None, {}, {CLUSTERSET_LABEL: ""}], ids=str)
def test_a_cluster_without_a_set_comes_into_the_default_set(labels: Doc | None) -> None:
    doc = make.document(MANAGED_CLUSTER, "c1", labels=labels)
    assert set_of(entry.root().post(URL, doc)) == "default"
    assert set_of(labelled({CLUSTERSET_LABEL: "web"})) == "web"
    assert set_of(labelled({CLUSTERSET_LABEL: None})) == "default"


@pytest.mark.contract("A2", "H24")
def test_without_the_gate_no_set_is_given() -> None:
    with override_settings(OCMCONSOLE_FEATURE_GATES={"DefaultClusterSet": False}):
        assert set_of(entry.root().post(URL, make.document(MANAGED_CLUSTER, "c1"))) is None


@pytest.mark.contract("D6")
def test_the_old_label_still_moves_a_cluster_and_a_warning_names_the_new_one() -> None:
    made = entry.root().post(URL, make.document(MANAGED_CLUSTER, "c1", labels={OLD_CLUSTERSET_LABEL: "web"}))
    assert set_of(made) == "web"
    assert CLUSTERSET_LABEL in made.headers["Warning"]
    assert set_of(labelled({OLD_CLUSTERSET_LABEL: "data"})) == "data"
    quiet = labelled({OLD_CLUSTERSET_LABEL: None})
    assert set_of(quiet) == "data"
    assert "Warning" not in quiet.headers


@pytest.mark.contract("D6")
def test_the_new_label_wins_where_both_change() -> None:
    make.cluster("c1")
    assert set_of(labelled({OLD_CLUSTERSET_LABEL: "old", CLUSTERSET_LABEL: "new"})) == "new"


@pytest.mark.contract("D6", "A6")
def test_the_old_label_is_no_way_around_the_right_to_join(raj: Entry) -> None:
    make.cluster("c1")
    may_join("default")
    assert labelled({OLD_CLUSTERSET_LABEL: "web"}, raj).said == (403, "Forbidden")


# ---------------------------------------------------------------- A6, A7


def join_refused(name: str) -> str:
    return (
        f'{CLUSTER_DENIED}managedclustersets/join.{GROUP} "{name}" is forbidden: '
        f'user "raj" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{name}"'
    )


@pytest.mark.contract("A6")
def test_a_move_needs_the_right_on_the_set_that_is_left_and_then_on_the_one_that_is_entered(raj: Entry) -> None:
    make.cluster("c1")
    answer = labelled({CLUSTERSET_LABEL: "web"}, raj)
    assert (answer.said, answer.message) == ((403, "Forbidden"), join_refused("default"))
    may_join("default")
    assert labelled({CLUSTERSET_LABEL: "web"}, raj).message == join_refused("web")
    may_join("web")
    assert set_of(labelled({CLUSTERSET_LABEL: "web"}, raj)) == "web"


FORMS_OF_LEAVING: dict[str, tuple[str, object]] = {
    "merge": (MERGE, {"metadata": {"labels": {CLUSTERSET_LABEL: None}}}),
    "merge-all": (MERGE, {"metadata": {"labels": None}}),
    "merge-empty": (MERGE, {"metadata": {"labels": {CLUSTERSET_LABEL: ""}}}),
    "json": (JSON_PATCH, [{"op": "remove", "path": f"/metadata/labels/{CLUSTERSET_LABEL.replace('/', '~1')}"}]),
    "json-all": (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}]),
    "apply": (APPLY, make.document(MANAGED_CLUSTER, "c1")),
    "put": ("", None),
}


@pytest.mark.contract("A6", "A2")
@pytest.mark.parametrize("form", FORMS_OF_LEAVING)
def test_to_leave_a_set_is_to_move_to_the_default_set_in_every_form_of_write(raj: Entry, form: str) -> None:
    """Whoever applied the label and then applies nothing takes it away; a PUT without it does as well."""
    grant(person("raj"), rule("get", "managedclusters", groups=GROUP))
    wearing = make.document(MANAGED_CLUSTER, "c1", labels={CLUSTERSET_LABEL: "web"})
    assert entry.root().patch(f"{URL}/c1?fieldManager=gitops", wearing, APPLY).code == 201
    as_, body = FORMS_OF_LEAVING[form]

    def leave() -> Answer:
        if form != "put":
            return raj.patch(f"{URL}/c1{'?fieldManager=gitops' if as_ == APPLY else ''}", body, as_)
        doc = raj.get(f"{URL}/c1").doc
        del doc["metadata"]["labels"]
        return raj.put(f"{URL}/c1", doc)

    assert leave().message == join_refused("web")
    may_join("web")
    assert leave().message == join_refused("default")
    may_join("default")
    assert set_of(leave()) == "default"


@pytest.mark.contract("A6", "H24")
def test_without_a_default_set_leaving_asks_for_the_right_on_the_set_that_is_left_only(raj: Entry) -> None:
    with override_settings(OCMCONSOLE_FEATURE_GATES={**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": False}):
        make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
        assert labelled({CLUSTERSET_LABEL: None}, raj).message == join_refused("web")
        may_join("web")
        assert set_of(labelled({CLUSTERSET_LABEL: None}, raj)) is None


@pytest.mark.contract("A6", "W16")
def test_the_status_endpoint_moves_nobody(raj: Entry) -> None:
    grant(person("raj"), rule("patch", "managedclusters/status", groups=GROUP))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    body = {"metadata": {"labels": {CLUSTERSET_LABEL: "data"}}, "status": {"version": {"kubernetes": "v1.31.0"}}}
    assert set_of(raj.patch(f"{URL}/c1/status", body)) == "web"


@pytest.mark.contract("A6")
def test_whoever_moves_nothing_needs_no_right(raj: Entry) -> None:
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    assert labelled({"color": "red"}, raj).code == 200


@pytest.mark.contract("A7", "A6")
def test_whoever_creates_a_cluster_joins_the_default_set(raj: Entry) -> None:
    doc = make.document(MANAGED_CLUSTER, "c1")
    assert raj.post(URL, doc).message == join_refused("default")
    may_join("default")
    assert raj.post(URL, doc).code == 201


@pytest.mark.contract("D2", "A6")
@pytest.mark.parametrize("resource", ["managedclustersets/join", "managedclusterset/join"])
def test_the_right_to_join_has_two_spellings(raj: Entry, resource: str) -> None:
    may_join("default", resource=resource)
    assert raj.post(URL, make.document(MANAGED_CLUSTER, "c1")).code == 201


# ---------------------------------------------------------------- bindings


def bound(name: str, *, set_: str = "") -> Doc:
    return make.document(MANAGED_CLUSTER_SET_BINDING, name, spec={"clusterSet": set_ or name})


@pytest.mark.contract("A8")
def test_a_binding_has_the_name_of_its_set_now_and_later() -> None:
    make.namespace("apps")
    text = f"{BINDING_DENIED}The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    answer = entry.root().post(BINDINGS, bound("web", set_="data"))
    assert (answer.said, answer.message) == ((400, "BadRequest"), text)
    assert entry.root().post(BINDINGS, bound("web")).code == 201  # A10: the set need not exist
    answer = entry.root().patch(f"{BINDINGS}/web", {"spec": {"clusterSet": "data"}})
    assert (answer.said, answer.message) == ((400, "BadRequest"), text)


@pytest.mark.contract("A9", "D2")
@pytest.mark.parametrize("resource", ["managedclustersets/bind", "managedclusterset/bind"])
def test_binding_needs_the_right_on_the_set(resource: str) -> None:
    make.namespace("apps")
    actor, li = person("li"), entry.person("li")
    grant(actor, rule("create patch", "managedclustersetbindings", groups=GROUP), namespace="apps")
    answer = li.post(BINDINGS, bound("web"))
    assert answer.said == (403, "Forbidden")
    assert answer.message == (
        f'{BINDING_DENIED}managedclustersets/bind.{GROUP} "web" is forbidden: '
        'user "li" is not allowed to bind cluster set "web"'
    )
    made = grant(actor, rule("create", resource, groups=GROUP, names="web"))
    assert made
    assert li.post(BINDINGS, bound("web")).code == 201
    assert li.post(BINDINGS, bound("data")).code == 403


@pytest.mark.contract("D4")
def test_the_namespace_of_a_cluster_that_was_let_in_is_not_bound() -> None:
    make.cluster("apps", accepted=True)
    make.settle()
    answer = entry.root().post(BINDINGS, bound("web"))
    assert answer.said == (422, "Invalid")
    why = 'namespace "apps" is the cluster namespace of a registered cluster; bind the set into another one'
    assert why in answer.message
    with override_settings(OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING=True):
        allowed = entry.root().post(BINDINGS, bound("web"))
    assert allowed.code == 201
    assert "is the cluster namespace" in allowed.headers["Warning"]


@pytest.mark.contract("D4")
def test_a_cluster_that_merely_asks_blocks_no_namespace() -> None:
    make.namespace("apps")
    make.cluster("apps")
    assert entry.root().post(BINDINGS, bound("web")).code == 201


@pytest.mark.contract("D18")
def test_a_namespace_with_a_binding_becomes_no_cluster_namespace() -> None:
    make.namespace("apps")
    make.binding("web", namespace="apps")
    make.cluster("apps")
    answer = entry.root().patch(f"{URL}/apps", {"spec": {"hubAcceptsClient": True}})
    assert answer.said == (422, "Invalid")
    assert 'namespace "apps" holds a ManagedClusterSetBinding' in answer.message


@pytest.mark.contract("D18")
@pytest.mark.parametrize("name", ["default", "kube-system", "open-cluster-management-hub"])
def test_names_of_the_system_are_let_in_by_nobody(name: str) -> None:
    answer = entry.root().post(URL, make.document(MANAGED_CLUSTER, name, spec={"hubAcceptsClient": True}))
    assert answer.said == (422, "Invalid")
    assert "belongs to the system" in answer.message
