"""What a policy lets in and leaves to people, and what the minter of a token wished for (K9, K4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import ClusterFacts
from ocmconsole.core.models import BootstrapTokenUse
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services
from registration.models import AcceptedKey, ApprovalPolicy
from registration.policies import policy_history, policy_reconcilers, policy_services
from registration.policies.policy_matching import PolicyInput
from tests import factories as make
from tests import requests

pytestmark = pytest.mark.django_db

HERE = "10.3.0.17"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> None:
    make.hub(tmp_path, settings)


def person(name: str, *permissions: str) -> Actor:
    """Somebody of this hub who may accept clusters, change them and keep policies, or only what is named."""
    user = User.objects.create_user(name)
    for label in permissions or ("accept_managedcluster", "change_managedcluster", "add_approvalpolicy"):
        user.user_permissions.add(Permission.objects.get(codename=label))
    return actor_for(user)


def minted(by: Actor, **terms: Any) -> str:
    """The id of a new token."""
    return tokens.issue_bootstrap_token(by, ttl=timedelta(hours=1), **terms).partition(".")[0]


def bearer(token: str, address: str = HERE) -> Actor:
    return replace(
        requests.BOOTSTRAP, user=f"system:bootstrap:{token}", credential=f"bootstrap:{token}", address=address
    )


def policy(by: Actor, **wanted: Any) -> ApprovalPolicy:
    soon = timezone.now() + timedelta(days=7)
    terms = {"name": "web", "expires": soon, "reason": "A wave of new shops.", **wanted}
    made = policy_services.create_policy(by, PolicyInput(**terms))
    make.settle()
    return made


def arrive(name: str, *, by: Actor, asks_by: Actor | None = None, **metadata: Any) -> None:
    make.cluster(name, by=by, **metadata)
    requests.ask(f"{name}-a", requests.agent_pem(name), cluster=name, by=asks_by or by)
    make.settle()


def is_accepted(name: str) -> bool:
    return bool(make.stored(name).hub_accepts_client)


def fresh(made: ApprovalPolicy) -> ApprovalPolicy:
    return ApprovalPolicy.objects.get(pk=made.pk)


# ---------------------------------------------------------------- let in


@pytest.mark.contract("K9")
def test_what_fits_and_is_safe_is_let_in_as_the_person_of_the_policy() -> None:
    ana = person("ana")
    token = minted(ana)
    made = policy(ana, tokens=[token], pattern="eu-*", addresses=["10.3.0.0/16"], max_accepts=5)
    arrive("eu-1", by=bearer(token))
    assert is_accepted("eu-1")
    assert requests.state("eu-1-a") == "Issued"
    facts = ClusterFacts.objects.get(cluster="eu-1")
    assert (facts.decision, facts.decided_by) == ("accepted", "ana")
    assert AcceptedKey.objects.get().accepted_by == "ana"
    done = AuditEvent.objects.get(act="managedcluster:accept")
    assert (done.user, done.entry_point, done.credential) == ("ana", "standing", "policy:web")
    assert (fresh(made).accepts, fresh(made).failure) == (1, "")
    assert AuditEvent.objects.filter(act="approvalpolicy:use", name="web").count() == 1


@pytest.mark.contract("K9")
def test_looking_again_writes_nothing() -> None:
    ana = person("ana")
    token = minted(ana)
    policy(ana, tokens=[token])
    arrive("eu-1", by=bearer(token))
    assert make.writes_of(policy_reconcilers.reconcile_policy_acceptance, Key("", "eu-1")) == []


@pytest.mark.contract("K9")
def test_what_waits_already_is_let_in_by_a_new_policy() -> None:
    ana = person("ana")
    token = minted(ana)
    arrive("eu-1", by=bearer(token))
    assert not is_accepted("eu-1")
    policy(ana, tokens=[token])
    assert is_accepted("eu-1")


@pytest.mark.contract("K9", "A6")
def test_it_joins_the_set_of_the_policy() -> None:
    ana = person(
        "ana", "accept_managedcluster", "change_managedcluster", "add_approvalpolicy", "join_managedclusterset"
    )
    make.clusterset("web")
    token = minted(ana)
    policy(ana, tokens=[token], clusterset="web")
    arrive("eu-1", by=bearer(token))
    assert is_accepted("eu-1")
    assert make.stored("eu-1").clusterset == "web"


# ---------------------------------------------------------------- left to people


@pytest.mark.contract("K9")
@pytest.mark.parametrize(
    "wanted",
    [
        {"pattern": "us-*"},
        {"addresses": ["192.0.2.0/24"]},
        {"tokens": ["zzzzzz"]},
        {"expires": timedelta(0)},
        {"enabled": False},
    ],
    ids=lambda wanted: next(iter(wanted)),
)
def test_what_does_not_fit_waits(wanted: dict[str, Any]) -> None:
    ana = person("ana")
    token = minted(ana)
    made = policy(
        ana,
        **(
            {"tokens": [token]}
            | {key: value for key, value in wanted.items() if key in {"pattern", "addresses", "tokens"}}
        ),
    )
    if "expires" in wanted:
        ApprovalPolicy.objects.update(expires=timezone.now())
    if "enabled" in wanted:
        policy_services.disable_policy(ana, made.name)
    arrive("eu-1", by=bearer(token))
    assert not is_accepted("eu-1")
    assert fresh(made).accepts == 0


@pytest.mark.contract("K9")
def test_everybody_who_brought_the_name_must_fit() -> None:
    ana = person("ana")
    token, other = minted(ana), minted(ana)
    policy(ana, tokens=[token])
    arrive("eu-1", by=bearer(other), asks_by=bearer(token))
    arrive("eu-2", by=bearer(token), asks_by=bearer(other))
    assert not is_accepted("eu-1")
    assert not is_accepted("eu-2")


@pytest.mark.contract("K9", "K7")
def test_what_is_not_safe_waits() -> None:
    ana = person("ana")
    token = minted(ana)
    policy(ana, pattern="eu-*")
    make.cluster("eu-1", by=bearer(token))
    requests.ask("eu-1-a", requests.agent_pem("eu-2"), cluster="eu-1", by=bearer(token))
    make.settle()
    assert not is_accepted("eu-1")


@pytest.mark.contract("K9", "A6")
def test_labels_that_the_agent_chose_open_no_set() -> None:
    ana = person("ana")
    labels = {"matchLabels": {"env": "prod"}}
    make.clusterset("prod", selector={"selectorType": "LabelSelector", "labelSelector": labels})
    token = minted(ana)
    policy(ana, tokens=[token])
    arrive("eu-1", by=bearer(token), labels={"env": "prod"})
    arrive("eu-2", by=bearer(token), labels={"env": "test"})
    assert (is_accepted("eu-1"), is_accepted("eu-2")) == (False, True)


@pytest.mark.contract("D10", "K9")
def test_who_was_sent_away_or_declined_is_never_let_in_again_by_a_policy() -> None:
    ana = person("ana")
    token = minted(ana)
    policy(ana, tokens=[token])
    arrive("eu-1", by=bearer(token))
    services.disconnect_cluster(make.ADMIN, "eu-1")
    make.settle()
    make.label("eu-1", seen="again")
    make.settle()
    assert not is_accepted("eu-1")


@pytest.mark.contract("K9")
def test_it_lets_in_no_more_than_it_was_made_for() -> None:
    ana = person("ana")
    token = minted(ana)
    made = policy(ana, tokens=[token], max_accepts=1)
    arrive("eu-1", by=bearer(token))
    arrive("eu-2", by=bearer(token))
    assert (is_accepted("eu-1"), is_accepted("eu-2")) == (True, False)
    assert fresh(made).state(timezone.now()) == "used up"


@pytest.mark.contract("K9")
def test_an_accept_that_comes_after_its_last_use_is_refused_when_it_is_stored() -> None:
    ana = person("ana")
    policy(ana, pattern="eu-*", max_accepts=1)
    make.cluster("eu-1")
    ApprovalPolicy.objects.update(enabled=False)
    late = replace(ana, entry_point=EntryPoint.STANDING, credential="policy:web")
    with pytest.raises(errors.Conflict, match="has ended"):
        make.accept("eu-1", by=late)
    assert not is_accepted("eu-1")


# ---------------------------------------------------------------- rights of its person


@pytest.mark.contract("K9", "D2")
@pytest.mark.parametrize("loss", ["accept", "policies", "account"])
def test_it_stops_with_the_rights_of_its_person_and_says_so(loss: str) -> None:
    ana = person("ana")
    token = minted(ana)
    made = policy(ana, tokens=[token])
    user = User.objects.get(username="ana")
    if loss == "account":
        user.is_active = False
        user.save()
    else:
        codename = {"accept": "accept_managedcluster", "policies": "add_approvalpolicy"}[loss]
        user.user_permissions.remove(Permission.objects.get(codename=codename))
    arrive("eu-1", by=bearer(token))
    assert not is_accepted("eu-1")
    assert fresh(made).state(timezone.now()) == "failing"
    expected = {"accept": "accept_managedcluster", "policies": "may not keep policies", "account": "no active user"}
    assert expected[loss] in fresh(made).failure
    assert policy_services.failing(make.ADMIN) == [made]


@pytest.mark.contract("K9", "D2")
def test_one_who_changes_a_policy_answers_for_it() -> None:
    ana, raj = person("ana"), person("raj", "change_approvalpolicy")
    token = minted(ana)
    made = policy(ana, tokens=["zzzzzz"])
    policy_services.change_policy(raj, "web", replace(policy_services.rule_of(made), tokens=[token]))
    arrive("eu-1", by=bearer(token))
    assert not is_accepted("eu-1")
    assert "raj" in fresh(made).failure


@pytest.mark.contract("K9")
def test_for_one_cluster_with_one_token_the_right_to_accept_it_is_enough() -> None:
    li = person("li", "accept_managedcluster")
    token = minted(li, cluster="eu-1", max_uses=1)
    policy(li, tokens=[token], pattern="eu-1", max_accepts=1)
    arrive("eu-1", by=bearer(token))
    assert is_accepted("eu-1")
    with pytest.raises(errors.Forbidden, match="add_approvalpolicy"):
        policy(li, name="more", tokens=[token], pattern="eu-*", max_accepts=1)


# ---------------------------------------------------------------- what it would have done


def test_a_dry_run_shows_what_fits_and_what_people_declined() -> None:
    ana = person("ana")
    token = minted(ana)
    for name in ("eu-1", "eu-2", "eu-3", "us-1"):
        arrive(name, by=bearer(token))
    services.accept_cluster(make.ADMIN, "eu-1")
    services.decline_cluster(make.ADMIN, "eu-2", reason="Wrong token.")
    make.settle()
    asked = ApprovalPolicy(name="try", pattern="eu-*", tokens=[token])
    found = {past.name: past for past in policy_history.dry_run(make.ADMIN, asked).past}
    assert {name: str(past.outcome) for name, past in found.items()} == {
        "eu-1": "accepted",
        "eu-2": "declined",
        "eu-3": "waiting",
    }
    assert (found["eu-2"].is_warning, found["eu-2"].reason) == (True, "Wrong token.")
    assert found["eu-3"].is_let_in_now
    assert policy_history.dry_run(person("li", "view_approvalpolicy"), asked).past == []


@pytest.mark.parametrize("rule", [{"pattern": "us-?"}, {"tokens": ["zzzzzz"]}])
def test_a_dry_run_looks_past_those_that_cannot_fit(monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]) -> None:
    make.cluster("us-x", by=bearer("zzzzzz"))
    for name in ("eu-1", "eu-2", "us-10"):
        make.cluster(name, by=bearer("aaaaaa"))
    make.settle()
    monkeypatch.setattr(policy_history, "MOST", 2)
    tried = policy_history.dry_run(make.ADMIN, ApprovalPolicy(name="try", **rule))
    assert ([past.name for past in tried.past], tried.is_cut) == (["us-x"], False)


# ---------------------------------------------------------------- wishes that come with a token


@pytest.mark.contract("K4", "A6")
def test_what_the_minter_wished_for_is_done_once_as_him() -> None:
    ana = person("ana", "change_managedcluster", "join_managedclusterset")
    make.clusterset("web")
    token = minted(ana, clusterset="web", labels={"env": "prod"})
    make.cluster("eu-1", by=bearer(token), labels={"env": "mine"})
    make.settle()
    assert make.stored("eu-1").labels.items() >= {CLUSTERSET_LABEL: "web", "env": "prod"}.items()
    done = AuditEvent.objects.get(credential=f"wish:{token}")
    assert (done.user, done.entry_point) == ("ana", "standing")
    make.label("eu-1", env="test")
    make.settle()
    policy_reconcilers.reconcile_token_wish(Key("", "eu-1"))
    assert make.stored("eu-1").labels["env"] == "test"


@pytest.mark.contract("K4", "A6")
@pytest.mark.parametrize("permissions", [("change_managedcluster",), ("join_managedclusterset",)])
def test_a_wish_never_exceeds_its_minter(permissions: tuple[str, ...]) -> None:
    ana = person("ana", *permissions)
    make.clusterset("web")
    token = minted(ana, clusterset="web")
    make.cluster("eu-1", by=bearer(token))
    make.settle()
    assert make.stored("eu-1").clusterset == "default"
    assert BootstrapTokenUse.objects.get().wish_failure


@pytest.mark.contract("K4")
def test_asking_for_a_certificate_changes_no_cluster_of_somebody_else() -> None:
    ana = person("ana", "change_managedcluster")
    token = minted(ana, labels={"env": "prod"})
    make.cluster("eu-1")
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1", by=bearer(token))
    make.settle()
    policy_reconcilers.reconcile_token_wish(Key("", "eu-1"))
    assert "env" not in make.stored("eu-1").labels


# ---------------------------------------------------------------- changed


def diff_of(act: str) -> dict[str, tuple[Any, Any]]:
    entry = AuditEvent.objects.filter(act=f"approvalpolicy:{act}").latest("pk")
    return {told["path"]: (told["old"], told["new"]) for told in entry.diff}


@pytest.mark.contract("K9", "D11")
def test_the_audit_says_what_an_act_changed_and_who_answers_from_now_on() -> None:
    ana, raj = person("ana"), person("raj", "change_approvalpolicy")
    made = policy(ana, pattern="eu-*")
    policy_services.disable_policy(ana, made.name)
    assert diff_of("disable") == {"enabled": (True, False)}
    policy_services.enable_policy(raj, made.name)
    assert diff_of("enable") == {"enabled": (False, True), "acts_as": ("ana", "raj")}
    policy_services.change_policy(raj, made.name, replace(policy_services.rule_of(made), pattern="us-*"))
    assert diff_of("update") == {"pattern": ("eu-*", "us-*")}


@pytest.mark.contract("K9")
def test_an_act_writes_its_own_columns_and_no_others() -> None:
    ana = person("ana", "change_approvalpolicy", "add_approvalpolicy")
    made = policy(ana, pattern="eu-*")
    with CaptureQueriesContext(connection) as asked:
        policy_services.change_policy(ana, made.name, replace(policy_services.rule_of(made), pattern="us-*"))
    written = [each["sql"] for each in asked if each["sql"].startswith('UPDATE "registration_approvalpolicy"')]
    assert len(written) == 1
    assert '"pattern" = ' in written[0]
    assert '"enabled" = ' not in written[0]


@pytest.mark.contract("D11")
def test_a_refused_disabling_is_recorded() -> None:
    made = policy(person("ana"), pattern="eu-*")
    with pytest.raises(errors.Forbidden):
        policy_services.disable_policy(person("li", "view_approvalpolicy"), made.name)
    assert fresh(made).enabled
    assert AuditEvent.objects.filter(user="li", outcome="denied").exists()
