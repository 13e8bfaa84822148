"""What one identity may bring and store (D23): sizes, claims, clusters of a token, requests, bytes of the change log."""

from __future__ import annotations

import base64
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core import kinds
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, tasks
from ocmconsole.kubeapi.control import compaction
from ocmconsole.kubeapi.health import limit_records
from ocmconsole.kubeapi.models import Change, Compaction, HeldBack
from tests import factories as make
from tests.actors import ROOT
from tests.security.callers import CLUSTERS, REQUESTS, Answer, Caller, agent_of, bearer, request_for

pytestmark = [pytest.mark.contract("D23"), pytest.mark.usefixtures("fresh_hub")]
MERGE = "application/merge-patch+json"


@pytest.fixture
def fresh_hub(db: None) -> None:
    from registration import hub_setup

    hub_setup.ensure_hub()
    make.settle()


def joined(name: str) -> Caller:
    make.cluster(name, accepted=True)
    make.settle()
    return agent_of(name)


def say(agent: Caller, name: str, status: dict[str, Any]) -> Answer:
    return agent.send("PATCH", f"{CLUSTERS}/{name}/status", {"status": status}, MERGE)


def claims(count: int, value: str = "x") -> dict[str, Any]:
    return {"clusterClaims": [{"name": f"claim{number}.example.com", "value": value} for number in range(count)]}


def refusals() -> list[tuple[str, str, int]]:
    return list(HeldBack.objects.order_by("pk").values_list("user", "limit", "count"))


# ---------------------------------------------------------------- what is stored


def test_a_cluster_has_so_many_claims(settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_CLAIMS = 20
    agent = joined("c1")
    assert say(agent, "c1", claims(20)).code == 200
    refused = say(agent, "c1", claims(21))
    assert (refused.code, refused.doc["reason"]) == (413, "RequestEntityTooLarge")
    assert "too many claims: 21, limit is 20" in refused.message
    assert len(make.stored("c1").doc["status"]["clusterClaims"]) == 20
    assert refusals() == [("system:open-cluster-management:c1:agent1", "OCMCONSOLE_LIMIT_CLAIMS", 1)]


def test_a_cluster_that_has_more_claims_from_before_goes_on_and_may_have_fewer(settings: Any) -> None:
    agent = joined("c1")
    assert say(agent, "c1", claims(30)).code == 200
    settings.OCMCONSOLE_LIMIT_CLAIMS = 20
    assert say(agent, "c1", {"version": {"kubernetes": "v1.34.2"}}).code == 200
    assert say(agent, "c1", claims(30, "y")).code == 413
    assert say(agent, "c1", claims(25)).code == 200


def test_the_status_of_an_object_has_a_size(settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_STATUS_SIZE = 4096
    agent = joined("c1")
    before = make.stored("c1").wire
    refused = say(agent, "c1", claims(10, "x" * 1000))
    assert (refused.code, refused.doc["reason"]) == (413, "RequestEntityTooLarge")
    assert "status is too large" in refused.message
    assert "limit is 4096" in refused.message
    assert make.stored("c1").wire == before
    assert say(agent, "c1", claims(10)).code == 200


@pytest.mark.parametrize("name", ["CLAIMS", "STATUS_SIZE"])
def test_a_limit_can_be_switched_off(settings: Any, name: str) -> None:
    setattr(settings, f"OCMCONSOLE_LIMIT_{name}", 0)
    assert say(joined("c1"), "c1", claims(100)).code == 200


# ---------------------------------------------------------------- what a credential brings


def register(caller: Caller, name: str) -> Answer:
    doc = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": name}}
    return caller.post(CLUSTERS, doc)


def test_a_token_is_for_one_cluster_and_an_hour_unless_more_is_asked_for() -> None:
    call_command("bootstrap_token", "create", stdout=StringIO())
    token = BootstrapToken.objects.get()
    assert token.max_uses == 1
    assert token.expires - token.created == timedelta(hours=1)


@pytest.mark.parametrize(("uses", "kept"), [("20", 20), ("any", None)])
def test_more_clusters_are_asked_for_by_number_or_as_any(uses: str, kept: int | None) -> None:
    call_command("bootstrap_token", "create", "--uses", uses, stdout=StringIO())
    assert BootstrapToken.objects.get().max_uses == kept


@pytest.mark.parametrize("uses", ["0", "-1", "many", "1.5", "²", ""])
def test_nonsense_mints_nothing(uses: str) -> None:
    with pytest.raises(CommandError):
        call_command("bootstrap_token", "create", f"--uses={uses}", stdout=StringIO())
    assert not BootstrapToken.objects.exists()


def test_the_page_offers_one_cluster_too(client: Client, django_user_model: Any) -> None:
    client.force_login(django_user_model.objects.create_superuser("root", "", "correct-horse-staple"))
    for path in ("/tokens/mint/", "/clusters/add/token/?name=eu-1"):
        page = client.get(path).content.decode()
        assert 'name="uses" value="1"' in page, path
        assert '<option value="1h" selected>' in page, path


def test_a_token_for_any_number_brings_no_more_than_the_hub_allows(settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS = 2
    caller = bearer(tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1)))
    assert [register(caller, name).code for name in ("c1", "c2")] == [201, 201]
    refused = register(caller, "c3")
    assert refused.code == 403
    assert "has brought 2 clusters, and OCMCONSOLE_LIMIT_TOKEN_OBJECTS is 2" in refused.message
    assert caller.post(REQUESTS, request_for("c1", "c1-a")).code == 201  # what it brought goes on joining


def test_a_token_of_a_secret_registers_so_many_clusters_in_a_day(settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS = 2
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:managedcluster",
    }
    doc = make.document(kinds.SECRET, "bootstrap-token-abcdef") | {
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()},
    }
    make.create(kinds.SECRET, doc, namespace="kube-system")
    caller = bearer("abcdef.0123456789abcdef")
    assert [register(caller, name).code for name in ("c1", "c2")] == [201, 201]
    refused = register(caller, "c3")
    assert (refused.code, refused.doc["reason"]) == (429, "TooManyRequests")
    assert refused.doc["details"]["retryAfterSeconds"] == 60
    assert refusals() == [("system:bootstrap:abcdef", "OCMCONSOLE_LIMIT_TOKEN_OBJECTS", 1)]


def test_an_identity_has_so_many_certificate_requests(settings: Any) -> None:
    settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS = 3
    caller = bearer(tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1), max_uses=1))
    codes = [caller.post(REQUESTS, request_for("c1", f"c1-{number}")).code for number in range(5)]
    assert codes == [201, 201, 201, 429, 429]
    other = bearer(tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1), max_uses=1))
    assert other.post(REQUESTS, request_for("c2", "c2-a")).code == 201


def test_a_token_for_many_clusters_has_the_limits_of_many_agents() -> None:
    from ocmconsole.kubeapi.access import authentication

    for uses, bearers in ((1, 1), (20, 20), (None, 1)):
        token = tokens.issue_bootstrap_token(make.ADMIN, ttl=timedelta(hours=1), max_uses=uses)
        assert authentication.actor_of_token(token).bearers == bearers


# ---------------------------------------------------------------- the change log


def test_a_change_knows_its_bytes() -> None:
    make.namespace("size", annotations={"note": "größe 🙂"})
    for row in Change.objects.all():
        assert row.size == len(row.wire.encode()) + len(row.before.encode())


def test_the_log_is_cut_by_bytes_where_most_of_them_are() -> None:
    make.cluster("c1")
    make.namespace("kept")
    for number in range(30):
        make.label("c1", {"note": f"{'x' * 50}{number}"})
    before = Change.objects.filter(resource="namespaces").count()
    size = sum(Change.objects.values_list("size", flat=True))
    assert compaction.bound_log(size) == 0
    most = size * 3 // 4
    assert compaction.bound_log(most) > 0
    assert sum(Change.objects.values_list("size", flat=True)) <= most
    assert Change.objects.filter(resource="namespaces").count() == before
    cut = Compaction.objects.get(resource=MANAGED_CLUSTER.resource).revision
    assert cut < Change.objects.filter(resource=MANAGED_CLUSTER.resource).earliest("revision").revision
    assert compaction.bound_log(most) == 0  # there is room again


@pytest.mark.contract("D23")
def test_a_log_that_is_full_of_one_change_is_emptied_and_no_more(settings: Any) -> None:
    make.namespace("n1")
    settings.OCMCONSOLE_LIMIT_CHANGE_LOG = 1
    tasks.bound_log()
    assert Change.objects.count() == 0
    make.namespace("n2")
    assert Change.objects.filter(name="n2").exists()


def test_a_log_without_bound_is_not_cut() -> None:
    make.namespace("n1")
    assert compaction.bound_log(0) == 0


# ---------------------------------------------------------------- hub health


def test_hub_health_names_who_was_held_back_by_what_how_often_and_since_when(
    client: Client, django_user_model: Any
) -> None:
    client.force_login(django_user_model.objects.create_superuser("root", "", "correct-horse-staple"))
    assert "Nobody in the last seven days." in client.get("/hub/").content.decode()
    for _ in range(2):
        limit_records.write_counts(
            {("system:open-cluster-management:eu-1:a", "10.0.0.7", "OCMCONSOLE_LIMIT_REQUESTS"): 700}
        )
    limit_records.write_counts({("", "10.9.9.9", "OCMCONSOLE_LIMIT_STRANGERS"): 3})
    html = client.get("/hub/").content.decode()
    for text in (
        "system:open-cluster-management:eu-1:a", "from 10.0.0.7", "requests a second", "OCMCONSOLE_LIMIT_REQUESTS",
        "1,400", "Callers without a valid credential from 10.9.9.9",
    ):  # fmt: skip
        assert text in html, text
    assert HeldBack.objects.count() == 2


def test_refusals_of_another_hour_begin_a_new_count() -> None:
    key = ("eve", "10.0.0.7", "OCMCONSOLE_LIMIT_WATCHES")
    limit_records.write_counts({key: 5})
    HeldBack.objects.update(last=timezone.now() - timedelta(hours=2), since=timezone.now() - timedelta(hours=3))
    limit_records.write_counts({key: 2})
    row = HeldBack.objects.get()
    assert row.count == 2
    assert timezone.now() - row.since < timedelta(minutes=5)


def test_a_flood_of_addresses_fills_no_disk() -> None:
    counts = {("", f"10.{number >> 8}.{number & 255}.1", "OCMCONSOLE_LIMIT_STRANGERS"): 1 for number in range(1_100)}
    limit_records.write_counts(counts)
    HeldBack.objects.filter(address="10.0.0.1").update(last=timezone.now() - timedelta(days=8))
    limit_records.delete_old_counts(timezone.now())
    assert HeldBack.objects.count() == limit_records.MOST_ROWS


def test_a_refused_write_raises_for_every_way_in(settings: Any) -> None:
    """The service that pages and commands call meets the same limit."""
    settings.OCMCONSOLE_LIMIT_CLAIMS = 1
    make.cluster("c1")
    with pytest.raises(errors.RequestTooLarge):
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status=claims(2)), by=ROOT, subresource="status")
    assert not make.stored("c1").doc.get("status", {}).get("clusterClaims")
