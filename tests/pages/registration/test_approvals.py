"""The inbox, the page of a request and decisions about many: what they show, and what they do for whom."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.fleet.bulk_acts import BulkPlan, BulkStep
from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import models, verbs
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.templatetags import console
from registration import queries
from registration.approvals import bulk_decisions, services, stale_decision
from registration.approvals import inbox_pages as inbox_views
from registration.evidence import assessment, risk_checks
from registration.evidence.assessment import Verdict
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import CertificateSigningRequest, Decline, Snooze
from registration.pki import agent_names
from tests import factories as make
from tests import requests
from tests.actors import ROOT, grow_old
from tests.entry_points import rights
from tests.entry_points.scene import Waiting

pytestmark = pytest.mark.django_db

INBOX = "/approvals/"


@pytest.fixture(autouse=True)
def _hub() -> None:
    """Bearers of bootstrap tokens may ask, and the hub can sign."""
    from django.conf import settings

    from registration.pki import ca

    authority = ca.ensure_authority(settings.OCMCONSOLE_HOME, ["localhost"])
    make.first_start(authority.ca_pem, settings.OCMCONSOLE_API_URL)


def person(name: str, **options: Any) -> Any:
    return get_user_model().objects.create_user(name, **options)


@pytest.fixture
def li() -> Any:
    return person("li", is_superuser=True)


@pytest.fixture
def browser(li: Any) -> Client:
    return signed_in(li)


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


def bearer(address: str = "10.3.0.17", **terms: Any) -> Actor:
    """Who shows a new token."""
    wish = {"name": "web-eu", "ttl": timedelta(hours=1), **terms}
    token = tokens.issue_bootstrap_token(ROOT, **wish).partition(".")[0]
    actor = replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token}", credential=f"bootstrap:{token}")
    return replace(actor, address=address)


def asks(name: str, by: Actor, *, request: str = "", key: Any = None) -> Waiting:
    """A cluster and its request; of one that is there, one more request."""
    if not ManagedCluster.objects.filter(name=name).exists():
        make.cluster(name, by=by)
    return asks_again(name, by, request=request, key=key)


def asks_again(name: str, by: Actor, *, request: str = "", key: Any = None) -> Waiting:
    group = agent_names.group_of(name)
    pem = requests.pem(f"{group}:agent", [group, agent_names.MANAGED_CLUSTERS], key=key)
    waiting = Waiting(name, request or f"{name}-{CertificateSigningRequest.objects.count():05}")
    requests.ask(waiting.request, pem, cluster=name, by=by)
    make.settle()
    return waiting


def remove(name: str) -> None:
    verbs.delete(ROOT, MANAGED_CLUSTER, Key("", name))
    make.settle()
    assert not ManagedCluster.objects.filter(name=name).exists()


def titles(name: str) -> dict[str, Verdict]:
    """What does not hold, with what that means."""
    return {fact.title: fact.weight for fact in assessment.evidence_of(name).failed}


def names(page: Any) -> list[str]:
    return re.findall(r'data-row="([^"]+)"', page.content.decode())


def text(page: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def hidden(page: Any, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page.content.decode())
    assert found, name
    return found[1].replace("&amp;", "&")


def seen(page: Any) -> dict[str, str]:
    return {name: hidden(page, name) for name in ("cluster_rv", "csr_rvs")}


def decide(client: Client, act: str, name: str, **values: str) -> Any:
    page = client.get(f"{INBOX}{name}/")
    return client.post(f"{INBOX}{name}/{act}/", {**seen(page), **values}, follow=True)


# ---------------------------------------------------------------- evidence


class TestEvidence:
    def test_a_usual_request_is_safe_by_seven_facts(self) -> None:
        asks("web-1", bearer())
        found = assessment.evidence_of("web-1")
        assert found.verdict is Verdict.SAFE
        assert found.why == "All 7 hub-checked facts hold"

    def test_a_new_address_range_for_a_token_is_a_check(self) -> None:
        token = bearer("10.3.0.17")
        asks("web-1", token)
        asks("web-2", replace(token, address="10.3.200.1"))
        asks("web-3", replace(token, address="81.2.9.40"))
        assert assessment.evidence_of("web-2").verdict is Verdict.SAFE
        assert titles("web-3") == {"New address range for this token": Verdict.CHECK}

    def test_a_token_near_its_end_is_a_check(self) -> None:
        token = bearer(max_uses=10)
        for number in range(9):
            make.cluster(f"web-{number}", by=token)
        assert "The token is nearly used up: 9 of 10 uses" in titles("web-8")

    def test_many_at_once_with_a_token_for_any_number_are_a_check(self) -> None:
        token, meant, alone = bearer(), bearer(max_uses=200), bearer()
        for number in range(risk_checks.CROWD - 1):
            make.cluster(f"web-{number:02}", by=token)
        asks("web-last", token)
        crowded = f"{risk_checks.CROWD} clusters came with this token within a minute of this one"
        assert titles("web-last") == {crowded: Verdict.CHECK}
        assert titles("web-00")[crowded] is Verdict.CHECK  # those that came first as well
        for number in range(risk_checks.CROWD):
            make.cluster(f"meant-{number:02}", by=meant)
        asks("meant-last", meant)
        asks("alone", alone)
        assert {assessment.evidence_of(name).verdict for name in ("meant-last", "alone")} == {Verdict.SAFE}
        BootstrapTokenUse.objects.filter(cluster="web-00").update(since=timezone.now() - timedelta(minutes=2))
        assert titles("web-last") == {}

    def test_a_token_that_was_not_used_for_long_is_a_check(self) -> None:
        token = bearer()
        row = BootstrapToken.objects.get()
        BootstrapToken.objects.update(created=row.created - timedelta(days=60))
        asks("web-1", token)
        assert any(title.startswith("The token had not been used since") for title in titles("web-1"))

    def test_the_agent_of_another_cluster_is_blocked(self) -> None:
        asks("web-1", replace(requests.agent("web-2"), groups=ROOT.groups))
        assert titles("web-1")["The agent of another cluster asks for this name"] is Verdict.BLOCKED
        with pytest.raises(Exception, match="web-1 is blocked: The agent of another cluster"):
            services.accept_cluster(ROOT, "web-1")

    def test_a_key_that_two_clusters_use_is_a_check(self) -> None:
        key, token = ec.generate_private_key(ec.SECP256R1()), bearer()
        asks("web-1", token, key=key)
        asks("web-2", token, key=key)
        assert titles("web-1") == titles("web-2") == {"Another cluster uses the same key": Verdict.CHECK}

    def test_a_weak_key_that_is_allowed_is_a_check(self) -> None:
        asks("web-1", bearer(), key=rsa.generate_private_key(65_537, 2_048))
        assert titles("web-1") == {"A key of type RSA 2048 is weak, though it is allowed": Verdict.CHECK}

    @pytest.mark.contract("D9")
    def test_a_name_that_comes_back_with_its_key_is_a_check(self) -> None:
        key, token = ec.generate_private_key(ec.SECP256R1()), bearer()
        asks("web-1", token, key=key)
        services.accept_cluster(ROOT, "web-1")
        make.settle()
        remove("web-1")
        asks("web-1", token, key=key)
        found = assessment.evidence_of("web-1")
        assert [title.partition(",")[0] for title in titles("web-1")] == ["The name was seen before with the same key"]
        assert [life.removed_by for life in found.earlier] == ["root"]

    def test_evidence_that_cannot_be_computed_is_a_check_and_breaks_no_page(self, browser: Client) -> None:
        broken, token = asks("web-1", bearer()), bearer()
        asks("web-2", token)
        with models.writing():
            CertificateSigningRequest.objects.filter(name=broken.request).update(wire='{"metadata": {}, "spec": {}}')
        assert titles("web-1") == {"The evidence could not be computed": Verdict.CHECK}
        page = browser.get(INBOX)
        assert names(page) == ["web-1", "web-2"]
        assert browser.get(f"{INBOX}web-1/").status_code == 200

    def test_the_number_of_queries_does_not_grow(self, browser: Client) -> None:
        token = bearer()

        def queries_of(path: str) -> int:
            with CaptureQueriesContext(
                connection,
            ) as captured:
                assert browser.get(path).status_code == 200
            return len(captured)

        for number in range(2):
            asks(f"web-{number}", token)
        browser.get(INBOX)
        chosen = TestBulk().select(browser, all="safe")
        few = [queries_of(path) for path in (INBOX, chosen, f"{INBOX}web-1/")]
        for number in range(2, 14):
            asks(f"web-{number}", token)
        chosen = TestBulk().select(browser, all="safe")
        many = [queries_of(path) for path in (INBOX, chosen, f"{INBOX}web-1/")]
        assert many == few
        assert max(few) < 70


# ---------------------------------------------------------------- the list


class TestInbox:
    def test_the_worst_is_first_and_the_first_sentence_says_the_news(self, browser: Client) -> None:
        token = bearer()
        asks("safe-1", token)
        asks("safe-2", token)
        make.cluster("check-1", by=token)
        asks("blocked-1", token)
        asks_again("blocked-1", replace(token, address="203.0.113.9"))
        page = browser.get(INBOX)
        assert names(page) == ["blocked-1", "check-1", "safe-1", "safe-2"]
        assert "4 clusters ask to join. 2 are safe to accept together, 1 needs a look, 1 is blocked." in text(page)
        assert "2 keys 2 askers" in text(page)

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("q=eu-web-*", ["eu-web-1", "eu-web-2"]),
            ("q=lyon", ["edge-lyon"]),
            ("source=10.7.0.0/16", ["edge-lyon"]),
            ("source=10.3.0.17", ["eu-web-1", "eu-web-2"]),
            ("age=older-hour", []),
            ("age=hour", ["eu-web-1", "eu-web-2", "edge-lyon"]),
            ("verdict=blocked", []),
            ("verdict=safe&q=lyon", ["edge-lyon"]),
            ("page=junk", ["eu-web-1", "eu-web-2", "edge-lyon"]),
        ],
    )
    def test_it_is_filtered(self, browser: Client, query: str, expected: list[str]) -> None:
        web, edge = bearer(), bearer("10.7.0.22", name="edge-fr")
        asks("eu-web-1", web)
        asks("eu-web-2", web)
        asks("edge-lyon", edge)
        assert names(browser.get(f"{INBOX}?{query}")) == expected
        token = edge.credential.partition(":")[2]
        assert names(browser.get(f"{INBOX}?token={token}")) == ["edge-lyon"]

    @pytest.mark.parametrize("query", ["source=over-there", "source=10.0.0.0/99", "verdict=good", "age=1"])
    def test_a_filter_that_cannot_be_read_filters_nothing(self, browser: Client, query: str) -> None:
        asks("web-1", bearer())
        page = browser.get(f"{INBOX}?{query}")
        assert (page.status_code, names(page)) == (400, ["web-1"])

    def test_what_somebody_decided_stays_greyed_for_a_moment(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token)
        asks("web-2", token)
        services.accept_cluster(actor_for(person("ana", is_superuser=True)), "web-1")
        page = browser.get(INBOX)
        assert names(page) == ["web-1", "web-2"]
        assert "web-1 Decided Accepted by ana" in text(page)
        assert "1 cluster asks to join." in text(page)

    def test_a_decision_about_a_cluster_that_has_not_asked_names_no_request(self, browser: Client) -> None:
        for name in ("web-1", "web-2"):
            make.cluster(name, by=bearer())
        asks("web-3", bearer())
        asks("web-4", bearer())
        for name in ("web-1", "web-3"):
            services.accept_cluster(actor_for(person(f"of-{name}", is_superuser=True)), name)
        for name in ("web-4", "web-2"):
            decide(browser, "decline", name, reason="Not ours.", scope="asker")
        make.cluster("web-5", by=bearer())  # so that rows are shown
        page = browser.get(INBOX)
        cells = re.findall(
            r'data-row="([^"]+)".*?data-label="Certificate">(.*?)</td>', page.content.decode(), re.DOTALL
        )
        said = {name: re.sub(r"<[^>]+>", "", cell) for name, cell in cells}
        assert said == {
            "web-1": "not asked yet",
            "web-2": "not asked yet",
            "web-3": "approved",
            "web-4": "denied",
            "web-5": "not asked yet",
        }
        assert "After an undo its agent may ask. Undo the decline of web-2" in text(page)

    def test_nobody_waiting_shows_the_last_decisions(self, browser: Client) -> None:
        asks("web-1", bearer())
        services.decline_cluster(ROOT, "web-1", reason="Not ours.")
        page = browser.get(INBOX)
        assert "No cluster is waiting." in text(page)
        assert "web-1 declined by root: Not ours." in text(page)

    def test_a_page_holds_fifty(self, browser: Client) -> None:
        token = bearer()
        for number in range(52):
            make.cluster(f"web-{number:02}", by=token)
        first, second = browser.get(INBOX), browser.get(f"{INBOX}?page=50")
        assert (len(names(first)), len(names(second))) == (50, 2)
        assert "of 52" in text(first)

    @pytest.mark.contract("D16")
    def test_nobody_reads_of_what_they_may_not_see(self) -> None:
        mallory = signed_in(person("mallory"))
        token = bearer()
        asks("web-1", token)
        asks_again("web-1", token)
        asks("web-2", token)
        services.accept_cluster(ROOT, "web-2")
        chosen = TestBulk().select(mallory, "web-1", all="safe").removeprefix(INBOX)
        for path in ("", "-/decided/", "-/superseded/", chosen):
            page = mallory.get(f"{INBOX}{path}")
            assert page.status_code == 200
            assert "web-1" not in text(page)
            assert "web-2" not in text(page)
        assert mallory.get(f"{INBOX}web-1/").status_code == 404
        assert mallory.get(f"{INBOX}web-1/effects/").status_code == 404
        assert mallory.post(f"{INBOX}web-1/later/", {"until": "hour"}).status_code == 404

    @pytest.mark.contract("D2")
    @pytest.mark.parametrize("allow", [rights.by_guardian, rights.by_group, rights.by_rules, rights.but_accept])
    def test_who_may_accept_what_is_the_same_for_one_and_for_many(self, allow: Callable[..., None]) -> None:
        ana, token = person("ana"), bearer()
        waiting = [asks(name, token) for name in ("web-1", "web-2", "web-3")]
        allow(ana, *waiting[:2])
        actor = actor_for(ana)
        each = {name for name in ("web-1", "web-2", "web-3") if services.may_accept(actor, name).allowed}
        assert services.acceptable(actor, ["web-1", "web-2", "web-3"]) == each

    def test_superseded_requests_have_a_tab(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token, request="first")
        asks_again("web-1", token, request="second")
        assert re.search("first with the key SHA256:.* gave way to second", text(browser.get(f"{INBOX}-/superseded/")))
        assert "2 requests 1 superseded" in text(browser.get(INBOX))


# ---------------------------------------------------------------- one request


class TestRequestOfAnAcceptedCluster:
    @pytest.mark.contract("K7", "K11", "D9")
    def test_nothing_of_it_wants_to_join_when_the_same_asker_asked_before(self, browser: Client) -> None:
        """What a restarted agent asked earlier is answered with its newest request, whatever name it gave itself."""
        token = bearer()
        asks("web-1", token, request="web-1-old")
        group = agent_names.group_of("web-1")
        newer = requests.pem(f"{group}:renamed", [group, agent_names.MANAGED_CLUSTERS])
        requests.ask("web-1-new", newer, cluster="web-1", by=replace(token, address="10.3.0.99"))
        make.settle()
        key = requests.row("web-1-new").key_fingerprint
        services.accept_cluster(ROOT, "web-1", override=services.Override(key, "I compared it"))
        make.settle()
        assert names(browser.get(INBOX)) == []
        page = text(browser.get(f"{INBOX}web-1/"))
        assert "web-1 asked to join" in page
        assert "wants to join" not in page
        assert "Override the block" not in page
        assert "web-1-old with the key" in text(browser.get(f"{INBOX}-/superseded/"))

    @pytest.mark.contract("K7", "D9")
    def test_another_askers_request_is_not_called_a_wish_to_join(self, browser: Client) -> None:
        asks("web-1", bearer(), request="web-1-right")
        services.accept_cluster(ROOT, "web-1")
        make.settle()
        asks_again("web-1", bearer("198.51.100.7"), request="web-1-other")
        page = text(browser.get(f"{INBOX}web-1/"))
        assert "A request for web-1 waits Blocked" in page
        assert "The cluster is accepted and stays so" in page
        for untrue in ("wants to join", "Sets hubAcceptsClient to true", "Decline web-1"):
            assert untrue not in page
        assert names(browser.get(INBOX)) == []  # its agent has what it needs
        done = decide(browser, "decline", "web-1", preset="", reason="not ours", scope="asker")
        assert "The request web-1-other is denied; web-1 stays accepted." in text(done)
        assert ManagedCluster.objects.get(name="web-1").hub_accepts_client


class TestRequest:
    @pytest.mark.contract("A6")
    def test_effects_say_what_accepting_does_now(self, browser: Client) -> None:
        make.clusterset("web")
        team = Group.objects.create(name="web-operators")
        raj = person("raj")
        raj.groups.add(team)
        assign_perm("clustersets.view_managedclusterset", team, ManagedClusterSet.objects.get(name="web"))
        waiting = asks("web-1", bearer())
        page = text(browser.get(f"{INBOX}web-1/"))
        for effect in (f"Signs request {waiting.request}", "Creates namespace web-1", "Joins set default"):
            assert effect in page
        assert "can see it" not in page
        moved = text(browser.get(f"{INBOX}web-1/effects/?set=web"))
        assert "Moves to set web" in moved
        assert "1 team, 1 person can see it through its sets web-operators." in moved
        assert "kubectl label managedcluster web-1 --overwrite" in moved

    def test_the_set_is_changed_at_the_step_that_joins_it(self, browser: Client) -> None:
        make.clusterset("default")
        make.clusterset("web")
        asks("web-1", bearer())
        for path in ("web-1/", "web-1/effects/?set=web"):
            steps = re.findall(
                r"<li[^>]*><div><b>(.*?)</b>(.*?)</li>", browser.get(INBOX + path).content.decode(), re.DOTALL
            )
            assert [title for title, rest in steps if "Change set" in rest] == [
                "Joins set default" if path == "web-1/" else "Moves to set web"
            ]

    @pytest.mark.contract("A6")
    def test_the_chosen_set_is_joined_in_the_same_act(self, browser: Client) -> None:
        make.clusterset("web")
        asks("web-1", bearer())
        decide(browser, "accept", "web-1", clusterset="web")
        row = make.stored("web-1")
        assert (row.hub_accepts_client, row.labels[CLUSTERSET_LABEL]) == (True, "web")

    @pytest.mark.contract("A6")
    def test_a_set_that_the_person_may_not_join_is_neither_offered_nor_given(self) -> None:
        make.clusterset("web")
        ana, waiting = person("ana"), asks("web-1", bearer())
        rights.by_guardian(ana, waiting)
        rights.allow(ana, "change", waiting)
        client = signed_in(ana)
        assert "Change set" not in text(client.get(f"{INBOX}web-1/"))
        answer = decide(client, "accept", "web-1", clusterset="web")
        assert answer.status_code == 403
        assert "cannot add/remove a ManagedCluster to/from ManagedClusterSet" in text(answer)
        assert not make.stored("web-1").hub_accepts_client
        assert CertificateSigningRequest.objects.get(name=waiting.request).state == "Pending"

    def test_who_may_only_look_sees_everything_and_why_the_buttons_are_off(self) -> None:
        vera, waiting = person("vera"), asks("web-1", bearer())
        rights.but_accept(vera, waiting)
        page = signed_in(vera).get(f"{INBOX}web-1/")
        assert "All 7 hub-checked facts hold" in text(page)
        assert "clusters.accept_managedcluster" in text(page)
        assert "/access/explain/?verb=update&amp;resource=managedclusters%2Faccept" in page.content.decode()
        assert f"{INBOX}web-1/accept/" not in page.content.decode()

    def test_without_a_request_both_choices_are_explained(self, browser: Client) -> None:
        make.cluster("web-1", by=bearer())
        page = text(browser.get(f"{INBOX}web-1/"))
        assert "Accept now The cluster is let in by its name." in page
        assert "Wait Nothing is lost" in page

    def test_what_was_said_of_an_earlier_cluster_does_not_decide_about_this_one(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token)
        services.accept_cluster(ROOT, "web-1")
        make.settle()
        assert "Accepted by root" in text(browser.get(f"{INBOX}web-1/"))
        remove("web-1")
        asks("web-1", token)
        page = text(browser.get(f"{INBOX}web-1/"))
        assert "web-1 wants to join Blocked: 1 problem" in page
        assert "Override the block" in page

    def test_neighbours_are_those_of_the_inbox(self, browser: Client) -> None:
        token = bearer()
        for name in ("web-1", "web-2", "web-3"):
            asks(name, token)
        page = browser.get(f"{INBOX}web-2/").content.decode()
        assert "2 of 3" in page
        assert re.findall(r'href="/approvals/(web-\d)/" rel="(prev|next)"', page) == [
            ("web-1", "prev"),
            ("web-3", "next"),
        ]


# ---------------------------------------------------------------- decisions


class TestDecision:
    def test_the_evidence_is_kept_with_the_decision(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "accept", "web-1")
        note = AuditEvent.objects.get(act=queries.EVIDENCE)
        told = {entry["path"]: entry["new"] for entry in note.diff}
        assert (note.user, note.name, note.reason, told["evidence.verdict"]) == ("li", "web-1", "accepted", "safe")
        assert len(told["evidence.facts"]) == 7
        page = text(browser.get(f"{INBOX}-/decided/"))
        assert re.search("web-1 Accepted li .* Safe holds: One key asks for this name", page)

    def test_a_decision_by_kubectl_has_no_evidence(self, browser: Client) -> None:
        make.cluster("web-1", by=bearer())
        make.accept("web-1")
        assert "web-1 Accepted root just now not recorded" in re.sub(
            r"\d+ s ago", "just now", text(browser.get(f"{INBOX}-/decided/"))
        )

    @pytest.mark.parametrize(
        ("happens", "told"),
        [
            (lambda: make.label("web-1", env="prod"), "the cluster was changed: labels"),
            (lambda: make.accept("web-1"), "the cluster was accepted by root"),
            (
                lambda: asks_again(
                    "web-1", replace(requests.BOOTSTRAP, credential="bootstrap:zzzzzz"), request="other"
                ),
                r"a second request arrived, other, whose key differs: SHA256:",
            ),
            (lambda: services.decline_cluster(ROOT, "web-1", reason="No."), "the request web-1-00000 is denied"),
        ],
    )
    @pytest.mark.parametrize("act", ["accept", "decline"])
    def test_a_stale_page_says_what_changed_and_does_nothing(
        self, browser: Client, happens: Callable[[], object], told: str, act: str
    ) -> None:
        asks("web-1", bearer())
        stale = seen(browser.get(f"{INBOX}web-1/"))
        happens()
        before = ManagedCluster.objects.get(name="web-1").resource_version
        answer = browser.post(f"{INBOX}web-1/{act}/", {**stale, "reason": "No.", "scope": "asker"})
        assert answer.status_code == 409
        assert re.search(f"nothing was done. What changed: .*{told}", text(answer))
        assert ManagedCluster.objects.get(name="web-1").resource_version == before

    @pytest.mark.contract("H4", "H21")
    @pytest.mark.parametrize("act", ["accept", "decline"])
    def test_what_the_hub_does_to_a_new_cluster_makes_no_page_stale(self, browser: Client, act: str) -> None:
        make.cluster("web-1", by=bearer())
        opened = seen(browser.get(f"{INBOX}web-1/"))
        make.settle()
        make.sweep()
        new = make.stored("web-1")
        assert str(new.resource_version) != opened["cluster_rv"]
        assert new.doc["metadata"]["finalizers"]
        assert make.taints("web-1")
        answer = browser.post(f"{INBOX}web-1/{act}/", {**opened, "reason": "No.", "scope": "asker"})
        assert answer.status_code == 302, text(answer)
        make.settle()
        assert make.stored("web-1").hub_accepts_client == (act == "accept")

    @pytest.mark.parametrize("key", ["broken", "cluster.open-cluster-management.io/unavailable"])
    def test_a_taint_of_a_person_makes_a_page_stale(self, browser: Client, key: str) -> None:
        asks("web-1", bearer())
        opened = seen(browser.get(f"{INBOX}web-1/"))
        taint = {"key": key, "effect": "PreferNoSelect", "value": "mine"}
        make.edit(MANAGED_CLUSTER, "web-1", lambda doc: doc["spec"].setdefault("taints", []).append(taint))
        answer = browser.post(f"{INBOX}web-1/accept/", opened)
        assert answer.status_code == 409
        assert "What changed: the cluster was changed: taints." in text(answer)

    @pytest.mark.contract("D10")
    def test_a_decline_of_the_name_refuses_everyone_who_asks_for_it(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "decline", "web-1", reason="Not ours.", scope="name")
        other = asks_again("web-1", bearer("203.0.113.9"))
        assert requests.state(other.request) == "Denied"
        assert "Everyone who asks for this name is refused" in text(browser.get(f"{INBOX}web-1/"))

    @pytest.mark.contract("D10")
    def test_a_decline_of_the_asker_leaves_the_name_to_others(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "decline", "web-1", preset="Nobody expects this cluster.", scope="asker")
        assert Decline.objects.get().reason == "Nobody expects this cluster."
        assert requests.state(asks_again("web-1", bearer("203.0.113.9")).request) == "Pending"

    @pytest.mark.contract("D10")
    def test_a_decline_of_the_token_revokes_it(self, browser: Client) -> None:
        asks("web-1", bearer())
        answer = decide(browser, "decline", "web-1", reason="Leaked.", scope="token")
        assert "The token web-eu is revoked." in text(answer)
        assert BootstrapToken.objects.get().revoked_at is not None

    def test_a_token_of_somebody_else_is_not_offered_for_revocation(self) -> None:
        ana, waiting = person("ana"), asks("web-1", bearer())
        rights.by_guardian(ana, waiting)
        client = signed_in(ana)
        assert "This token, for any name" not in text(client.get(f"{INBOX}web-1/"))
        assert decide(client, "decline", "web-1", reason="Leaked.", scope="token").status_code == 400
        assert BootstrapToken.objects.get().revoked_at is None
        assert not Decline.objects.exists()

    def test_a_decline_can_be_undone_for_ten_minutes(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "decline", "web-1", reason="Not ours.", scope="asker")
        assert "You declined web-1" in text(browser.get(INBOX))
        assert "You declined" not in text(signed_in(person("ana", is_superuser=True)).get(INBOX))
        browser.post(f"{INBOX}web-1/lift/")
        assert "You declined" not in text(browser.get(INBOX))
        assert Decline.objects.get().lifted_by == "li"

    def test_what_was_typed_stays_when_the_page_was_stale(self, browser: Client) -> None:
        asks("web-1", bearer())
        stale = seen(browser.get(f"{INBOX}web-1/"))
        make.label("web-1", env="prod")
        typed = {"reason": "Nobody at the site knows it.", "scope": "name"}
        answer = browser.post(f"{INBOX}web-1/decline/", {**stale, **typed})
        assert answer.status_code == 409
        shown = answer.content.decode()
        assert "Nobody at the site knows it.</textarea>" in shown
        assert re.search(r'value="name"[^>]* checked', shown)
        assert '<details class="oc-fold" id="decline" open>' in shown

    @pytest.mark.contract("D9")
    def test_an_override_that_is_refused_says_so_beside_the_key_and_keeps_what_was_typed(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token)
        asks_again("web-1", replace(token, address="203.0.113.9"))
        no_key = "SHA256:" + "0" * 64
        answer = decide(browser, "override", "web-1", accept_key=no_key, typed="web-1", reason="They read it to me.")
        assert answer.status_code == 409
        shown = answer.content.decode()
        assert re.search(r'<details class="oc-fold oc-override" open>', shown)
        assert "They read it to me.</textarea>" in shown
        assert 'id="key-errors"' in shown
        assert not make.stored("web-1").hub_accepts_client

    def test_no_reason_is_no_decline(self, browser: Client) -> None:
        asks("web-1", bearer())
        answer = decide(browser, "decline", "web-1", reason=" ", scope="asker")
        assert answer.status_code == 400
        assert "Say why" in text(answer)
        assert not Decline.objects.exists()


@pytest.mark.contract("D9")
def test_an_override_asks_who_is_there(browser: Client) -> None:
    token = bearer()
    asks("web-1", token)
    asks_again("web-1", replace(token, address="203.0.113.9"))
    key = assessment.evidence_of("web-1").waiting[0].fingerprint
    grow_old(browser)
    answer = decide(browser, "override", "web-1", accept_key=key, typed="web-1", reason="They read it to me.")
    assert answer.redirect_chain[0][0].startswith("/login/again/")
    assert not make.stored("web-1").hub_accepts_client


class TestLater:
    def test_it_is_hidden_for_the_person_alone_until_it_changes(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token)
        ana = signed_in(person("ana", is_superuser=True))
        decide(browser, "later", "web-1", until="changed")
        assert names(browser.get(INBOX)) == []
        assert "1 that you put off still waits" in text(browser.get(INBOX))
        assert names(browser.get(f"{INBOX}?later=1")) == ["web-1"]
        assert names(ana.get(INBOX)) == ["web-1"]
        asks_again("web-1", token)
        assert names(browser.get(INBOX)) == ["web-1"]

    def test_what_the_hub_does_to_a_new_cluster_does_not_bring_it_back(self, browser: Client) -> None:
        make.cluster("web-1", by=bearer())
        decide(browser, "later", "web-1", until="changed")
        make.settle()
        make.sweep()
        assert make.taints("web-1")
        assert names(browser.get(INBOX)) == []
        make.label("web-1", env="prod")
        assert names(browser.get(INBOX)) == ["web-1"]

    def test_what_changed_meanwhile_stays_in_sight(self, browser: Client) -> None:
        asks("web-1", bearer())
        opened = seen(browser.get(f"{INBOX}web-1/"))
        make.label("web-1", env="prod")
        answer = browser.post(f"{INBOX}web-1/later/", {**opened, "until": "changed"})
        assert answer.status_code == 409
        assert "What changed: the cluster was changed: labels." in text(answer)
        assert names(browser.get(INBOX)) == ["web-1"]

    def test_its_time_ends_it(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "later", "web-1", until="hour")
        assert names(browser.get(INBOX)) == []
        Snooze.objects.update(until=timezone.now())
        assert names(browser.get(INBOX)) == ["web-1"]

    def test_it_can_be_brought_back(self, browser: Client) -> None:
        asks("web-1", bearer())
        decide(browser, "later", "web-1", until="monday")
        assert "You put it off until" in text(browser.get(f"{INBOX}web-1/"))
        browser.post(f"{INBOX}web-1/back/")
        assert names(browser.get(INBOX)) == ["web-1"]


class TestTexts:
    @pytest.mark.contract("D9")
    def test_a_new_key_stands_beside_the_key_on_record(self, browser: Client) -> None:
        asks("web-1", bearer("10.3.0.17"))
        known = assessment.evidence_of("web-1").waiting[0].fingerprint
        services.accept_cluster(ROOT, "web-1")
        make.settle()
        assert "The key on record" in text(browser.get(f"{INBOX}web-1/"))
        remove("web-1")
        (known_request,) = CertificateSigningRequest.objects.values_list("name", flat=True)
        verbs.delete(ROOT, CERTIFICATE_SIGNING_REQUEST, Key("", known_request))
        asks("web-1", bearer("81.2.9.40"))
        page = browser.get(f"{INBOX}web-1/")
        assert "Compared with the key on record" in text(page)
        assert [column["title"] for column in page.context["columns"]] == ["Request 1", "On record"]
        lines = {line.label: line for line in console.comparison(page.context["asked_of"])}
        assert lines["Key"].cells == [assessment.evidence_of("web-1").waiting[0].fingerprint, known]
        assert lines["From"].cells == ["81.2.9.40", "10.3.0.17"]
        assert {label for label, line in lines.items() if line.differs} == {"Key", "From", "Requester"}
        table = text(page).partition("Request 1 On record")[2]
        assert re.search(f"Key differs .*{known} .*From differs .*CN ", table)

    def test_a_cluster_without_a_request_is_described_in_one_way(self, browser: Client) -> None:
        make.cluster("web-1", by=bearer())
        page = text(browser.get(f"{INBOX}web-1/"))
        assert page.count("waits for a decision of its own when it comes.") == 2
        assert "by itself" not in page
        done = text(decide(browser, "accept", "web-1"))
        assert "its certificate request waits for a decision of its own when it comes" in done


# ---------------------------------------------------------------- many at once


class TestBulk:
    """One act on the requests that were selected: ticked, or all safe ones that the filter shows."""

    def select(self, client: Client, *names: str, act: str = "accept", **more: Any) -> str:
        """The address of the page of the act."""
        answer = client.post(f"{INBOX}-/select/", {"select": list(names), "act": act, **more})
        assert answer.status_code == 302
        assert not any(name in answer["Location"] for name in names)
        return str(answer["Location"])

    def left_out(self, client: Client, page: str) -> dict[str, str]:
        return {step.name: step.obstacle for step in client.get(page).context["plan"].steps}

    @pytest.mark.contract("D16")
    def test_all_safe_requests_of_the_filter_are_selected_on_every_page(self, browser: Client) -> None:
        token = bearer(max_uses=100)
        safe = sorted(asks(f"web-{number:03}", token).name for number in range(inbox_views.PAGE + 3))
        asks("other-1", token)
        make.cluster("web-check", by=token)
        asks("web-blocked", token)
        asks_again("web-blocked", replace(token, address="203.0.113.9"))
        page = browser.get(f"{INBOX}?q=web-")
        assert f"Select all {len(safe)} safe, on every page" in text(page)
        chosen = self.select(browser, all="safe", query=page.context["query"])
        plan = browser.get(chosen).context["plan"]
        assert plan.possible == safe
        assert f"Accept: {len(safe)} clusters" in text(browser.get(chosen))
        also = self.select(browser, "web-check", "web-blocked", "web-000", all="safe", query="q=web-")
        assert self.left_out(browser, also) == dict.fromkeys([*safe, "web-check"], "")
        assert self.left_out(browser, self.select(browser, all="safe", query="verdict=check")) == {}
        ana = signed_in(person("ana"))
        assert self.left_out(ana, self.select(ana, "web-000", all="safe")) == {}

    def test_the_list_says_what_its_figures_count(self, browser: Client) -> None:
        token = bearer()
        for name in ("web-1", "web-2", "edge-1"):
            asks(name, token)
        assert "match" not in text(browser.get(INBOX))
        page = text(browser.get(f"{INBOX}?q=web-"))
        assert "3 clusters ask to join." in page
        assert "2 of 3 match the filter" in page
        assert "Select all 2 safe" in page
        services.accept_cluster(ROOT, "web-1")
        assert "1 of 2 matches the filter" in text(browser.get(f"{INBOX}?q=web-"))

    def test_what_was_selected_is_accepted_and_each_has_its_result(self, browser: Client) -> None:
        make.clusterset("web")
        token = bearer()
        waiting = [asks(f"web-{number}", token) for number in range(3)]
        make.label("web-0", {CLUSTERSET_LABEL: "web"})
        chosen = self.select(browser, all="safe")
        page = text(browser.get(chosen))
        assert "3 of 3 can be accepted" in page
        assert "They join default (2) and web (1)." in page
        make.label("web-1", env="prod")
        assert self.left_out(browser, chosen) == {"web-0": "", "web-1": bulk_decisions.CHANGED, "web-2": ""}
        answer = browser.post(chosen, follow=True)
        assert "2 of 3 clusters accepted" in text(answer)
        assert "web-1 Left as it is The request changed while you were reading it; nothing was done." in text(answer)
        make.settle()
        assert [requests.state(each.request) for each in waiting] == ["Issued", "Pending", "Issued"]
        assert self.left_out(browser, chosen) == {
            "web-0": bulk_decisions.GONE,
            "web-1": bulk_decisions.CHANGED,
            "web-2": bulk_decisions.GONE,
        }
        assert browser.post(chosen).status_code == 400

    def test_one_that_is_blocked_is_never_selected_and_left_out_when_it_becomes_so(self, browser: Client) -> None:
        token = bearer()
        asks("web-1", token)
        chosen = self.select(browser, "web-1")
        asks_again("web-1", replace(token, address="203.0.113.9"))
        assert "blocked" in self.left_out(browser, chosen)["web-1"]
        assert browser.post(chosen).status_code == 400
        assert self.left_out(browser, self.select(browser, "web-1")) == {}
        assert not make.stored("web-1").hub_accepts_client
        items = {"web-1": asdict(stale_decision.seen_of(assessment.evidence_of("web-1")))}
        forced = bulk_decisions.start_requests(
            actor_for(person("ana", is_superuser=True)),
            bulk_decisions.ACTS["accept"],
            BulkPlan([BulkStep("web-1")]),
            items,
            {},
        )
        assert [item.state for item in forced.items.all()] == ["failed"]
        assert not make.stored("web-1").hub_accepts_client

    @pytest.mark.contract("D2")
    def test_it_stops_at_the_first_missing_right(self) -> None:
        ana, token = person("ana"), bearer()
        waiting = [asks(f"web-{number}", token) for number in range(4)]
        rights.by_guardian(ana, waiting[0], waiting[2], waiting[3])
        actor, act = actor_for(ana, entry_point=EntryPoint.WEB), bulk_decisions.ACTS["accept"]
        items = {each.name: asdict(stale_decision.seen_of(assessment.evidence_of(each.name))) for each in waiting}
        assert bulk_decisions.plan_requests(actor, act, items).left_out == [(bulk_decisions.GONE, 1)]
        permitted = BulkPlan([BulkStep(each.name) for each in waiting])  # as it was when the page was shown
        results = bulk_decisions.start_requests(actor, act, permitted, items, {}).items.order_by("pk")
        assert [result.state for result in results] == ["done", "refused", "not tried", "not tried"]
        assert [make.stored(each.name).hub_accepts_client for each in waiting] == [True, False, False, False]

    def test_one_reason_declines_all(self, browser: Client) -> None:
        token = bearer()
        for name in ("web-1", "web-2"):
            asks(name, token)
        chosen = self.select(browser, "web-1", "web-2", act="decline")
        refused = browser.post(chosen)
        assert (refused.status_code, "Say why" in text(refused)) == (400, True)
        answer = browser.post(chosen, {"reason": "Not ours."}, follow=True)
        assert "2 of 2 clusters declined" in text(answer)
        assert set(Decline.objects.values_list("reason", flat=True)) == {"Not ours."}

    def test_many_are_put_off_for_the_person_alone_and_come_back_when_they_change(self, browser: Client) -> None:
        token = bearer()
        for name in ("web-1", "web-2", "web-3"):
            asks(name, token)
        chosen = self.select(browser, "web-1", "web-2", act="later")
        make.label("web-2", env="prod")
        answer = browser.post(chosen, {"until": "changed"}, follow=True)
        assert "1 of 2 clusters put off" in text(answer)
        assert "What was changed is in the audit" not in text(answer)
        assert names(browser.get(INBOX)) == ["web-2", "web-3"]
        assert names(signed_in(person("ana", is_superuser=True)).get(INBOX)) == ["web-1", "web-2", "web-3"]
        assert self.left_out(browser, self.select(browser, all="safe", query="later=1")) == {"web-1": ""}
        make.label("web-1", env="prod")
        assert names(browser.get(INBOX)) == ["web-1", "web-2", "web-3"]

    def test_many_are_confirmed_by_their_number(self, browser: Client) -> None:
        token = bearer()
        for number in range(21):
            make.cluster(f"web-{number:02}", by=token)
        chosen = self.select(browser, *(f"web-{number:02}" for number in range(21)))
        refused = browser.post(chosen)
        assert (refused.status_code, "Type how many clusters it concerns." in text(refused)) == (400, True)
        answer = browser.post(chosen, {"typed": "21"}, follow=True)
        assert "0 of 21 clusters accepted It goes on in the background" in text(answer)
        make.settle()
        assert "21 of 21 clusters accepted" in text(browser.get(answer.request["PATH_INFO"]))

    @pytest.mark.parametrize("query", ["q=web&page=50", ""])
    def test_the_page_of_the_job_leads_back_to_the_filtered_list(self, browser: Client, query: str) -> None:
        asks("web-1", bearer())
        chosen = self.select(browser, "web-1", act="later", query=f"{query}&next=https%3A%2F%2Felsewhere")
        back = f'href="{INBOX}?{query}"'.replace("&", "&amp;") if query else f'href="{INBOX}"'
        assert back in browser.get(chosen).content.decode()
        job = browser.post(chosen, {"until": "changed"}, follow=True)
        assert "1 of 1 cluster" in text(job) or "web-1 put off" in text(job)
        assert job.content.decode().count(back) >= 2
        assert "elsewhere" not in job.content.decode()

    def test_a_selection_is_its_persons_and_an_act_has_a_name(self, browser: Client) -> None:
        asks("web-1", bearer())
        chosen = self.select(browser, "web-1")
        assert signed_in(person("eve", is_superuser=True)).get(chosen).status_code == 404
        assert browser.post(f"{INBOX}-/select/", {"select": "web-1", "act": "explode"}).status_code == 404
        assert browser.get(chosen.replace("/accept/", "/explode/")).status_code == 404
        assert "No request is chosen" in text(browser.get(self.select(browser)))

    @pytest.mark.parametrize("name", ["", "\0", "a/b", "nobody", "a" * 300])
    def test_names_that_do_not_wait_are_not_selected(self, browser: Client, name: str) -> None:
        answer = browser.post(f"{INBOX}-/select/", {"select": name, "act": "accept", "query": "page=\0&q=%00"})
        assert self.left_out(browser, answer["Location"]) == {}

    def test_after_a_decision_the_inbox_is_where_it_was(self, browser: Client) -> None:
        asks("web-1", bearer())
        opened = browser.get(f"{INBOX}web-1/?list=q%3Dweb%26page%3D50%26next%3Dhttps%3A%2F%2Felsewhere")
        kept = hidden(opened, "list")
        assert kept == "q=web&page=50"
        answer = browser.post(f"{INBOX}web-1/accept/", {**seen(opened), "list": kept})
        assert answer["Location"] == f"{INBOX}?q=web&page=50#request-web-1"
        assert names(browser.get(f"{INBOX}?q=web&page=50")) == []
