"""D29: a repair token lets the agent of one cluster come back under a new key, once, and nobody else, ever."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import repairs, services
from registration.certificates import ca_rotation
from registration.evidence import assessment
from registration.keys import key_history, key_lines, repair_tokens
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, CertificateSigningRequest, Decline, IssuedCertificate, KeyLine
from registration.pki import ca
from tests import factories as make
from tests import requests
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import CLUSTERS, REQUESTS, Answer, Caller, agent_of, bearer, request_for

pytestmark = [pytest.mark.usefixtures("fresh_hub"), pytest.mark.contract("D29")]

REGISTER = "register.open-cluster-management.io"


@dataclass(frozen=True)
class Bearer:
    """Who holds a manifest."""

    secret: str

    @property
    def caller(self) -> Caller:
        return bearer(self.secret)

    @property
    def token(self) -> BootstrapToken:
        return BootstrapToken.objects.get(pk=self.secret.partition(".")[0])

    def asks(self, name: str = "repair", cluster: str = "edge") -> Answer:
        answer = self.caller.post(REQUESTS, request_for(cluster, name))
        make.settle()
        return answer


def join(name: str = "edge") -> str:
    """A cluster with one accepted key; the name of its request."""
    make.cluster(name)
    requests.ask(f"{name}-first", requests.agent_pem(name), cluster=name)
    services.accept_cluster(ROOT, name)
    make.settle()
    return f"{name}-first"


def kubeconfig_of(manifest: str) -> dict[str, object]:
    secret = yaml.safe_load(manifest)
    found: dict[str, object] = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return found


def mint(name: str = "edge", *, by: Actor = ROOT, ttl: timedelta = timedelta(hours=1)) -> Bearer:
    users = kubeconfig_of(repairs.mint_manifest(by, name, ttl=ttl).text)["users"]
    assert isinstance(users, list)
    return Bearer(users[0]["user"]["token"])


def keys() -> set[str]:
    return set(AcceptedKey.objects.filter(cluster="edge").values_list("fingerprint", flat=True))


# ---------------------------------------------------------------- what it is for


@pytest.mark.contract("D9", "D19", "D26")
def test_the_agent_comes_back_under_a_new_key_of_the_same_line_without_a_person() -> None:
    first = requests.row(join())
    line = key_lines.open_line("edge")
    assert line is not None
    assert mint().asks().code == 201
    assert requests.state("repair") == "Issued"
    key = AcceptedKey.objects.get(request="repair")
    assert (key.how, key.line, key.accepted_by) == ("repair", line, ROOT.user)
    issued = IssuedCertificate.objects.get(request="repair")
    assert list(issued.lines.all()) == [line]
    assert IssuedCertificate.objects.get(request=first.name).revoked_at is None  # as with a renewal
    assert KeyLine.objects.count() == 1


def test_the_audit_says_who_minted_it_and_which_key_came_with_it() -> None:
    join()
    held = mint()
    held.asks()
    minted = AuditEvent.objects.get(act="bootstraptoken:create", name=held.token.pk)
    assert minted.user == ROOT.user
    assert {"path": "cluster", "new": "edge"} in minted.diff
    key = AcceptedKey.objects.get(request="repair")
    text = f"{key.fingerprint}: The repair token {held.token.pk}, minted by {ROOT.user}, vouched for it."
    assert AuditEvent.objects.get(act="managedcluster:repair", name="edge").reason == text
    approved = AuditEvent.objects.get(act="certificatesigningrequest:approve", name="repair")
    assert approved.user.startswith("system:ocmconsole:")
    assert held.secret.partition(".")[2] not in str([each.diff for each in AuditEvent.objects.all()])


def test_a_revoked_certificate_is_replaced_while_the_line_is_open() -> None:
    issued = IssuedCertificate.objects.get(request=join())
    services.revoke_certificate(ROOT, issued.pk, reason="It was lost.")
    assert mint().asks().code == 201
    assert requests.state("repair") == "Issued"


def test_the_key_of_a_revoked_certificate_is_refused_and_the_token_is_not_spent() -> None:
    issued = IssuedCertificate.objects.get(request=join())
    old = requests.row("edge-first").doc["spec"]["request"]
    services.revoke_certificate(ROOT, issued.pk, reason="It was stolen.")
    held = mint()
    doc = request_for("edge", "again")
    doc["spec"]["request"] = old
    refused = held.caller.post(REQUESTS, doc)
    assert refused.code == 403
    assert "the key of the request was revoked" in refused.message
    assert held.asks().code == 201


def test_who_may_accept_the_cluster_may_mint_and_nobody_else() -> None:
    join()
    join("other")
    ana, li = person("ana"), person("li")
    grant(ana, rule("update", "managedclusters/accept", groups=REGISTER, names="edge"))
    grant(li, rule("create", "bootstraptokens", groups="ocmconsole.io"))
    assert mint(by=ana).asks().code == 201
    for actor, name in ((ana, "other"), (li, "edge")):
        with pytest.raises(errors.Forbidden, match=r"clusters\.accept_managedcluster"):
            mint(name, by=actor)
    assert BootstrapToken.objects.count() == 1


def test_a_rotation_may_mint() -> None:
    join()
    assert mint(by=Actor.controller("rotation")).asks().code == 201
    assert requests.state("repair") == "Issued"


# ---------------------------------------------------------------- what it is not for


def test_it_works_once() -> None:
    join()
    held = mint()
    assert held.asks().code == 201
    again = held.asks("again")
    assert again.code == 403
    assert f"the repair token {held.token.pk} has been used: it works once" in again.message
    assert held.caller.get(f"{REQUESTS}/repair").code == 200  # the agent still fetches its certificate
    assert len(keys()) == 2


def test_of_two_requests_at_once_the_second_finds_it_spent() -> None:
    """Both have been let through by the rules before either is written."""
    join()
    held = mint()
    actor = tokens.bootstrap_actor(held.secret)
    assert actor is not None
    with pytest.raises(errors.Forbidden, match="has been used"):
        _ask_twice_in_one_transaction(actor)
    assert not CertificateSigningRequest.objects.filter(name__in=("one", "two")).exists()
    assert held.asks().code == 201


def _ask_twice_in_one_transaction(actor: Actor) -> None:
    with verbs.batch(actor) as batch:
        for name in ("one", "two"):
            batch.create(CSR, request_for("edge", name))


@pytest.mark.contract("K4", "H35")
def test_it_asks_for_the_agent_of_its_cluster_only() -> None:
    join()
    join("other")
    held = mint()
    assert held.asks(cluster="other").code == 403
    assert held.caller.post(REQUESTS, request_for("edge", "mixed", speaks_for="other")).code == 403
    addon = request_for("edge", "addon")
    addon["metadata"]["labels"]["open-cluster-management.io/addon-name"] = "search"
    assert held.caller.post(REQUESTS, addon).code == 403
    assert held.asks().code == 201


def test_it_registers_no_cluster() -> None:
    join()
    held = mint()
    refused = held.caller.post(CLUSTERS, make.document(MANAGED_CLUSTER, "edge", spec={"hubAcceptsClient": False}))
    assert refused.code == 403
    assert "is for a cluster that is there already" in refused.message


@pytest.mark.contract("D9")
def test_an_ordinary_token_for_the_cluster_still_needs_an_override() -> None:
    join()
    held = Bearer(tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1), cluster="edge", max_uses=1))
    assert held.asks("plain").code == 201
    assert requests.state("plain") == "Pending"
    assert assessment.evidence_of("edge").verdict is assessment.Verdict.BLOCKED


def test_the_group_of_repair_tokens_alone_approves_nothing() -> None:
    """A Secret in kube-system may name any group that begins as those of bootstrap tokens do."""
    join()
    actor = Actor(user="system:bootstrap:abcdef", groups=(*requests.BOOTSTRAP.groups, tokens.REPAIRING))
    requests.ask("posing", requests.agent_pem("edge"), cluster="edge", by=actor)
    make.settle()
    assert requests.state("posing") == "Pending"


def test_a_request_from_before_it_was_minted_is_not_its_own() -> None:
    """Ids and groups of bootstrap tokens in Secrets are chosen by who makes the Secret."""
    join()
    groups = (*requests.BOOTSTRAP.groups, tokens.REPAIRING)
    poser = Actor(user="system:bootstrap:abcdef", groups=groups, credential="bootstrap:abcdef")
    requests.ask("early", requests.agent_pem("edge"), cluster="edge", by=poser)
    mint()
    BootstrapToken.objects.update(id="abcdef")
    doc = requests.row("early").doc
    asker = key_history.asker_of_request(doc)
    assert asker.credential == "bootstrap:abcdef"
    assert repair_tokens.continued_by(doc, "edge", asker) is None
    BootstrapToken.objects.update(created=asker.at)
    assert repair_tokens.continued_by(doc, "edge", asker) is not None


# ---------------------------------------------------------------- how it ends


def test_it_expires() -> None:
    join()
    held = mint()
    BootstrapToken.objects.update(expires=BootstrapToken.objects.get().created)
    assert held.asks().code == 401


def test_it_lasts_a_day_at_most() -> None:
    join()
    with pytest.raises(errors.Invalid, match="at most 1 day"):
        mint(ttl=timedelta(hours=25))


def _override() -> None:
    requests.ask("stranger", requests.agent_pem("edge"), cluster="edge")
    override = services.Override(requests.row("stranger").key_fingerprint, "Its administrator read it out.")
    services.accept_cluster(ROOT, "edge", override=override)


def _revoke_all() -> None:
    services.revoke_all(ROOT, "edge", reason="Stolen.")


def _un_accept() -> None:
    make.accept("edge", accepts=False)
    make.settle()
    make.accept("edge")


def _delete_and_create() -> None:
    verbs.delete(ROOT, MANAGED_CLUSTER, Key("", "edge"))
    make.settle()
    make.cluster("edge")
    services.accept_cluster(ROOT, "edge")


def _decline() -> None:
    requests.ask("stranger", requests.agent_pem("edge"), cluster="edge")
    services.decline_cluster(ROOT, "edge", reason="Wait.", scope=Decline.Scope.NAME)
    services.lift_decline(ROOT, "edge")


ENDS = [_override, _revoke_all, _un_accept, _delete_and_create, _decline]


@pytest.mark.contract("D19")
@pytest.mark.parametrize("end", ENDS)
def test_it_ends_with_its_line_and_its_cluster_for_good(end: Callable[[], None]) -> None:
    join()
    held = mint()
    before = keys()
    end()
    make.settle()
    after = keys()
    assert held.asks().code == 401
    assert keys() == after >= before
    assert AuditEvent.objects.get(act="bootstraptoken:revoke", name=held.token.pk).user == ROOT.user


@pytest.mark.contract("D9", "D19")
@pytest.mark.parametrize("is_over", [False, True], ids=["in-time", "time-is-over"])
@pytest.mark.parametrize("end", [_override, _un_accept, _decline])
def test_a_request_that_came_with_it_is_not_approved_after_it_has_ended(
    end: Callable[[], None], *, is_over: bool
) -> None:
    """Here the workers stand still until then, perhaps for longer than the token works."""
    join()
    held = mint()
    assert held.caller.post(REQUESTS, request_for("edge", "late")).code == 201
    if is_over:
        BootstrapToken.objects.update(expires=held.token.created)
    if end is _decline:  # of what waits
        services.decline_cluster(ROOT, "edge", reason="Wait.", scope=Decline.Scope.NAME)
    else:
        end()
    make.settle()
    assert requests.state("late") in {"Pending", "Denied"}
    with pytest.raises((errors.Forbidden, errors.Invalid)):
        make.edit(CSR, "late", _approved, subresource="approval")


def _approved(doc: dict[str, object]) -> None:
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": ""}
    doc["status"] = {"conditions": [approved]}


def test_a_line_that_ended_otherwise_is_asked_for_again_with_the_request() -> None:
    """As after a restore that ended a line: the token itself has nothing to say that."""
    join()
    held = mint()
    KeyLine.objects.update(ended_at=held.token.created)
    refused = held.asks()
    assert refused.code == 403
    assert "the line of keys that the repair token" in refused.message


def test_a_line_that_ends_while_the_request_is_written_is_seen() -> None:
    join()
    actor = tokens.bootstrap_actor(mint().secret)
    assert actor is not None
    with pytest.raises(errors.Forbidden, match="the line of keys that the repair token"):
        _ask_while_the_line_ends(actor)


def _ask_while_the_line_ends(actor: Actor) -> None:
    with verbs.batch(actor) as batch:
        batch.create(CSR, request_for("edge", "between"))
        KeyLine.objects.update(ended_at=KeyLine.objects.get().begun_at)


def test_a_dry_run_is_refused_as_the_request_would_be_and_spends_nothing() -> None:
    join()
    held = mint()
    path = f"{REQUESTS}?dryRun=All"
    assert held.caller.post(path, request_for("edge", "dry")).code == 201
    assert held.caller.post(path, request_for("edge", "dry")).code == 201
    begun = KeyLine.objects.get().begun_at
    KeyLine.objects.update(ended_at=begun)
    assert held.caller.post(path, request_for("edge", "dry")).code == 403
    KeyLine.objects.update(ended_at=None)
    assert held.asks().code == 201


def test_one_of_another_cluster_with_an_open_line_is_no_help() -> None:
    join()
    join("other")
    held = mint()
    BootstrapToken.objects.update(key_line=KeyLine.objects.get(cluster="other").pk)
    assert held.asks().code == 403


@pytest.fixture
def own_home(fresh_hub: None, tmp_path: Path, settings: Any) -> None:
    """The home of the process is every test's: its CAs stay as they are."""
    settings.OCMCONSOLE_HOME = Path(shutil.copytree(settings.OCMCONSOLE_HOME, tmp_path / "home"))


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("role", list(ca.AuthorityRole))
def test_a_step_of_a_rotation_ends_those_that_were_minted_before(role: ca.AuthorityRole) -> None:
    join()
    held = mint()
    ca_rotation.rotate(ROOT, role)
    refused = held.asks()
    assert refused.code == 403
    assert repair_tokens.CHANGED.format(held.token.pk) in refused.message
    assert mint().asks().code == 201


@pytest.mark.usefixtures("own_home")
@pytest.mark.contract("D26")
def test_it_brings_back_an_agent_whose_ca_was_retired() -> None:
    join()
    IssuedCertificate.objects.update(authority=ca.client_authority(settings.OCMCONSOLE_HOME).key_fingerprint)
    ca_rotation.rotate(ROOT, ca.AuthorityRole.CLIENT)
    ca_rotation.retire(ROOT, ca.AuthorityRole.CLIENT, force=True)
    assert IssuedCertificate.objects.get(request="edge-first").revoked_at is not None
    assert mint().asks().code == 201
    assert requests.state("repair") == "Issued"


@pytest.mark.contract("D5")
def test_withheld_renewal_is_respected() -> None:
    join()
    held = mint()
    make.edit(CLUSTER_ROLE, "open-cluster-management:managedcluster:edge", lambda doc: doc["rules"].pop(1))
    make.settle()
    with pytest.raises(errors.Conflict, match="Renewal is withheld from edge"):
        mint()
    assert held.asks().code == 201
    assert requests.state("repair") == "Pending"
    found = assessment.evidence_of("edge")
    assert found.waiting[0].history is assessment.KeyHistory.REPAIR
    services.accept_cluster(ROOT, "edge")  # a person may, without an override
    make.settle()
    assert requests.state("repair") == "Issued"


# ---------------------------------------------------------------- where there is nothing to repair


@pytest.mark.parametrize(
    ("arrange", "says"),
    [
        (lambda: None, "There is no cluster edge."),
        (lambda: make.cluster("edge"), "edge is not accepted"),
        (lambda: make.cluster("edge", accepted=True), "edge has no line of keys to continue"),
        (lambda: (join(), services.revoke_all(ROOT, "edge", reason="Stolen.")), "edge has no line of keys to continue"),
        (lambda: (join(), make.accept("edge", accepts=False)), "edge is not accepted"),
    ],
)
def test_without_an_accepted_cluster_and_an_open_line_nothing_is_minted(
    arrange: Callable[[], object], says: str
) -> None:
    arrange()
    make.settle()
    with pytest.raises(errors.ApiError, match=f"^{says}"):
        mint()
    assert not BootstrapToken.objects.exists()


def test_the_manifest_holds_address_cas_and_token_and_no_more() -> None:
    join()
    made = repairs.mint_manifest(ROOT, "edge")
    secret, kubeconfig = yaml.safe_load(made.text), kubeconfig_of(made.text)
    assert (secret["kind"], secret["metadata"]) == (
        "Secret",
        {"name": "bootstrap-hub-kubeconfig", "namespace": "open-cluster-management-agent"},
    )
    clusters = kubeconfig["clusters"]
    assert isinstance(clusters, list)
    assert clusters[0]["cluster"]["server"] == settings.OCMCONSOLE_API_URL
    given = base64.b64decode(clusters[0]["cluster"]["certificate-authority-data"])
    assert given == (settings.OCMCONSOLE_HOME / "ca.crt").read_bytes()
    assert agent_of("edge").get(f"{CLUSTERS}/edge").code == 200
