"""What the page of a cluster says of its state: revoked credentials, what fell silent with it, what holds its removal."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from time_machine import travel

from clusters import queries
from clusters.acceptance.agent_roles import WORK_FINALIZER
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.fleet import facets
from clusters.fleet.filters import Filters
from clusters.fleet.listing import Listing
from clusters.health import certificate_expiry, metrics, status_sql, uptime
from clusters.health.status import Word
from clusters.kinds import MAINTENANCE_TAINT, MANAGED_CLUSTER, microseconds
from clusters.models import ClusterFacts, ManagedCluster, Serving, Transition
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from registration.approvals import services
from registration.certificates import issued_certificates
from registration.models import IssuedCertificate
from tests import factories as make
from tests.entry_points import scene
from tests.pages.clusters.test_cluster_pages import joined, signed_in, text_of  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db

AGENT = "kubectl -n open-cluster-management-agent"


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"), "django.contrib.auth.backends.ModelBackend")
    return client


def read(page: Any) -> str:
    """What a person reads: entities and unbreakable blanks as they are seen."""
    return " ".join(html.unescape(text_of(page)).split())


def current(cluster: str = "c1") -> IssuedCertificate:
    return issued_certificates.valid_of(cluster, timezone.now())[0]


def word_of(name: str = "c1") -> Word:
    (found,) = queries.observe_clusters(ManagedCluster.objects.filter(name=name), timezone.now())
    return found.status.word


# ---------------------------------------------------------------- revoked


def test_a_cluster_whose_certificate_was_revoked_says_so_with_cause_and_next_step(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    services.revoke_certificate(make.ADMIN, current().pk, reason="The key leaked.")
    page = read(boss.get("/clusters/c1/"))
    assert "Credential revoked" in page
    assert re.search(r"Its certificate was revoked by root \d+ s ago: The key leaked\. The agent cannot speak\.", page)
    assert (
        "Make a repair manifest for its agent. If all its keys were revoked, let it ask with a bootstrap token" in page
    )
    assert "accept that key by an override." in page
    assert f"{AGENT} delete secret hub-kubeconfig-secret" in page
    assert "Nothing to do" not in page
    assert "364 d" not in page
    assert "Certificate Revoked" in page


def test_every_count_of_certificates_knows_the_revoked_one(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    """The list, its filter, the metrics, the page of certificates and the Hub CA page."""
    services.revoke_certificate(make.ADMIN, current().pk, reason="stolen")
    now, actor = timezone.now(), make.ADMIN
    assert word_of() is Word.REVOKED
    census = facets.census(Listing(actor, Filters({"certificate": ("revoked",)}), now))
    assert (census.matching, dict(census.buckets())) == (1, {certificate_expiry.ExpiryBucket.REVOKED: 1})
    (family,) = metrics.clusters_by_state()
    assert {sample.labels["state"]: sample.value for sample in family.samples if sample.value} == {
        "credential-revoked": 1
    }
    assert "0 client certificates in use" in read(boss.get("/certificates/"))
    assert "0 certificates of agents are honoured now" in read(boss.get("/ca/"))
    assert "revoked" in boss.get("/clusters/").content.decode()


def test_an_older_certificate_that_is_honoured_counts_when_the_newest_is_revoked(joined: str) -> None:  # noqa: F811 - a fixture
    first = current()
    scene.ask_again(scene.Waiting("c1", "c1-renewal"))
    services.accept_cluster(
        make.ADMIN, "c1", override=services.Override(_key_of("c1-renewal"), "the node was reinstalled")
    )
    make.settle()
    IssuedCertificate.objects.filter(pk=first.pk).update(revoked_at=None)  # whatever an override does to it
    newest = IssuedCertificate.objects.get(request="c1-renewal")
    services.revoke_certificate(make.ADMIN, newest.pk, reason="wrong one")
    assert ClusterFacts.objects.get(cluster="c1").certificate_fingerprint == first.pk
    assert word_of() is Word.HEALTHY
    services.revoke_certificate(make.ADMIN, first.pk, reason="this one too")
    assert word_of() is Word.REVOKED


def _key_of(request: str) -> str:
    from registration.models import CertificateSigningRequest

    return str(CertificateSigningRequest.objects.get(name=request).key_fingerprint)


def test_what_a_cluster_asks_after_a_revocation_waits_in_the_inbox(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    services.revoke_certificate(make.ADMIN, current().pk, reason="stolen")
    scene.ask_again(scene.Waiting("c1", "c1-again"))
    assert 'data-row="c1"' in boss.get("/approvals/").content.decode()
    assert {each["label"]: each["count"] for each in boss.get("/clusters/c1/").context["tabs"]}["Identity"] == 1
    services.accept_cluster(make.ADMIN, "c1", override=services.Override(_key_of("c1-again"), "a new disk"))
    make.settle()
    assert word_of() is Word.HEALTHY
    assert 'data-row="c1"' not in boss.get("/approvals/").content.decode()


@pytest.mark.parametrize(("age", "tone"), [(60, "ok"), (150, "caution"), (301, "danger")])
def test_a_dead_lease_has_no_green_tick_whatever_the_state_is_called(
    joined: str,  # noqa: F811 - a fixture
    boss: Client,
    age: int,
    tone: str,
) -> None:
    services.revoke_certificate(make.ADMIN, current().pk, reason="stolen")
    with travel(timezone.now() + timedelta(seconds=age), tick=False):
        (lease,) = (row for row in boss.get("/clusters/c1/").context["conditions"] if row["type"] == "Lease")
    assert lease["tone"] == tone


# ---------------------------------------------------------------- silent


def fleet_falls_silent(*names: str, clusterset: str = "web") -> None:
    make.clusterset(clusterset)
    for name in names:
        make.cluster(name, accepted=True, labels={"cluster.open-cluster-management.io/clusterset": clusterset})
        make.settle()
        make.available(name)
        make.said(name, "ManagedClusterConditionAvailable", "Unknown", message="Registration agent stopped updating")


def test_a_silent_clusters_page_says_first_what_fell_silent_with_it_and_what_to_run(boss: Client) -> None:
    fleet_falls_silent("c1", "c2", "c3")
    IssuedCertificate.objects.all().delete()
    ClusterFacts.objects.filter(cluster__in=("c1", "c2", "c3")).update(
        certificate_not_after=timezone.now() + timedelta(days=9)
    )
    state = read(boss.get("/clusters/c1/")).partition("State")[2]
    assert state.strip().startswith("2 others fell silent with it, 2 of them in set web.")
    why = state.partition("Why, most likely")[2].partition("Next")[0]
    assert "share a cause" in why
    assert "Registration agent stopped updating" not in why
    assert f"{AGENT} logs deployment/klusterlet-registration-agent" in state
    assert "status=silent" in boss.get("/clusters/c1/").content.decode()


@pytest.mark.contract("D16")
def test_others_that_one_may_not_see_are_not_counted(boss: Client) -> None:
    fleet_falls_silent("c1", "c2")
    li = signed_in("li", "view", cluster="c1")
    assert "No other cluster that you may see fell silent" in read(li.get("/clusters/c1/"))
    assert "1 other has fallen silent with it, 1 of them in set web." in read(boss.get("/clusters/c1/"))


def test_one_that_is_back_fell_silent_with_it_all_the_same(boss: Client) -> None:
    fleet_falls_silent("c1", "c2")
    make.said("c2", "ManagedClusterConditionAvailable", "True")
    assert "1 other has fallen silent with it, 1 of them in set web." in read(boss.get("/clusters/c1/"))


def test_what_fell_silent_together_is_known_after_its_turns_are_forgotten(boss: Client) -> None:
    fleet_falls_silent("c1", "c2")
    Transition.objects.all().delete()  # as of those that are older than thirty days
    assert "1 other has fallen silent with it, 1 of them in set web." in read(boss.get("/clusters/c1/"))


@pytest.mark.contract("H16", "D17")
def test_after_an_outage_of_the_hub_a_late_cluster_has_the_time_that_the_verdict_gives_it(
    joined: str,  # noqa: F811 - a fixture
    boss: Client,
) -> None:
    stopped = timezone.now()
    now = stopped + timedelta(minutes=10)
    back = now - timedelta(seconds=5)
    with travel(stopped, tick=False):
        make.renew("c1")
    with travel(now, tick=False):
        make.serve_since(timedelta(seconds=5))
        gaps = [(uptime.BEGINNING, 0), (microseconds(stopped), microseconds(back))]
        Serving.objects.update(gaps=gaps)
        page = read(boss.get("/clusters/c1/"))
        assert "Last heard 10 min ago; Unknown in 4 min 55 s." in page
        assert f"The hub adds it at {back + timedelta(minutes=5):%H:%M:%S} UTC" in page
        Serving.objects.update(gaps=gaps[:1])
        page = read(boss.get("/clusters/c1/"))
        assert "Unknown soon" in page
        assert "The hub adds it within seconds" in page


@pytest.mark.parametrize(
    ("effect", "does"), [("NoSelect", "drop it"), ("NoSelectIfNew", "those that chose it keep it")]
)
def test_maintenance_is_said_by_its_effect(joined: str, boss: Client, effect: str, does: str) -> None:  # noqa: F811 - a fixture
    taint = {"key": MAINTENANCE_TAINT, "effect": effect}
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(taints=[taint]))
    why = read(boss.get("/clusters/c1/")).partition("Why, most likely")[2].partition("Next")[0]
    assert why.strip().startswith("The maintenance taint is set. Placements that do not tolerate it")
    assert does in why


def test_no_page_says_that_a_maintenance_without_an_end_ends_by_itself(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    for path in ("/clusters/c1/maintenance/", "/clusters/c1/taints/"):
        assert not re.search(r"nds by itself\b(?!, or when)", read(boss.get(path)))


# ---------------------------------------------------------------- removals


def held(kind: Any, name: str, finalizer: str, *, namespace: str = "") -> None:
    make.edit(
        kind, name, lambda doc: doc["metadata"].setdefault("finalizers", []).append(finalizer), namespace=namespace
    )


def test_a_stuck_removal_names_the_work_that_holds_it_and_since_when_its_agent_is_silent(
    joined: str,  # noqa: F811 - a fixture
    boss: Client,
) -> None:
    make.work("c1", "web", finalizers=[WORK_FINALIZER])
    make.addon("c1", "later")  # goes first, and has nothing to wait for
    make.said("c1", "ManagedClusterConditionAvailable", "Unknown")
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    with travel(timezone.now() + timedelta(minutes=9), tick=False):
        page = read(boss.get("/clusters/c1/"))
    assert f"It waits for manifestworks/web, held by the finalizer {WORK_FINALIZER} for 9 min" in page
    assert "Its agent must undo the work on the cluster first, and was last heard 9 min" in page
    assert "Bring its agent back, or give up what it will not finish. The removal" in page


def test_a_removal_held_by_somebody_elses_finalizer_names_it_and_not_the_agent(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    held(MANAGED_CLUSTER, "c1", "example.com/backup")
    make.work("c1", "web", finalizers=[WORK_FINALIZER])
    tabs = ("/clusters/c1/", "/clusters/c1/taints/")
    assert all("None. Placements may choose this cluster." in read(boss.get(tab)) for tab in tabs)
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    assert "It waits for manifestworks/web" in read(boss.get("/clusters/c1/"))
    assert not any("Placements may choose this cluster" in read(boss.get(tab)) for tab in tabs)
    make.let_go(MANIFEST_WORK, "web", namespace="c1")
    make.settle()
    with travel(timezone.now() + timedelta(minutes=6), tick=False):
        make.settle()
        page = read(boss.get("/clusters/c1/"))
    assert "Removing for 6 min" in page
    assert "The finalizer example.com/backup on the cluster itself holds it." in page
    assert "not the hub's: the client that put it there must take it off" in page
    assert "On the hub" in page
    assert "kubectl get managedclusters/c1 -o yaml" in page


@pytest.mark.contract("H31", "H32")
@pytest.mark.parametrize("cleans", [False, True], ids=["gate off", "list without works"])
def test_works_that_the_hub_does_not_delete_are_said_to_wait_for_people(
    joined: str,  # noqa: F811 - a fixture
    boss: Client,
    settings: Any,
    cleans: bool,
) -> None:
    settings.OCMCONSOLE_FEATURE_GATES = settings.OCMCONSOLE_FEATURE_GATES | {"ResourceCleanup": cleans}
    if cleans:
        settings.OCMCONSOLE_GC_RESOURCES = ["addon.open-cluster-management.io/v1beta1/managedclusteraddons"]
    make.work("c1", "web", finalizers=[WORK_FINALIZER])
    assert "the cluster will wait until they are deleted" in read(boss.get("/clusters/c1/remove/"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    page = read(boss.get("/clusters/c1/"))
    assert "It waits for 1 work that nobody has deleted." in page
    assert "kubectl -n c1 delete manifestworks --all" in page
    assert "the cluster waits until they are deleted" in read(boss.get("/clusters/c1/remove/"))
    verbs.delete(make.ADMIN, MANIFEST_WORK, Key("c1", "web"))
    assert f"It waits for manifestworks/web, held by the finalizer {WORK_FINALIZER}" in read(boss.get("/clusters/c1/"))


def test_an_addon_that_others_hold_is_not_said_to_wait_for_the_agent(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    make.addon("c1", "backup", finalizers=["example.com/dump"])
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.settle()
    page = read(boss.get("/clusters/c1/"))
    assert "It waits for managedclusteraddons/backup, held by the finalizer example.com/dump" in page
    assert "must undo the work" not in page
    removal = read(boss.get("/clusters/c1/remove/"))
    assert "waits for its agent to undo it" not in removal
    assert verbs.find(MANAGED_CLUSTER_ADDON, Key("c1", "backup")) is not None


# ---------------------------------------------------------------- certificates, counted and revoked


def certificates(**kinds: int) -> None:
    """So many rows of each kind: ``removed``, ``replaced``, ``ended``, ``revoked`` or ``used``."""
    now = timezone.now()
    for kind, number in kinds.items():
        for index in range(number):
            name = f"{kind}-{index}"
            IssuedCertificate.objects.create(
                fingerprint=f"{kind}{index}".encode().hex().ljust(64, "0"),
                common_name=f"system:open-cluster-management:{name}:agent",
                cluster="c1" if kind == "replaced" else name,
                key_fingerprint=f"SHA256:{index:064x}",
                serial=f"{index:x}",
                not_before=now - timedelta(days=400 + index),
                not_after=now + timedelta(days=-1 if kind == "ended" else 40),
                revoked_at=now if kind == "revoked" else None,
            )


def test_every_page_counts_certificates_by_the_same_buckets(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    certificates(removed=3, replaced=2, ended=1, revoked=4)
    now = timezone.now()
    rows = issued_certificates.of_clusters()
    found = issued_certificates.count_by_bucket(rows, now)
    parts = [
        bucket
        for bucket in issued_certificates.CertificateBucket
        if bucket not in {issued_certificates.CertificateBucket.WEEK, issued_certificates.CertificateBucket.MONTH}
    ]
    assert {bucket.name: found[bucket] for bucket in parts} == {
        "IN_USE": 1,
        "ENDED": 0,
        "REPLACED": 2,
        "REMOVED": 3,
        "REVOKED": 4,
        "OVER": 1,
    }
    assert sum(found[bucket] for bucket in parts) == IssuedCertificate.objects.exclude(cluster="").count()
    alive = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=now).exclude(cluster="").count()
    assert issued_certificates.count_honoured(found) == alive == 6
    assert "6 certificates of agents are honoured now: 1 in use , 2 replaced , 3 of removed clusters" in read(
        boss.get("/ca/")
    )
    shown = {each["label"]: each["count"] for each in boss.get("/certificates/").context["buckets"]}
    assert (shown["In use"], shown["Of removed clusters"], shown["Revoked"]) == (1, 3, 4)


def test_certificates_of_removed_clusters_are_revoked_together(joined: str, boss: Client) -> None:  # noqa: F811 - a fixture
    certificates(removed=23)
    listed = boss.get("/certificates/?bucket=removed")
    assert "Revoke all 23" in read(listed)
    assert boss.get("/certificates/-/revoke/").status_code == 405
    preview = boss.post("/certificates/-/revoke/", {"every": "1", "q": ""})
    assert "Revoke 23 certificates of removed clusters" in read(preview)
    chosen = [row.pk for row in preview.context["rows"]]
    sent = {"confirmed": "1", "select": chosen, "reason": "decommissioned site", "count": "22"}
    refused = boss.post("/certificates/-/revoke/", sent)
    assert (
        refused.status_code,
        issued_certificates.count_by_bucket(issued_certificates.of_clusters(), timezone.now())[
            issued_certificates.CertificateBucket.REMOVED
        ],
    ) == (400, 23)
    done = boss.post("/certificates/-/revoke/", {**sent, "count": "23"}, follow=True)
    make.settle()
    assert done.status_code == 200
    left = issued_certificates.count_by_bucket(issued_certificates.of_clusters(), timezone.now())
    assert (
        left[issued_certificates.CertificateBucket.REMOVED],
        left[issued_certificates.CertificateBucket.REVOKED],
        left[issued_certificates.CertificateBucket.IN_USE],
    ) == (0, 23, 1)
    row = IssuedCertificate.objects.filter(revoked_at__isnull=False).first()
    assert row is not None
    assert (row.revoked_by, row.revocation_reason) == ("boss", "decommissioned site")
    assert word_of() is Word.HEALTHY


@pytest.mark.contract("D16")
def test_who_sees_one_cluster_finds_and_revokes_no_certificates_of_removed_ones(joined: str) -> None:  # noqa: F811 - a fixture
    certificates(removed=2)
    li = signed_in("li", "view", "accept", cluster="c1")
    page = li.get("/certificates/?bucket=removed")
    assert "Of removed clusters" not in read(page)
    assert "removed-0" not in read(page)
    every = li.post("/certificates/-/revoke/", {"every": "1", "confirmed": "1", "reason": "mine now"}, follow=True)
    assert "Select certificates first" in every.content.decode()
    assert not IssuedCertificate.objects.filter(cluster__startswith="removed", revoked_at__isnull=False).exists()


@pytest.mark.parametrize(
    ("life", "left", "is_overdue", "needs_somebody", "tone"),
    [
        (7, 5, False, False, "quiet"),
        (7, 1, True, False, "danger"),
        (30, 7, False, False, "quiet"),
        (365, 80, False, False, "quiet"),
        (365, 60, True, False, "caution"),
        (365, 6, True, True, "danger"),
        (7, -1, True, True, "danger"),
    ],
)
@pytest.mark.contract("G25")
def test_a_renewal_is_overdue_by_the_life_of_the_certificate(
    joined: str,  # noqa: F811 - a fixture
    boss: Client,
    life: int,
    left: int,
    tone: str,
    *,
    is_overdue: bool,
    needs_somebody: bool,
) -> None:
    ends = timezone.now() + timedelta(days=left, hours=1 if left > 0 else 0)
    begins = ends - timedelta(days=life)
    IssuedCertificate.objects.filter(cluster="c1").update(not_before=begins, not_after=ends)
    ClusterFacts.objects.filter(cluster="c1").update(certificate_not_before=begins, certificate_not_after=ends)
    rows = boss.get("/certificates/" if left > 0 else "/certificates/?bucket=ended")
    assert ("Renewal overdue" in read(rows)) == (is_overdue and left > 0)
    assert [row["is_overdue"] for row in rows.context["rows"]] == [is_overdue]
    listed = next(row for row in boss.get("/clusters/").context["clusters"] if row["name"] == "c1")
    assert listed["certificate"]["tone"] == tone
    page = boss.get("/clusters/c1/")
    assert page.context["facts"]["certificate_tone"] == tone
    assert ("Credentials ending" in read(boss.get("/attention/"))) == needs_somebody
    found = boss.get("/clusters/?credentials=ending&accepted=yes").context["clusters"]
    assert [row["name"] for row in found] == ["c1"] * needs_somebody
    assert not boss.get("/clusters/?credentials=odd").context["clusters"]


def test_buckets_are_the_same_in_python_and_in_sql(joined: str) -> None:  # noqa: F811 - a fixture
    now = timezone.now()
    for days, revoked in ((-1, None), (3, None), (30, None), (31, None), (90, now), (-1, now), (None, None)):
        ends = now + timedelta(days=days) if days is not None else None
        ClusterFacts.objects.filter(cluster="c1").update(certificate_not_after=ends, certificate_revoked_at=revoked)
        rows = status_sql.with_word(ManagedCluster.objects.filter(name="c1"), now)
        of_sql = [
            bucket
            for bucket, condition in certificate_expiry.bucket_conditions(now).items()
            if rows.filter(condition).exists()
        ]
        assert of_sql == [certificate_expiry.bucket_of(ClusterFacts.objects.get(cluster="c1"), now)]
