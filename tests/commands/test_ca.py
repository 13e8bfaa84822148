"""``manage.py ca``: who signs, who is counted, what is published and what ends, in each phase of a rotation."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db.models import F
from django.utils import timezone

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration import hub_setup
from registration.approvals import services
from registration.certificates import ca_rotation
from registration.keys import certificate_register
from registration.models import CertificateSigningRequest, IssuedCertificate, UnknownCertificate
from registration.pki import ca, kubeconfigs
from tests import factories as make
from tests import requests
from tests.actors import ROOT, person
from tests.security.callers import CLUSTERS, REQUESTS, Caller, bearer, request_for

CLIENT, SERVING = ca.AuthorityRole.CLIENT, ca.AuthorityRole.SERVING
STEPS = {"rotate": ca_rotation.rotate, "back": ca_rotation.turn_back, "retire": ca_rotation.retire}


@pytest.fixture(autouse=True)
def _hub(tmp_path: Path, settings: Any, db: None) -> None:
    make.hub(tmp_path, settings)


@dataclass(frozen=True)
class Agent:
    """What an agent holds: the certificate of one request."""

    cluster: str
    request: str

    @property
    def pem(self) -> bytes:
        return base64.b64decode(requests.row(self.request).doc["status"]["certificate"])

    @property
    def caller(self) -> Caller:
        der = x509.load_pem_x509_certificate(self.pem).public_bytes(Encoding.DER)
        return Caller({"ocmconsole.peer_certificate": der})

    def speaks(self) -> int:
        return self.caller.get(f"{CLUSTERS}/{self.cluster}").code

    def renews(self) -> Agent:
        """With its own certificate, as agents do by themselves; the new one was not shown yet."""
        number = CertificateSigningRequest.objects.count()
        doc = requests.document(
            f"{self.cluster}-{number}", requests.agent_pem(self.cluster, "agent1"), cluster=self.cluster
        )
        assert self.caller.post(REQUESTS, doc).code == 201
        make.settle()
        return Agent(self.cluster, f"{self.cluster}-{number}")


def join(cluster: str) -> Agent:
    """With a bootstrap token of its own, minted now."""
    with_token = bearer(tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1)))
    doc = make.document(MANAGED_CLUSTER, cluster, spec={"hubAcceptsClient": False})
    assert with_token.post(CLUSTERS, doc).code == 201
    assert with_token.post(REQUESTS, request_for(cluster, f"{cluster}-0")).code == 201
    services.accept_cluster(ROOT, cluster)
    make.settle()
    agent = Agent(cluster, f"{cluster}-0")
    assert agent.speaks() == 200
    return agent


def take(*steps: str, role: ca.AuthorityRole = CLIENT) -> None:
    """Certificates are told apart by seconds: what there was before a step was issued an hour before it."""
    for step in steps:
        IssuedCertificate.objects.update(not_before=F("not_before") - timedelta(hours=1))
        STEPS[step](ROOT, role)
        make.settle()


def left(role: ca.AuthorityRole = CLIENT) -> list[str]:
    return [each.name for each in ca_rotation.progress_of(role).left]


def done(role: ca.AuthorityRole = CLIENT) -> int:
    return ca_rotation.progress_of(role).done


def is_of_signer(agent: Agent) -> bool:
    return ca.client_authority(settings.OCMCONSOLE_HOME).has_signed(agent.pem)


def bundle() -> bytes:
    """By what new agents will know the hub."""
    text: bytes = (settings.OCMCONSOLE_HOME / "ca.crt").read_bytes()
    return text


def trusted_by(kubeconfig: str) -> bytes:
    return base64.b64decode(yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["certificate-authority-data"])


def data_of(namespace: str, name: str) -> dict[str, str]:
    doc = verbs.find(CONFIG_MAP, Key(namespace, name))
    assert doc is not None
    data: dict[str, str] = doc["data"]
    return data


def status() -> str:
    out = StringIO()
    call_command("ca", "status", stdout=out)
    return out.getvalue()


# ---------------------------------------------------------------- clients


def test_clients_renew_under_the_new_ca_by_themselves_and_the_old_one_goes_when_nobody_is_left() -> None:
    early, late = join("early"), join("late")
    take("rotate")
    assert [early.speaks(), late.speaks()] == [200, 200]
    renewed = early.renews()
    assert is_of_signer(renewed)
    assert left() == ["early", "late"]  # it was issued, and nobody has seen it
    assert [each.has_new for each in ca_rotation.progress_of(CLIENT).left] == [True, False]
    assert renewed.speaks() == 200
    assert (done(), left()) == (1, ["late"])
    with pytest.raises(errors.Conflict, match=r"^1 would lose the hub: .*: late\. Nothing is changed\.$"):
        take("retire")
    again = late.renews()
    assert again.speaks() == 200
    take("retire")
    assert [renewed.speaks(), again.speaks()] == [200, 200]
    assert [early.speaks(), late.speaks()] == [401, 401]
    assert not UnknownCertificate.objects.exists()  # who comes too late is no incident (D26)
    assert ClusterFacts.objects.get(cluster="late").certificate_revoked_at is None


def test_clusters_join_and_renew_in_every_phase() -> None:
    agents = [join("steady")]
    for number, step in enumerate(("rotate", "back", "rotate", "retire")):
        agents = [agent.renews() for agent in agents]
        assert [agent.speaks() for agent in agents] == [200] * len(agents)
        take(step)
        agents.append(join(f"after-{number}-{step}"))
        assert is_of_signer(agents[-1])
        assert [agent.speaks() for agent in agents] == [200] * len(agents)


def test_a_rotation_that_is_rolled_back_ends_with_the_old_ca_and_what_the_new_one_signed_is_renewed_first() -> None:
    agent = join("edge")
    old = ca.client_authority(settings.OCMCONSOLE_HOME).certificate
    take("rotate")
    renewed = agent.renews()
    renewed.speaks()
    assert (done(), left()) == (1, [])
    take("back")
    assert renewed.speaks() == 200
    # Its first certificate is of the CA that signs again and valid, but it does not have that any more.
    assert (done(), left()) == (0, ["edge"])
    back = renewed.renews()
    assert left() == ["edge"]
    assert back.speaks() == 200
    take("retire")
    assert (back.speaks(), renewed.speaks()) == (200, 401)
    assert ca.client_authority(settings.OCMCONSOLE_HOME).certificate == old


def test_who_is_left_at_a_forced_retirement_loses_the_hub_and_its_page_says_so() -> None:
    agent = join("edge")
    take("rotate")
    agent.speaks()
    ca_rotation.retire(ROOT, CLIENT, force=True)
    assert agent.speaks() == 401
    facts = ClusterFacts.objects.get(cluster="edge")
    assert (facts.certificate_revocation_reason, facts.certificate_revoked_by) == (ca_rotation.RETIRED, "root")
    assert AuditEvent.objects.get(act="ca:retire").reason.endswith("certificates revoked")


def test_a_server_that_remembers_an_agent_asks_again_after_each_step() -> None:
    """The lease path honours what the register lists, and looks again when rights have changed."""
    agent = join("edge")
    fingerprint = ca.parse_certificate(agent.pem).fingerprint
    assert certificate_register.honoured([fingerprint])
    IssuedCertificate.objects.filter(pk=fingerprint).update(authority="")  # from before hubs noted it
    assert not certificate_register.honoured([fingerprint])
    agent.speaks()
    assert certificate_register.honoured([fingerprint])
    take("rotate")
    assert certificate_register.honoured([fingerprint])
    ca_rotation.retire(ROOT, CLIENT, force=True)
    assert not certificate_register.honoured([fingerprint])


def test_people_are_named_removed_clusters_are_counted_and_revoked_ones_are_not() -> None:
    gone = join("gone")
    kubeconfigs.of_user(ROOT, "li", groups=(), lifetime=timedelta(days=1))
    services.revoke_all(ROOT, join("sent-away").cluster, reason="sold")
    take("rotate")
    gone.speaks()
    verbs.delete(ROOT, MANAGED_CLUSTER, Key("", "gone"))
    make.settle()
    found = ca_rotation.progress_of(CLIENT)
    assert [(each.name, each.is_cluster) for each in found.left] == [("li", False)]
    assert found.removed == 1


def test_a_certificate_that_somebody_signs_with_the_old_key_is_an_incident_during_a_rotation() -> None:
    old = ca.client_authority(settings.OCMCONSOLE_HOME)
    take("rotate")
    chain, _ = old.issue_client("root", ("system:masters",), timedelta(hours=1), timezone.now())
    der = x509.load_pem_x509_certificate(chain).public_bytes(Encoding.DER)
    assert Caller({"ocmconsole.peer_certificate": der}).get(CLUSTERS).code == 401
    assert UnknownCertificate.objects.get().common_name == "root"


# ---------------------------------------------------------------- serving


def test_agents_that_are_given_both_cas_are_counted_apart_from_those_that_renewed() -> None:
    before = join("before")
    take("rotate", role=SERVING)
    BootstrapToken.objects.update(created=timezone.now() - timedelta(hours=1))
    assert before.speaks() == 200
    assert (done(SERVING), left(SERVING)) == (0, ["before"])
    before.renews().speaks()
    assert (done(SERVING), left(SERVING)) == (0, ["before"])  # a renewal brings no CA
    tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1), cluster="before")
    assert left(SERVING) == ["before"]  # minted is not redeemed
    join("after")
    newest = BootstrapToken.objects.filter(brought__cluster="after")
    newest.update(created=timezone.now() + timedelta(seconds=1))  # the same second is not counted
    assert (done(SERVING), left(SERVING)) == (1, ["before"])
    with pytest.raises(errors.Conflict, match=r"^1 were not given the new CA, and would lose the hub: before\."):
        ca_rotation.retire(ROOT, SERVING)
    take("back", role=SERVING)
    assert left(SERVING) == []
    take("retire", role=SERVING)


def test_the_bundle_with_both_cas_is_published_wherever_the_hub_says_how_it_is_known() -> None:
    make.namespace("team")
    make.settle()
    old = bundle()
    take("rotate", role=SERVING)
    both = bundle()
    assert both.endswith(old)
    assert both != old
    assert (
        data_of("team", "kube-root-ca.crt") == data_of("kube-public", "kube-root-ca.crt") == {"ca.crt": both.decode()}
    )
    assert trusted_by(data_of("kube-public", "cluster-info")["kubeconfig"]) == both
    assert trusted_by(kubeconfigs.of_agent("a.b")) == both
    assert trusted_by((settings.OCMCONSOLE_HOME / "admin.kubeconfig").read_text()) == both


def test_what_a_killed_command_has_not_published_the_next_server_publishes() -> None:
    ca.rotate(settings.OCMCONSOLE_HOME, SERVING, note=lambda _: None)
    assert not ca.is_served(settings.OCMCONSOLE_HOME, hub_setup.serving_names())
    hub_setup.keep_serving_certificate()  # as each server does every five seconds
    hub_setup.keep_published()
    make.settle()
    assert ca.is_served(settings.OCMCONSOLE_HOME, hub_setup.serving_names())
    assert data_of("kube-system", "kube-root-ca.crt") == {"ca.crt": bundle().decode()}
    writes = make.writes_of(hub_setup.keep_published)
    assert writes == []


# ---------------------------------------------------------------- the command


def test_status_says_who_signs_who_is_left_and_what_to_do() -> None:
    hub_setup.ensure_hub()
    assert status().startswith("CA of clients: steady\n  signs    ocmconsole hub ")
    join("edge")
    take("rotate")
    text = status()
    assert "CA of clients: rotating\n" in text
    assert (
        "  clusters seen with a certificate of the CA that signs: 0; left: 1\n    cluster edge, certificate ends "
        in text
    )
    assert "ca rotate client --back rolls back" in text
    assert "CA of serving: steady\n" in text
    take("back")
    assert "ca rotate client goes on" in status()


@pytest.mark.parametrize("step", ["rotate", "retire"])
def test_after_a_step_of_serving_a_proxy_needs_the_ca_that_it_checks_servers_with_too(step: str) -> None:
    hub_setup.ensure_hub()
    if step == "retire":
        take("rotate", role=SERVING)
    said = StringIO()
    call_command("ca", step, "serving", stdout=said)
    assert "copy serving.crt, serving.key and ca.crt of the home to it, and reload it" in said.getvalue()


@pytest.mark.parametrize("role", [CLIENT, SERVING])
def test_a_second_rotation_is_one_sentence_and_changes_nothing(role: ca.AuthorityRole) -> None:
    hub_setup.ensure_hub()
    call_command("ca", "rotate", role.value, stdout=StringIO())
    before = {path.name: path.read_bytes() for path in Path(settings.OCMCONSOLE_HOME).iterdir()}
    entries = AuditEvent.objects.count()
    with pytest.raises(CommandError, match=f"^the {role} CA is being rotated already, since .*; nothing is changed.$"):
        call_command("ca", "rotate", role.value, stdout=StringIO())
    assert {path.name: path.read_bytes() for path in Path(settings.OCMCONSOLE_HOME).iterdir()} == before
    assert AuditEvent.objects.count() == entries


def test_a_home_that_cannot_be_written_is_one_sentence_and_nothing_is_changed() -> None:
    hub_setup.ensure_hub()
    before = ca.phase_of(ca.client_authority(settings.OCMCONSOLE_HOME))
    (settings.OCMCONSOLE_HOME / "client-ca.key").mkdir()  # the tests run as root, whom no mode keeps out
    with pytest.raises(CommandError, match=r"^the home cannot be written \(.*\): make room"):
        call_command("ca", "rotate", "client", stdout=StringIO())
    assert ca.phase_of(ca.client_authority(settings.OCMCONSOLE_HOME)) == before
    assert not AuditEvent.objects.filter(act="ca:rotate").exists()


@pytest.mark.contract("D11")
def test_each_step_is_in_the_audit_with_the_keys_that_sign_and_are_trusted() -> None:
    take("rotate", "back", "rotate", "retire")
    entries = AuditEvent.objects.filter(act__startswith="ca:").order_by("pk")
    assert [(each.act, each.user, each.name) for each in entries] == [
        (act, "root", "client") for act in ("ca:rotate", "ca:back", "ca:rotate", "ca:retire")
    ]
    first, *_, last = entries
    assert [change["path"] for change in first.diff] == ["signs", "trusted"]
    assert [change["path"] for change in last.diff] == ["trusted"]


@pytest.mark.parametrize("step", STEPS.values())
def test_only_an_admin_may(step: Any) -> None:
    with pytest.raises(errors.Forbidden):
        step(person("ana"), CLIENT)
