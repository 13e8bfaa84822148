"""The pages of one cluster: what each tab shows, what is refused and where it says so, what is kept and taken back."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from guardian.shortcuts import assign_perm
from time_machine import travel

from clusters import services
from clusters.cluster.page_frame import ORDER, TABS
from clusters.kinds import CLUSTERSET_LABEL, GROUP, MAINTENANCE_TAINT, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clusters.taints import edit_history, maintenance
from ocmconsole.components import yaml_editing
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services as registration
from registration.models import IssuedCertificate
from tests import factories as make
from tests.actors import grant, person, rule
from tests.entry_points import scene
from tests.kept import kept

pytestmark = pytest.mark.django_db

UNREACHABLE = f"{GROUP}/unreachable"
Doc = dict[str, Any]


@pytest.fixture
@kept
def joined() -> str:
    """A cluster that asked, was let in, holds a certificate and is well."""
    make.clusterset("default")
    scene.ask("c1")
    registration.accept_cluster(make.ADMIN, "c1")
    make.settle()
    make.available("c1")
    make.renew("c1")
    make.settle()
    return "c1"


def signed_in(name: str, *permissions: str, cluster: str = "") -> Client:
    """A person with these permissions, on one cluster or on all; nobody in particular is superuser."""
    user, _ = User.objects.get_or_create(username=name)
    for permission in permissions:
        codename = f"clusters.{permission}_managedcluster"
        if cluster:
            assign_perm(codename, user, ManagedCluster.objects.get(name=cluster))
        else:
            assign_perm(codename, user)
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"), "django.contrib.auth.backends.ModelBackend")
    return client


def text_of(page: Any) -> str:
    found = page.content.decode().partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found))


def stored(name: str = "c1") -> Doc:
    doc: Doc = ManagedCluster.objects.get(name=name).doc
    return doc


def taints(name: str = "c1") -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in stored(name)["spec"].get("taints") or []]


# ---------------------------------------------------------------- tabs


def test_every_tab_opens_and_says_the_state(joined: str, boss: Client) -> None:
    for name in ORDER:
        page = boss.get(f"/clusters/c1/{name}/")
        assert page.status_code == 200, name
        assert 'id="state"' in page.content.decode()
        assert [tab["label"] for tab in page.context["tabs"] if tab["current"]] == [TABS[name].label]
    assert TABS.keys() == set(ORDER)
    assert boss.get("/clusters/c1/placements/").status_code == 404


@pytest.mark.contract("D16")
def test_who_may_not_see_the_cluster_finds_no_page_of_it(joined: str) -> None:
    stranger = signed_in("mallory")
    pages = ["", "identity/", "taints/", "events/", "yaml/", "yaml/edit/", "maintenance/", "remove/", "disconnect/"]
    assert {stranger.get(f"/clusters/c1/{page}").status_code for page in pages} == {404}
    assert stranger.get(f"/certificates/{IssuedCertificate.objects.get().pk}/revoke/").status_code == 404
    assert stranger.post("/clusters/c1/taints/set/", {"key": "a", "effect": "NoSelect"}).status_code == 404


def test_conditions_stand_worst_first_with_their_meaning(joined: str, boss: Client) -> None:
    make.available("c1", "False")
    rows = boss.get("/clusters/c1/").context["conditions"]
    assert rows[0]["type"] == "ManagedClusterConditionAvailable"
    assert "API server is not well" in rows[0]["help_text"]
    assert {row["tone"] for row in rows[1:]} == {"ok"}


def test_capacity_is_compared_with_what_can_be_used(joined: str, boss: Client) -> None:
    def report(doc: Doc) -> None:
        doc["status"] |= {
            "capacity": {"cpu": "96", "memory": "384Gi", "odd": "1e99"},
            "allocatable": {"cpu": "92500m", "memory": "192Gi"},
        }

    make.edit(MANAGED_CLUSTER, "c1", report, subresource="status")
    page = boss.get("/clusters/c1/")
    rows = {row["name"]: (row["allocatable"], row["capacity"], row["percent"]) for row in page.context["capacity"]}
    assert rows["cpu"] == ("92.5", "96", 96)
    assert rows["memory"] == ("192 GiB", "384 GiB", 50)
    assert rows["odd"][2] is None


def test_queries_do_not_grow_with_what_a_tab_shows(
    joined: str, boss: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(12):
        services.set_label(make.ADMIN, "c1", f"label-{number}", "x")
        services.set_taint(make.ADMIN, "c1", {"key": f"taint-{number}", "effect": "NoSelect"})
        make.work("c1", f"work-{number}")
    for name in ORDER:
        with django_assert_max_num_queries(45):
            assert boss.get(f"/clusters/c1/{name}/").status_code == 200


def test_acts_that_are_not_permitted_say_why(joined: str) -> None:
    page = signed_in("li", "view").get("/clusters/c1/")
    told = {act["label"]: act["right"] for act in page.context["more"]}
    assert not any(right.allowed for right in told.values())
    assert "clusters.delete_managedcluster" in told["Remove…"].reason
    assert told["Disconnect…"].explain_url.startswith("/access/explain/?verb=update")
    assert "clusters.change_managedcluster" in text_of(page)


# ---------------------------------------------------------------- gone


def test_a_deleted_cluster_is_shown_only_to_who_sees_all(joined: str, boss: Client) -> None:
    viewer = signed_in("li", "view", cluster="c1")
    scene.ask("other")
    verbs.delete(person("raj", "system:masters"), MANAGED_CLUSTER, Key("", "other"))
    make.settle()
    page = boss.get("/clusters/other/")
    assert page.status_code == 404
    assert re.search(r"other was deleted .* by raj", text_of(page))
    assert viewer.get("/clusters/other/").status_code == 404
    assert "raj" not in text_of(viewer.get("/clusters/other/"))
    assert "raj" not in text_of(boss.get("/clusters/never-was/"))


@pytest.mark.contract("D19")
def test_the_page_of_a_deleted_cluster_names_certificates_that_may_be_honoured_again(joined: str, boss: Client) -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    page = boss.get("/clusters/c1/")
    assert "So does 1 certificate , valid until" in text_of(page)
    assert "/certificates/?bucket=removed&amp;q=c1" in page.content.decode()
    assert len(boss.get("/certificates/?bucket=removed&q=c1").context["rows"]) == 1
    IssuedCertificate.objects.update(revoked_at=timezone.now())
    assert "certificate" not in text_of(boss.get("/clusters/c1/")).partition("was deleted")[2]


# ---------------------------------------------------------------- taints


def test_taints_are_added_edited_and_removed(joined: str, boss: Client) -> None:
    added = {"key": "dedicated", "value": "pay", "effect": "NoSelect"}
    assert boss.post("/clusters/c1/taints/set/", added).status_code == 302
    edited = {"key": "dedicated", "effect": "PreferNoSelect", "was_key": "dedicated", "was_effect": "NoSelect"}
    assert boss.post("/clusters/c1/taints/set/", edited).status_code == 302
    assert taints() == [("dedicated", "PreferNoSelect")]
    row = boss.get("/clusters/c1/taints/").context["rows"][0]
    assert (row["by"], row["owner"]) == ("boss", "person")
    boss.post("/clusters/c1/taints/remove/", {"key": "dedicated", "effect": "PreferNoSelect"})
    assert taints() == []


def test_what_is_wrong_with_a_taint_stands_beside_its_field(joined: str, boss: Client) -> None:
    for sent, field, said in (
        ({"key": "", "effect": "NoSelect"}, "key", "Say what the taint is about"),
        ({"key": "a b", "effect": "NoSelect"}, "key", "This is no key"),
        ({"key": "a", "effect": "NoExecute"}, "effect", "not one of the available choices"),
        ({"key": "a\0", "effect": "NoSelect"}, "key", "Null characters are not allowed"),
    ):
        page = boss.post("/clusters/c1/taints/set/", sent)
        assert page.status_code == 400
        assert said in str(page.context["form"].errors[field])
    assert taints() == []


@pytest.mark.contract("H21")
def test_taints_of_the_hub_are_locked(boss: Client) -> None:
    make.cluster("c1")
    make.settle()
    assert taints() == [(UNREACHABLE, "NoSelect")]
    assert boss.get("/clusters/c1/taints/").context["rows"][0]["owner"] == "hub"
    assert boss.post("/clusters/c1/taints/remove/", {"key": UNREACHABLE, "effect": "NoSelect"}).status_code == 409
    page = boss.post("/clusters/c1/taints/set/", {"key": UNREACHABLE, "effect": "PreferNoSelect"})
    assert page.status_code == 409
    assert "kept by the hub" in text_of(page)
    assert taints() == [(UNREACHABLE, "NoSelect")]


def test_a_taint_is_there_once(joined: str, boss: Client) -> None:
    sent = {"key": "dedicated", "effect": "NoSelect"}
    boss.post("/clusters/c1/taints/set/", sent)
    page = boss.post("/clusters/c1/taints/set/", sent)
    assert page.status_code == 409
    assert "already has the taint" in text_of(page)


@pytest.mark.contract("D11", "W19")
def test_who_may_only_look_is_refused_and_recorded(joined: str) -> None:
    viewer = signed_in("li", "view", "accept")
    assert viewer.post("/clusters/c1/taints/set/", {"key": "a", "effect": "NoSelect"}).status_code == 403
    assert viewer.post("/clusters/c1/labels/set/", {"key": "a", "value": "b"}).status_code == 403
    assert (
        viewer.post("/clusters/c1/maintenance/", {"reason": "x", "lasts": "1", "effect": "NoSelect"}).status_code == 403
    )
    assert taints() == []
    assert AuditEvent.objects.filter(user="li", outcome="denied").exists()


# ---------------------------------------------------------------- undo


def undoable(page: Any) -> str:
    found = re.search(r'action="(/clusters/c1/undo/\d+/)"', page.content.decode())
    return found[1] if found else ""


@pytest.mark.contract("A1")
def test_an_edit_of_taints_can_be_taken_back(joined: str, boss: Client) -> None:
    boss.post("/clusters/c1/taints/set/", {"key": "first", "effect": "NoSelect"})
    before = stored()["spec"]["taints"]
    page = boss.post("/clusters/c1/taints/remove/", {"key": "first", "effect": "NoSelect"}, follow=True)
    assert boss.post(undoable(page), {"tab": "taints"}).headers["Location"] == "/clusters/c1/taints/"
    assert [taint["key"] for taint in stored()["spec"]["taints"]] == [taint["key"] for taint in before]


def test_labels_are_changed_and_taken_back(joined: str, boss: Client) -> None:
    labels = stored()["metadata"]["labels"]
    boss.post("/clusters/c1/labels/set/", {"key": "env", "value": "prod"})
    boss.post("/clusters/c1/labels/set/", {"key": "env", "value": "test", "was_key": "env"})
    page = boss.get("/clusters/c1/claims/")
    changes = [(change.key, change.old, change.new) for change in page.context["history"]][:2]
    assert changes == [("env", "prod", "test"), ("env", None, "prod")]
    assert "Undone: your change of the labels of c1." in text_of(boss.post(undoable(page), follow=True))
    assert stored()["metadata"]["labels"]["env"] == "prod"
    boss.post("/clusters/c1/labels/remove/", {"key": "env"})
    assert stored()["metadata"]["labels"] == labels


def test_nothing_is_taken_back_that_somebody_has_changed_since(joined: str, boss: Client) -> None:
    page = boss.post("/clusters/c1/taints/set/", {"key": "mine", "effect": "NoSelect"}, follow=True)
    way = undoable(page)
    services.set_taint(make.ADMIN, "c1", {"key": "theirs", "effect": "NoSelect"})
    assert undoable(boss.get("/clusters/c1/")) == ""
    done = boss.post(way, follow=True)
    assert "Somebody has changed it since" in text_of(done)
    assert taints() == [("mine", "NoSelect"), ("theirs", "NoSelect")]


def test_what_others_did_and_what_is_long_ago_is_not_taken_back(joined: str, boss: Client) -> None:
    services.set_taint(make.ADMIN, "c1", {"key": "theirs", "effect": "NoSelect"})
    theirs = AuditEvent.objects.order_by("pk").last()
    assert theirs is not None
    assert undoable(boss.get("/clusters/c1/")) == ""
    boss.post(f"/clusters/c1/undo/{theirs.pk}/")
    assert taints() == [("theirs", "NoSelect")]
    way = undoable(boss.post("/clusters/c1/taints/set/", {"key": "mine", "effect": "NoSelect"}, follow=True))
    with travel(timezone.now() + edit_history.PATIENCE + timedelta(seconds=1), tick=False):
        assert undoable(boss.get("/clusters/c1/")) == ""
        boss.post(way)
    assert len(taints()) == 2


# ---------------------------------------------------------------- maintenance


def begin(client: Client, **more: str) -> Any:
    return client.post(
        "/clusters/c1/maintenance/", {"reason": "kernel", "lasts": "4", "effect": "NoSelectIfNew"} | more
    )


@pytest.mark.contract("S75")
def test_maintenance_says_who_why_and_until_when(joined: str, boss: Client) -> None:
    assert begin(boss).status_code == 302
    page = boss.get("/clusters/c1/")
    assert re.search(r"In maintenance by boss until .*: kernel\.", page.context["state"].sentence)
    assert taints() == [(MAINTENANCE_TAINT, "NoSelectIfNew")]
    boss.post("/clusters/c1/maintenance/end/")
    assert taints() == []
    assert maintenance.NOTES[0] not in (stored()["metadata"].get("annotations") or {})


@pytest.mark.contract("S75")
def test_a_maintenance_that_was_begun_by_mistake_is_taken_back(joined: str, boss: Client) -> None:
    begin(boss)
    page = boss.post(undoable(boss.get("/clusters/c1/")), follow=True)
    assert "Undone: your change of the maintenance of c1." in text_of(page)
    assert taints() == []


@pytest.mark.contract("S75")
def test_maintenance_ends_by_itself(joined: str, boss: Client) -> None:
    begin(boss)
    make.settle()
    assert taints() == [(MAINTENANCE_TAINT, "NoSelectIfNew")]
    with travel(timezone.now() + timedelta(hours=4, seconds=2), tick=False):
        make.settle()
    assert MAINTENANCE_TAINT not in dict(taints())


@pytest.mark.contract("S75")
def test_an_extension_is_waited_for(joined: str, boss: Client) -> None:
    begin(boss)
    make.settle()
    begin(boss, lasts="24", reason="kernel, again")
    with travel(timezone.now() + timedelta(hours=5), tick=False):
        make.settle()
        assert MAINTENANCE_TAINT in dict(taints())
    notes = maintenance.notes_of(stored())
    assert notes is not None
    assert (notes.by, notes.reason) == ("boss", "kernel, again")


@pytest.mark.contract("S75")
def test_nobody_signs_a_maintenance_with_another_name(joined: str) -> None:
    def taint(doc: Doc) -> None:
        doc["metadata"]["annotations"] = {maintenance.BY: "ana", maintenance.REASON: "hers"}
        doc["spec"]["taints"] = [{"key": MAINTENANCE_TAINT, "effect": "NoSelect"}]

    make.edit(MANAGED_CLUSTER, "c1", taint, by=person("raj", "system:masters"))
    notes = maintenance.notes_of(stored())
    assert notes is not None
    assert notes.by == "raj"
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["annotations"].update({maintenance.BY: "ana"}))
    notes = maintenance.notes_of(stored())
    assert notes is not None
    assert notes.by == "raj"


@pytest.mark.contract("S75", "W16")
def test_with_the_taint_its_notes_go_and_leave_no_empty_map(joined: str) -> None:
    def taint(doc: Doc) -> None:
        doc["metadata"]["annotations"] = {maintenance.REASON: "kernel"}
        doc["spec"]["taints"] = [{"key": MAINTENANCE_TAINT, "effect": "NoSelect"}]

    raj = person("raj", "system:masters")
    make.edit(MANAGED_CLUSTER, "c1", taint, by=raj)
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].pop("taints"), by=raj)
    assert "annotations" not in stored()["metadata"]


def test_what_is_wrong_with_a_maintenance_stands_beside_its_field(joined: str, boss: Client) -> None:
    wrong: tuple[tuple[dict[str, str], str], ...] = (
        ({"reason": ""}, "reason"),
        ({"lasts": "at"}, "until"),
        ({"lasts": "at", "until": "2001-01-01T10:00"}, "until"),
        ({"lasts": "at", "until": "soon"}, "until"),
        ({"lasts": "at", "until": "9998-01-01T10:00"}, "until"),
        ({"lasts": "99"}, "lasts"),
        ({"effect": ""}, "effect"),
    )
    for sent, field in wrong:
        page = begin(boss, **sent)
        assert page.status_code == 400
        assert list(page.context["form"].errors) == [field]
    assert taints() == []


# ---------------------------------------------------------------- identity


@pytest.mark.contract("G25", "W24")
def test_identity_shows_the_certificate_and_when_it_is_renewed(joined: str, boss: Client) -> None:
    issued = IssuedCertificate.objects.get(cluster="c1")
    page = boss.get("/clusters/c1/identity/")
    life = page.context["lives"].current
    assert life.issued == issued
    assert (life.organization, life.approver) == ("system:open-cluster-management:c1", "root")
    assert issued.not_before < life.window_opens < life.latest_renewal < issued.not_after
    assert issued.pk in text_of(page)


@pytest.mark.contract("D9")
def test_a_revocation_says_what_it_does_and_takes_reason_and_name(joined: str, boss: Client) -> None:
    path = f"/certificates/{IssuedCertificate.objects.get().pk}/revoke/"
    assert "cannot speak any more" in text_of(boss.get(path))
    page = boss.post(path, {"reason": "", "typed": "c2"})
    assert page.status_code == 400
    assert set(page.context["form"].errors) == {"reason", "typed"}
    assert boss.post(path, {"reason": "stolen", "typed": "c1"}).headers["Location"] == "/clusters/c1/identity/"
    issued = IssuedCertificate.objects.get()
    assert (issued.revoked_by, issued.revocation_reason) == ("boss", "stolen")
    page = boss.get("/clusters/c1/identity/")
    assert page.context["lives"].current is None
    assert "revoked by boss: stolen" in text_of(page)


def test_who_may_not_accept_revokes_nothing(joined: str) -> None:
    viewer = signed_in("li", "view", "change")
    path = f"/certificates/{IssuedCertificate.objects.get().pk}/revoke/"
    assert "clusters.accept_managedcluster" in text_of(viewer.get(path))
    assert viewer.post(path, {"reason": "x", "typed": "c1"}).status_code == 403
    assert IssuedCertificate.objects.get().revoked_at is None
    assert viewer.post("/certificates/00/revoke/", {"reason": "x", "typed": "c1"}).status_code == 404


# ---------------------------------------------------------------- disconnect and reconnect


@pytest.mark.contract("H7")
def test_disconnecting_explains_and_may_revoke(joined: str, boss: Client) -> None:
    assert "There are no ManagedClusterAddOns or ManifestWorks in its namespace." in text_of(
        boss.get("/clusters/c1/disconnect/")
    )
    make.work("c1")
    page = boss.get("/clusters/c1/disconnect/")
    assert "rights are withdrawn now" in text_of(page)
    assert "1 ManifestWork in its namespace stays; of these" in text_of(page)
    assert "its condition Available becomes Unknown. The state stays Disconnected." in text_of(page)
    assert "tainted after 5 min" in text_of(page)
    assert boss.post("/clusters/c1/disconnect/", {"revoke": "on"}).headers["Location"] == "/clusters/c1/"
    assert not stored()["spec"]["hubAcceptsClient"]
    assert IssuedCertificate.objects.get().revoked_at is not None


@pytest.mark.contract("H7", "D3")
def test_what_was_disconnected_is_let_in_again(joined: str, boss: Client) -> None:
    boss.post("/clusters/c1/disconnect/")
    make.settle()
    assert boss.get("/clusters/c1/").context["reconnect_url"] == "/clusters/c1/reconnect/"
    assert signed_in("li", "view").post("/clusters/c1/reconnect/").status_code == 403
    assert "comes back by itself" in text_of(boss.get("/clusters/c1/reconnect/"))
    assert boss.post("/clusters/c1/reconnect/").headers["Location"] == "/clusters/c1/"
    assert stored()["spec"]["hubAcceptsClient"]


# ---------------------------------------------------------------- remove


@pytest.mark.contract("W18", "H27")
def test_removal_takes_the_name_and_shows_what_is_in_the_way(joined: str, boss: Client) -> None:
    unheld = "none of the ManagedClusterAddOns or ManifestWorks in its namespace has a finalizer"
    assert unheld in text_of(boss.get("/clusters/c1/remove/"))
    make.work("c1", finalizers=["example.com/undo"])
    make.settle()
    assert "manifestworks/work" in text_of(boss.get("/clusters/c1/remove/")).replace("/ ", "/")
    assert boss.post("/clusters/c1/remove/", {"typed": "c"}).status_code == 400
    assert boss.post("/clusters/c1/remove/", {"typed": "c1"}).headers["Location"] == "/clusters/c1/remove/"
    make.settle()
    page = boss.get("/clusters/c1/remove/")
    found = page.context["departure"]
    assert (found.has_begun, found.has_rights, found.left) == (True, False, 1)
    assert 'data-live-say="1 object left"' in page.content.decode()
    assert [blocker.finalizers for blocker in found.blockers] == [("example.com/undo",)]


@pytest.mark.contract("K29")
def test_force_names_what_is_given_up(joined: str, boss: Client) -> None:
    make.work("c1", finalizers=["example.com/undo"])
    assert boss.post("/clusters/c1/remove/force/", {"reason": "dead", "typed": "c1"}).status_code == 409
    boss.post("/clusters/c1/remove/", {"typed": "c1"})
    make.settle()
    assert boss.post("/clusters/c1/remove/force/", {"reason": "", "typed": "c1"}).status_code == 400
    done = boss.post("/clusters/c1/remove/force/", {"reason": "dead", "typed": "c1"}, follow=True)
    assert "Given up: manifestworks/work." in text_of(done).replace("/ ", "/")
    make.settle()
    with travel(timezone.now() + timedelta(seconds=10), tick=False):
        make.settle()
    assert boss.get("/clusters/c1/remove/").status_code == 404


def test_who_may_not_delete_removes_nothing(joined: str) -> None:
    viewer = signed_in("li", "view", "change")
    assert viewer.post("/clusters/c1/remove/", {"typed": "c1"}).status_code == 403
    assert stored()["metadata"].get("deletionTimestamp") is None


# ---------------------------------------------------------------- events and audit


@pytest.mark.contract("D11")
def test_the_stream_holds_events_and_audit_of_what_belongs_to_the_cluster(joined: str, boss: Client) -> None:
    make.work("c1")
    entries = boss.get("/clusters/c1/events/").context["page"].entries
    kinds = {entry.kind for entry in entries}
    assert {"ManagedCluster", "CertificateSigningRequest", "ManifestWork"} <= kinds
    assert [entry.at for entry in entries] == sorted((entry.at for entry in entries), reverse=True)
    seen = signed_in("li", "view").get("/clusters/c1/events/").context["page"].entries
    assert "ManifestWork" not in {entry.kind for entry in seen}


def test_the_stream_is_filtered_and_paged(joined: str, boss: Client) -> None:
    for number in range(40):
        services.set_label(person("raj", "system:masters"), "c1", "n", str(number), instead="n" if number else "")
    one = boss.get("/clusters/c1/events/?actor=raj")
    older = re.search(r'href="([^"]+)" rel="next"', one.content.decode())
    assert older
    two = boss.get(f"/clusters/c1/events/{html.unescape(older[1])}")
    ids = [entry.id for page in (one, two) for entry in page.context["page"].entries]
    assert len(ids) == len(set(ids)) == 40
    assert 'rel="next"' not in two.content.decode()
    assert 'href="?actor=raj"' in two.content.decode()
    entries = boss.get("/clusters/c1/events/?kind=CertificateSigningRequest&verb=create").context["page"].entries
    assert [(entry.kind, entry.verb) for entry in entries] == [("CertificateSigningRequest", "create")]


def test_odd_filters_of_the_stream_are_no_error(joined: str, boss: Client) -> None:
    cursors = ("x", "99999999999999999.audit.9", "1.event.~", "1.audit.x")
    for query in (*(f"after={cursor}" for cursor in cursors), "kind=Nonsense", "source=x"):
        assert boss.get(f"/clusters/c1/events/?{query}").status_code == 200, query


# ---------------------------------------------------------------- YAML


def edited(client: Client, change: Callable[[str], str], **more: str) -> Any:
    doc = stored()
    sent = {"document": change(yaml_editing.as_text(doc)), "seen": yaml_editing.version_of(doc)}
    return client.post("/clusters/c1/yaml/edit/", sent | more)


def with_label(text: str) -> str:
    return text.replace("  labels:\n", "  labels:\n    env: prod\n")


def test_an_edit_shows_its_difference_before_it_is_applied(joined: str, boss: Client) -> None:
    page = edited(boss, with_label)
    assert page.status_code == 200
    assert [line.text for line in page.context["preview"].lines if line.sign in "+-"] == ["    env: prod"]
    assert "env" not in stored()["metadata"]["labels"]
    assert edited(boss, with_label, apply="1").headers["Location"] == "/clusters/c1/yaml/"
    assert stored()["metadata"]["labels"]["env"] == "prod"
    fields = [each for each in stored()["metadata"]["managedFields"] if each["manager"] == yaml_editing.MANAGER]
    assert [each["fieldsV1"] for each in fields] == [{"f:metadata": {"f:labels": {"f:env": {}}}}]


def test_what_the_console_has_applied_goes_when_it_is_left_out(joined: str, boss: Client) -> None:
    edited(boss, with_label, apply="1")
    edited(boss, lambda text: text.replace("    env: prod\n", ""), apply="1")
    assert "env" not in stored()["metadata"]["labels"]
    assert CLUSTERSET_LABEL in stored()["metadata"]["labels"]


def test_what_others_own_and_was_left_out_stays_and_is_named(joined: str, boss: Client) -> None:
    services.set_label(make.ADMIN, "c1", "theirs", "x")
    page = edited(boss, lambda text: text.replace("    theirs: x\n", ""))
    assert page.context["preview"].kept == ["metadata.labels.theirs"]
    assert not page.context["preview"].is_change


def test_conflicts_name_the_manager_and_can_be_forced(joined: str, boss: Client) -> None:
    services.set_label(make.ADMIN, "c1", "theirs", "x")

    def change(text: str) -> str:
        return text.replace("theirs: x", "theirs: z")

    page = edited(boss, change, apply="1")
    assert page.status_code == 409
    assert [(cause.field, "ocmconsole" in cause.message) for cause in page.context["conflicts"]] == [
        (".metadata.labels.theirs", True)
    ]
    assert edited(boss, change, apply="1", force="1").status_code == 302
    assert stored()["metadata"]["labels"]["theirs"] == "z"


def test_a_document_that_moved_on_is_not_overwritten(joined: str, boss: Client) -> None:
    doc = stored()
    services.set_label(make.ADMIN, "c1", "since", "x")
    sent = {"document": with_label(yaml_editing.as_text(doc)), "seen": yaml_editing.version_of(doc), "apply": "1"}
    page = boss.post("/clusters/c1/yaml/edit/", sent)
    assert page.status_code == 409
    assert "changed it since you opened it" in text_of(page)
    assert "env" not in stored()["metadata"]["labels"]


def test_a_text_that_is_no_such_object_is_refused_beside_the_field(joined: str, boss: Client) -> None:
    head = f"apiVersion: {GROUP}/v1\nkind: ManagedCluster\nmetadata: "
    for text, said in (
        ("", "The text is empty"),
        ("[1]", "this is no object"),
        ("a: [", "error converting YAML"),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: c1}", "must stay"),
        (f"{head}{{name: c2}}", "the name must stay c1"),
        (f"{head}{{name: c1}}\nspec: {{nonsense: 1}}", "unknown field"),
        (f"{head}7", "this is no object"),
    ):
        page = edited(boss, lambda _, text=text: text)  # type: ignore[misc] # a default pins the loop variable
        assert page.status_code in {400, 422}
        assert said.lower() in str(page.context["form"].errors["document"]).lower()


def test_who_may_only_look_edits_nothing(joined: str) -> None:
    assert edited(signed_in("li", "view"), with_label, apply="1").status_code == 403


def disconnecting(text: str) -> str:
    return text.replace("Client: true", "Client: false")


@pytest.mark.contract("A4b")
def test_the_rules_hold_for_an_edited_document(joined: str) -> None:
    page = edited(signed_in("li", "view", "change"), disconnecting, apply="1", force="1")
    assert page.status_code == 403
    assert stored()["spec"]["hubAcceptsClient"]


# ---------------------------------------------------------------- sets


def test_sets_are_named_with_the_label_that_puts_the_cluster_there(joined: str, boss: Client) -> None:
    make.clusterset(
        "prod", selector={"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    )
    services.set_label(make.ADMIN, "c1", "env", "prod")
    page = boss.get("/clusters/c1/sets/")
    because = {found["name"]: found["because"] for found in page.context["sets"]}
    assert because == {"default": [(CLUSTERSET_LABEL, "default")], "prod": [("env", "prod")]}
    assert page.context["move_url"] == "/clusters/c1/set/"


@pytest.mark.contract("D16")
def test_sets_that_one_may_not_see_are_not_named(joined: str) -> None:
    li = person("li")
    grant(li, rule("get list", "managedclusters", groups=GROUP))
    page = signed_in("li").get("/clusters/c1/sets/")
    assert page.context["sets"] == []
    assert page.context["is_hidden"]


# ---------------------------------------------------------------- services


def test_a_label_is_replaced_at_its_place(joined: str) -> None:
    services.set_label(make.ADMIN, "c1", "b", "1")
    services.set_label(make.ADMIN, "c1", "c", "1")
    services.set_label(make.ADMIN, "c1", "a", "2", instead="b")
    assert list(stored()["metadata"]["labels"])[-2:] == ["a", "c"]
    with pytest.raises(errors.Conflict, match="no longer has the label b"):
        services.set_label(make.ADMIN, "c1", "x", "2", instead="b")
    with pytest.raises(errors.Conflict, match="already has the label c"):
        services.set_label(make.ADMIN, "c1", "c", "2", instead="a")
