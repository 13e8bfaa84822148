"""To leave a set is a move like any other, whatever form of write takes the label off (A6)."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import override_settings

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.entry import APPLY, JSON_PATCH, MERGE, Answer, Entry

pytestmark = pytest.mark.django_db

URL = f"/apis/{GROUP}/v1/managedclusters/c1"
LABEL = f"/metadata/labels/{CLUSTERSET_LABEL.replace('/', '~1')}"
FORMS: dict[str, tuple[str, object]] = {
    "merge": (MERGE, {"metadata": {"labels": {CLUSTERSET_LABEL: None}}}),
    "merge-all": (MERGE, {"metadata": {"labels": None}}),
    "merge-empty": (MERGE, {"metadata": {"labels": {CLUSTERSET_LABEL: ""}}}),
    "json": (JSON_PATCH, [{"op": "remove", "path": LABEL}]),
    "json-all": (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}]),
    "apply": (APPLY, make.document(MANAGED_CLUSTER, "c1")),
    "put": ("", None),
}


@pytest.fixture
def raj() -> Entry:
    """May write clusters, and join the sets that a test grants."""
    grant(person("raj"), rule("get update patch", "managedclusters managedclusters/status", groups=GROUP))
    return entry.person("raj")


def may_join(name: str) -> None:
    grant(person("raj"), rule("create", "managedclustersets/join", groups=GROUP, names=name))


def refused(answer: Answer) -> str:
    """The set whose join right was missing."""
    assert answer.said == (403, "Forbidden")
    found, _, name = answer.message.partition("cannot add/remove a ManagedCluster to/from ManagedClusterSet ")
    assert found
    return name.strip('"')


def set_of(answer: Answer) -> str | None:
    assert answer.code == 200, answer.body
    label: str | None = (answer.doc["metadata"].get("labels") or {}).get(CLUSTERSET_LABEL)
    return label


@pytest.mark.contract("A6", "A2")
@pytest.mark.parametrize("form", FORMS)
def test_to_leave_a_set_is_to_move_to_the_default_set_in_every_form_of_write(raj: Entry, form: str) -> None:
    """Anyone who applied the label and then applies nothing takes it away; a PUT without it does as well."""
    wearing = make.document(MANAGED_CLUSTER, "c1", labels={CLUSTERSET_LABEL: "web"})
    assert entry.root().patch(f"{URL}?fieldManager=gitops", wearing, APPLY).code == 201
    as_, body = FORMS[form]

    def leave() -> Answer:
        if form != "put":
            return raj.patch(f"{URL}?fieldManager=gitops" if as_ == APPLY else URL, body, as_)
        doc = raj.get(URL).doc
        del doc["metadata"]["labels"]
        return raj.put(URL, doc)

    assert refused(leave()) == "web"
    may_join("web")
    assert refused(leave()) == "default"
    may_join("default")
    assert set_of(leave()) == "default"


@pytest.mark.contract("A6", "H24")
def test_without_a_default_set_leaving_asks_for_the_right_on_the_set_that_is_left_only(raj: Entry) -> None:
    body = {"metadata": {"labels": {CLUSTERSET_LABEL: None}}}
    with override_settings(OCMCONSOLE_FEATURE_GATES={**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": False}):
        make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
        assert refused(raj.patch(URL, body)) == "web"
        may_join("web")
        assert set_of(raj.patch(URL, body)) is None


@pytest.mark.contract("A6", "W16")
def test_the_status_endpoint_moves_nobody(raj: Entry) -> None:
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    body = {"metadata": {"labels": {CLUSTERSET_LABEL: "data"}}, "status": {"version": {"kubernetes": "v1.31.0"}}}
    assert set_of(raj.patch(f"{URL}/status", body)) == "web"
