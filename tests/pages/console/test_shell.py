"""The shell of the console: navigation by right, search, notices of what changed, the overview, activity, hub health."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from guardian.shortcuts import assign_perm, remove_perm

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clusters.models import FleetMinute, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet
from ocmconsole.console import attention, live_updates
from ocmconsole.core.models import AccessRequest, BootstrapToken
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent, HeldBack, WorkItem
from ocmconsole.kubeapi.watch import change_log, follower
from placements.kinds import PLACEMENT
from registration.models import UnknownCertificate
from registration.pki import ca
from tests import factories as make
from tests.actors import ROOT, grant, namespace, person, rule, signed_in
from tests.kept import kept

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D16")]


@pytest.fixture
@kept
def fleet() -> None:
    """Sets web and vault with clusters of their own."""
    for name in ("web", "vault"):
        make.clusterset(name)
    for name, of in (("web-1", "web"), ("web-2", "web"), ("vault-1", "vault")):
        make.cluster(name, accepted=True, labels={CLUSTERSET_LABEL: of})
    make.cluster("asks-1", labels={CLUSTERSET_LABEL: "vault"})
    make.settle()


@pytest.fixture
def admin(fleet: None) -> Client:
    return signed_in("root", is_superuser=True, is_staff=True)


@pytest.fixture
def raj(fleet: None) -> Client:
    """Somebody who may see set web."""
    client = signed_in("raj")
    assign_perm(
        "clustersets.view_managedclusterset",
        User.objects.get(username="raj"),
        ManagedClusterSet.objects.get(name="web"),
    )
    return client


@pytest.fixture
def mallory(fleet: None) -> Client:
    return signed_in("mallory")


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.content.decode()


# ---------------------------------------------------------------- navigation


def links(html: str) -> set[str]:
    nav = html[html.index('id="nav"') : html.index('id="main"')]
    return set(re.findall(r'<a [^>]*href="([^"]+)"', nav))


def test_an_admin_sees_every_page(admin: Client) -> None:
    assert {"/", "/approvals/", "/ca/", "/hub/", "/policies/", "/tokens/", "/admin/"} <= links(page(admin, "/"))


def test_who_may_nothing_is_not_led_to_pages_that_refuse(mallory: Client) -> None:
    shown = links(page(mallory, "/"))
    assert not {"/ca/", "/hub/", "/policies/", "/tokens/", "/clusters/add/", "/admin/"} & shown


def test_who_has_rights_in_one_namespace_alone_finds_what_is_theirs() -> None:
    """No page about clusters, which would be empty; the overview lists the placements."""
    nina = signed_in("nina")
    namespace("shop")
    assert {"/approvals/", "/clusters/", "/sets/"} <= links(page(nina, "/"))
    grant(
        person("nina"),
        rule("create get list watch", "placements placementdecisions managedclustersetbindings", groups=GROUP),
        namespace="shop",
    )
    make.create(PLACEMENT, make.document(PLACEMENT, "checkout", spec={}), namespace="shop")
    make.cluster("hidden-1")
    shown = page(nina, "/")
    assert links(shown) == {
        "/", "/namespaces/", "/placements/", "/placements/playground/", "/access/", "/activity/",
    }  # fmt: skip
    assert "Your placements" in shown
    assert "/placements/shop/checkout/" in shown
    assert "hidden-1" not in shown
    assign_perm("clusters.view_managedcluster", User.objects.get(username="nina"))
    assert {"/approvals/", "/clusters/", "/sets/"} <= links(page(nina, "/"))


def test_every_link_of_the_navigation_leads_to_a_page(
    admin: Client, raj: Client, mallory: Client, settings: Any
) -> None:
    ca.ensure_authority(settings.OCMCONSOLE_HOME, ["localhost"])
    for client in (admin, raj, mallory):
        for url in links(page(client, "/")):
            assert client.get(url, follow=True).status_code == 200, url


def test_the_current_page_is_marked_once(admin: Client) -> None:
    nav = page(admin, "/clusters/web-1/").split('id="nav"')[1].split("</nav>")[0]
    assert re.findall(r'href="([^"]+)" aria-current="page"', nav) == ["/clusters/"]


@pytest.mark.parametrize(
    "path", ["/", "/search/", "/activity/", "/help/", "/certificates/", "/hub/", "/ca/", "/live?scope=x"]
)
def test_who_is_not_signed_in_is_asked_to(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/?next=")


@pytest.mark.parametrize("path", ["/hub/", "/ca/"])
def test_pages_about_the_hub_itself_are_for_admins(path: str, raj: Client) -> None:
    assert raj.get(path).status_code == 403


# ---------------------------------------------------------------- search


def found(client: Client, query: str) -> set[str]:
    html = client.get("/search/", {"q": query}, headers={"X-Fragment": "found"}).content.decode()
    return set(re.findall(r"<span>([^<]+)</span>", html))


def test_search_finds_clusters_and_sets_that_one_may_see(admin: Client, raj: Client, mallory: Client) -> None:
    assert {"web-1", "web-2", "web"} <= found(admin, "web")
    assert {"web-1", "web-2", "web"} <= found(raj, "web")
    assert found(mallory, "web") == {"Explain who may do what with web"}
    assert not {"vault-1", "vault"} & found(raj, "vault")


def test_the_name_itself_comes_first(admin: Client) -> None:
    make.cluster("a-web-1")
    html = admin.get("/search/", {"q": "web-1"}, headers={"X-Fragment": "found"}).content.decode()
    assert html.index(">web-1<") < html.index(">a-web-1<")


def test_what_has_exactly_the_name_comes_before_everything_and_explain_last(admin: Client) -> None:
    html = admin.get("/search/", {"q": "asks-1"}, headers={"X-Fragment": "found"}).content.decode()
    hits = re.findall(r'<a id="[^"]+" href="([^"]+)"', html)
    assert hits[0] == "/clusters/asks-1/"
    assert "/approvals/asks-1/" in hits
    assert hits[-1].startswith("/access/explain/")


def test_search_leads_to_what_waits_only_for_who_sees_it(admin: Client, raj: Client) -> None:
    assert "Decide about asks-1" in found(admin, "asks")
    assert "Decide about asks-1" not in found(raj, "asks")


def test_tokens_are_found_by_their_minters(admin: Client, raj: Client) -> None:
    BootstrapToken.objects.create(
        id="abcdef", hash="x", name="web-eu", created_by="root", created=timezone.now(), expires=timezone.now()
    )
    assert "web-eu" in found(admin, "web-eu")
    assert "web-eu" not in found(raj, "web-eu")


def test_certificates_are_found_by_the_beginning_of_their_fingerprint(admin: Client, raj: Client) -> None:
    now = timezone.now()
    make.certificate("vault-1", "ab12cd34" * 8, begins=now, ends=now, common_name="agent-of-vault")
    assert "agent-of-vault" in found(admin, "AB:12:CD:34")
    assert "agent-of-vault" not in found(raj, "ab12cd34")


def test_people_are_looked_up_by_admins(admin: Client, raj: Client, mallory: Client) -> None:
    assert {"raj", "mallory"} <= found(admin, "ra") | found(admin, "mal")
    assert "mallory" not in found(raj, "mal")


@pytest.mark.parametrize("query", ["", "%", "_", "<script>", "é" * 300, "'; --", "\\"])
def test_search_takes_any_text(query: str, admin: Client) -> None:
    answer = admin.get("/search/", {"q": query})
    assert answer.status_code == 200
    assert b"<script>" not in answer.content.replace(b"<script type", b"").replace(b"<script defer", b"")


def test_search_takes_few_queries_however_many_clusters_there_are(
    admin: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(20):
        make.cluster(f"many-{number:02}")
    with django_assert_max_num_queries(30):
        admin.get("/search/", {"q": "many"}, headers={"X-Fragment": "found"})


# ---------------------------------------------------------------- notices


def notice(resource: str, name: str, *, user: str = "somebody", namespace: str = "") -> follower.Notice:
    return follower.Notice(1, user, resource, namespace, name)


CLUSTERS = "managedclusters.cluster.open-cluster-management.io"
SETS = "managedclustersets.cluster.open-cluster-management.io"
PLACEMENTS = "placements.cluster.open-cluster-management.io"


def sight(name: str) -> live_updates.NoticeVisibility:
    return live_updates.NoticeVisibility.of(actor_for(User.objects.get(username=name)))


@pytest.mark.parametrize(
    ("notices", "heard"),
    [
        ([notice(CLUSTERS, "web-1")], {"managedclusters"}),
        ([notice(CLUSTERS, "vault-1")], set()),
        ([notice("managedclusters/status.x", "web-2")], {"managedclusters"}),
        ([notice(SETS, "web")], {"managedclustersets"}),
        ([notice(SETS, "vault")], set()),
        ([notice("certificatesigningrequests.certificates.k8s.io", "csr-of-nobody")], set()),
        ([notice("approvalpolicies", "auto")], set()),
        ([notice("bootstraptokens", "abcdef", user="raj")], {"bootstraptokens"}),
        ([notice("manifestworks.work.open-cluster-management.io", "w", namespace="web-1")], {"manifestworks"}),
        ([notice("manifestworks.work.open-cluster-management.io", "w", namespace="vault-1")], set()),
        ([notice(PLACEMENTS, "p", namespace="vault-1")], set()),
    ],
)
def test_notices_are_only_of_what_one_may_see(notices: list[follower.Notice], heard: set[str], raj: Client) -> None:
    assert sight("raj").of_interest(notices) == heard


def test_notices_of_placements_are_for_who_may_list_them_in_the_namespace(raj: Client) -> None:
    grant(person("raj"), rule("list", "placements", groups=GROUP), namespace=namespace("shop"))
    assert sight("raj").of_interest([notice(PLACEMENTS, "p", namespace="shop")]) == {"placements"}
    assert sight("raj").of_interest([notice(PLACEMENTS, "p", namespace="vault-1")]) == set()


def test_who_sees_everything_hears_of_everything(admin: Client) -> None:
    assert sight("root").of_interest([notice(CLUSTERS, "vault-1"), notice("approvalpolicies", "a")]) == {
        "managedclusters",
        "approvalpolicies",
    }


def test_a_deletion_reaches_who_saw_the_object_and_nobody_else(raj: Client, mallory: Client) -> None:
    of_raj, of_mallory = sight("raj"), sight("mallory")
    make.cluster("gone-1")
    ManagedCluster.objects.filter(name="web-1")
    gone = [notice(CLUSTERS, "web-1"), notice(CLUSTERS, "gone-1")]
    assert of_raj.of_interest(gone[:1]) == {"managedclusters"}
    assert of_raj.of_interest(gone[1:]) == set()
    assert of_mallory.of_interest(gone) == set()


def test_a_cluster_that_one_is_shown_later_is_heard_of(raj: Client) -> None:
    of_raj = sight("raj")
    make.cluster("web-9", labels={CLUSTERSET_LABEL: "web"})
    assert of_raj.of_interest([notice(CLUSTERS, "web-9")]) == {"managedclusters"}


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("managedclusters", True),
        ("managedclusters:web-1", True),
        ("managedclusters:web-2", False),
        ("managedclustersets", False),
    ],
)
def test_a_page_hears_of_what_it_shows(scope: str, covered: bool) -> None:
    assert live_updates.LiveScope.read(scope).covers(notice(CLUSTERS, "web-1")) is covered


def test_a_heartbeat_is_no_notice(fleet: None) -> None:
    before = change_log.head().audit
    make.renew("web-1")
    assert follower.notices_after(before) == []


def test_whatever_is_written_is_a_notice(fleet: None) -> None:
    before = change_log.head().audit
    make.label("web-1", env="prod")
    assert [(each.plural, each.name) for each in follower.notices_after(before)] == [("managedclusters", "web-1")]


def test_a_stream_without_a_scope_is_refused(admin: Client) -> None:
    assert admin.get("/live").status_code == 400


def test_a_session_ends_with_its_person(admin: Client) -> None:
    session = admin.session.session_key or ""
    assert live_updates.look_again(session, "root") is not None
    assert live_updates.look_again(session, "raj") is None
    User.objects.filter(username="root").update(is_active=False)
    assert live_updates.look_again(session, "root") is None


def test_a_right_that_was_taken_away_ends_its_notices(raj: Client) -> None:
    session = raj.session.session_key or ""
    remove_perm(
        "clustersets.view_managedclusterset",
        User.objects.get(username="raj"),
        ManagedClusterSet.objects.get(name="web"),
    )
    now = live_updates.look_again(session, "raj")
    assert now is not None
    assert now.of_interest([notice(CLUSTERS, "web-1")]) == set()


def test_who_sees_every_cluster_hears_of_clusters_and_not_of_people_or_secrets(fleet: None) -> None:
    User.objects.create_user("cara")
    assign_perm("clusters.view_managedcluster", User.objects.get(username="cara"))
    heard = sight("cara").of_interest(
        [
            notice(CLUSTERS, "vault-1"),
            notice("users", "alice"),
            notice("secrets", "x", namespace="vault-1"),
            notice("approvalpolicies", "p"),
        ]
    )
    assert heard == {"managedclusters"}


def test_notices_take_as_many_queries_however_many_they_are(
    raj: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    of_raj = sight("raj")
    many = [
        notice(plural, f"n-{number}")
        for number in range(300)
        for plural in (CLUSTERS, SETS, "certificatesigningrequests")
    ]
    with django_assert_max_num_queries(9):
        assert of_raj.of_interest(many) == set()


def test_a_person_with_many_streams_is_asked_to_close_some(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(live_updates._streams, "root", live_updates.MOST_STREAMS)
    assert admin.get("/live?scope=managedclusters").status_code == 429


def test_one_export_at_a_time(admin: Client, raj: Client) -> None:
    first = admin.get("/activity/?export=jsonl")
    assert admin.get("/clusters/_export/csv/").status_code == 429
    second = raj.get("/clusters/_export/csv/")
    assert second.status_code == 200
    for answer in (first, second):
        b"".join(answer.streaming_content)  # type: ignore[attr-defined] # a stream
    again = admin.get("/activity/?export=jsonl")
    assert b"web-1" in b"".join(again.streaming_content)  # type: ignore[attr-defined] # a stream


def test_what_was_put_away_comes_back_when_another_takes_its_place(admin: Client) -> None:
    def shown() -> str:
        return page(admin, "/attention/").partition('aria-label="What needs you"')[2].partition("</section>")[0]

    kept = re.search(r'name="key" value="approvals"><input type="hidden" name="state" value="([^"]+)"', shown())
    assert kept
    admin.post("/attention/dismiss/", {"key": "approvals", "state": kept[1]})
    assert "Approvals waiting" not in shown()
    make.cluster("asks-2")
    make.accept("asks-1")
    assert "Approvals waiting" in shown()


# ---------------------------------------------------------------- overview


def test_what_needs_a_person_is_counted_beyond_the_rows_that_are_read(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of each, where two are read."""
    monkeypatch.setattr(attention, "MOST_READ", 2)
    for name in ("long-1", "long-2", "long-3"):
        make.cluster(name, accepted=True, spec={"leaseDurationSeconds": 86_400})
    for name in ("ada", "bob", "cy"):
        AccessRequest.objects.create(user=name, verb="get", resource="managedclusters", name=name, at=timezone.now())
    found = {item.key: item.count for item in attention.find_attention_items(ROOT, timezone.now())}
    assert (found["leases"], found["access"]) == (3, 3)


def test_the_overview_counts_what_one_may_see(admin: Client, raj: Client, mallory: Client) -> None:
    assert "4 clusters" in page(admin, "/")
    assert "2 clusters" in page(raj, "/")
    assert "vault" not in page(raj, "/")
    nothing = page(mallory, "/")
    assert "web-1" not in nothing
    assert "vault" not in nothing


def test_what_is_known_of_the_fleet_as_a_whole_is_for_who_sees_it_whole(admin: Client, raj: Client) -> None:
    FleetMinute.objects.bulk_create(
        FleetMinute(minute=timezone.now() - timedelta(minutes=n), heard=7, expected=9) for n in range(1, 9)
    )
    assert "Heartbeats per minute" in page(admin, "/")
    assert "Heartbeats per minute" not in page(raj, "/")


def test_turns_of_clusters_that_one_may_not_see_are_not_counted(admin: Client, raj: Client) -> None:
    for name in ("web-1", "vault-1", "vault-1", "long-gone"):
        Transition.objects.create(cluster=name, at=timezone.now() - timedelta(hours=1), turn=Transition.Turn.SILENT)

    def silent(client: Client) -> str:
        return str(re.findall(r"<b>(\d+)</b> <span class=\"oc-sub\">clusters? went silent", page(client, "/"))[0])

    assert (silent(admin), silent(raj)) == ("3", "1")


def test_the_overview_takes_as_many_queries_for_many_clusters(
    admin: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(15):
        make.cluster(f"more-{number}", accepted=number % 2 == 0)
    make.settle()
    with django_assert_max_num_queries(45):
        page(admin, "/")


def test_an_empty_hub_shows_the_way_to_the_first_cluster() -> None:
    html = page(signed_in("root", is_superuser=True), "/")
    assert "No cluster has joined yet" in html
    assert "/clusters/add/" in html


def test_a_hub_without_clusters_has_a_status_of_none() -> None:
    now = timezone.now()
    UnknownCertificate.objects.create(
        fingerprint="0", not_before=now, not_after=now + timedelta(days=1), first_seen=now, last_seen=now
    )
    root = signed_in("root", is_superuser=True)
    assert ">Status of clusters</h2>" in page(root, "/")
    make.cluster("c1")
    assert ">Status of the cluster</h2>" in page(root, "/")
    make.cluster("c2")
    assert ">Status of all 2 clusters</h2>" in page(root, "/")


# ---------------------------------------------------------------- activity


def test_activity_shows_what_was_done_to_what_one_sees(admin: Client, raj: Client, mallory: Client) -> None:
    assert "vault-1" in page(admin, "/activity/")
    of_raj = page(raj, "/activity/")
    assert "web-1" in of_raj
    assert "vault" not in of_raj
    assert "web-1" not in page(mallory, "/activity/")


def test_activity_shows_what_one_did_oneself(mallory: Client) -> None:
    AuditEvent.objects.bulk_create(
        [
            AuditEvent(
                time=timezone.now(),
                user="mallory",
                entry_point="web",
                outcome="denied",
                act="x:y",
                verb="get",
                resource="secrets",
                name="s-77",
            )
        ]
    )
    assert "s-77" in page(mallory, "/activity/")


def test_activity_can_be_narrowed_to_an_object(admin: Client) -> None:
    html = page(admin, "/activity/?resource=managedclusters&name=web-1")
    stream = html[html.index('id="stream"') :]
    assert "web-1" in stream
    assert "web-2" not in stream


def test_an_auditor_reads_it_all_without_being_an_admin(fleet: None) -> None:
    client = signed_in("cleo")
    assign_perm("kubeapi.view_auditevent", User.objects.get(username="cleo"))
    assert "vault-1" in page(client, "/activity/")


def test_the_export_holds_what_one_may_read(admin: Client, raj: Client) -> None:
    def names(client: Client) -> set[str]:
        answer = client.get("/activity/?export=jsonl")
        text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined] # a stream
        return set(re.findall(r'"name":"(web-1|vault-1)"', text))

    assert names(admin) == {"web-1", "vault-1"}
    assert names(raj) == {"web-1"}


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=2026-13-77",
        "after=zzz",
        "after=9.audit.x",
        "kind=Nonsense",
        "source=other",
    ],
)
def test_activity_takes_any_filter(query: str, admin: Client) -> None:
    assert admin.get(f"/activity/?{query}").status_code == 200


# ---------------------------------------------------------------- certificates


def test_certificates_are_listed_for_clusters_that_one_sees(admin: Client, raj: Client) -> None:
    now = timezone.now()
    for name, days in (("web-1", 3), ("vault-1", 200)):
        make.certificate(name, name.ljust(64, "0"), begins=now, ends=now + timedelta(days=days))
    assert "vault-1" in page(admin, "/certificates/")
    assert "web-1" in page(raj, "/certificates/")
    assert "vault-1" not in page(raj, "/certificates/")


@pytest.mark.parametrize("query", ["bucket=zzz", "after=zzz", "after=2026-13-01~x", "q=%25"])
def test_certificates_take_any_filter(query: str, admin: Client) -> None:
    assert admin.get(f"/certificates/?{query}").status_code == 200


# ---------------------------------------------------------------- the hub itself


def test_hub_health_says_what_is_wrong(admin: Client, settings: Any) -> None:
    settings.OCMCONSOLE_REDIS_URL = "redis://127.0.0.1:1/0"
    html = page(admin, "/hub/")
    assert "It does not answer" in html


def test_hub_health_counts_what_it_does_not_list(admin: Client) -> None:
    now = timezone.now()
    for number in range(12):
        WorkItem.objects.create(reconciler="odd", name=f"o-{number}", due=now, attempts=3)
        HeldBack.objects.create(user=f"u-{number}", limit="OCMCONSOLE_LIMIT_REQUESTS", since=now, last=now, count=1)
    html = page(admin, "/hub/")
    assert html.count("and 2 more") == 2


def test_hub_health_calls_a_redis_that_is_not_there_not_used(admin: Client, settings: Any) -> None:
    settings.OCMCONSOLE_REDIS_URL = ""
    shown = admin.get("/hub/")
    checks = {check["name"]: check["is_used"] for check in shown.context["checks"]}
    assert [name for name, used in checks.items() if not used] == ["audit outside", "second approvals", "Redis"]
    assert dict(shown.context["made_of"])["Redis"] == "not used"
    html = shown.content.decode()
    assert re.search(r"<b>Redis</b></div><span[^>]*>not used</span>", html)
    assert not re.search(r"Works:</span></span><div><b>Redis", html)


def test_hub_health_says_that_a_redis_is_away(admin: Client, settings: Any) -> None:
    settings.OCMCONSOLE_REDIS_URL = "redis://127.0.0.1:1/0"
    shown = admin.get("/hub/")
    assert dict(shown.context["made_of"])["Redis"].startswith("away")
    redis = next(check for check in shown.context["checks"] if check["name"] == "Redis")
    assert redis["is_used"]
    assert redis["problems"]


def test_metrics_count_clusters_by_their_state(fleet: None) -> None:
    from ocmconsole.kubeapi.health import metrics

    assert b'ocmconsole_clusters{state="needs-review"} 1.0' in metrics.exposition()


@pytest.mark.contract("D11")
def test_requests_without_a_valid_credential_are_counted_and_not_stored() -> None:
    from ocmconsole.kubeapi.health import metrics
    from tests.api.entry import Entry

    before, entries = metrics.unauthorized(), AuditEvent.objects.count()
    Entry({"HTTP_AUTHORIZATION": "Bearer abcdef.0123456789abcdef"}).get("/api/v1/namespaces")
    assert metrics.unauthorized() == before + 1
    assert AuditEvent.objects.count() == entries
