"""D19: one line of keys at a time. What an old certificate opens after another key was accepted, or after a removal."""

from __future__ import annotations

import base64
import importlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from django.apps import apps
from django.core.management import call_command
from django.utils import timezone

from clusters import services as cluster_services
from clusters.kinds import ACCEPT_KEY, MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import sending_away, services
from registration.evidence import assessment
from registration.keys import key_history, key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, IssuedCertificate, KeyLine
from registration.pki import agent_names, ca
from tests import factories as make
from tests import requests
from tests.actors import ROOT
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import Api, Browser
from tests.factories import ADMIN
from tests.security.callers import CLUSTERS, REQUESTS, Caller

pytestmark = [pytest.mark.usefixtures("fresh_hub"), pytest.mark.contract("D19")]

WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/edge/manifestworks"
WHY = "Its administrator read the fingerprint out to me."


@dataclass(frozen=True)
class Agent:
    """What an agent holds after it was let in: a certificate, and the request that brought it."""

    request: str
    caller: Caller

    @property
    def issued(self) -> IssuedCertificate:
        return IssuedCertificate.objects.get(pk=ca.parse_certificate(_pem(self.request)).fingerprint)

    def may_read(self) -> int:
        return self.caller.get(f"{CLUSTERS}/edge").code

    def asks(self, name: str, pem: bytes | None = None, **labels: str) -> str:
        """Posts a request with its certificate, for a renewal unless another is given. Returns its state."""
        doc = requests.document(name, pem or requests.agent_pem("edge"), cluster="edge")
        doc["metadata"]["labels"].update(labels)
        assert self.caller.post(REQUESTS, doc).code == 201
        make.settle()
        return requests.state(name)


def _pem(request: str) -> bytes:
    return base64.b64decode(requests.row(request).doc["status"]["certificate"])


def held(request: str) -> Agent:
    der = x509.load_pem_x509_certificate(_pem(request)).public_bytes(serialization.Encoding.DER)
    return Agent(request, Caller({"ocmconsole.peer_certificate": der}))


def ask(request: str) -> str:
    """With the bootstrap token and a new key, whose fingerprint is returned."""
    requests.ask(request, requests.agent_pem("edge"), cluster="edge")
    return str(requests.row(request).key_fingerprint)


def join() -> Agent:
    make.cluster("edge")
    ask("first")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    return held("first")


def renewed(agent: Agent, name: str) -> Agent:
    assert agent.asks(name) == "Issued"
    return held(name)


def override(request: str = "second") -> Agent:
    key = ask(request)
    services.accept_cluster(ROOT, "edge", override=services.Override(key, WHY))
    make.settle()
    return held(request)


def remove() -> None:
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "edge"))
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, Key("", "edge")) is None


def is_shut_out(agent: Agent) -> bool:
    return agent.may_read() == 401 and agent.caller.post(REQUESTS, {}).code == 401


# ---------------------------------------------------------------- another key is accepted


@pytest.mark.contract("D9")
@pytest.mark.parametrize("is_removed", [True, False], ids=["re-created", "re-keyed"])
@pytest.mark.parametrize("renewals", [0, 2])
def test_a_key_that_is_accepted_outside_the_line_revokes_every_certificate_of_it(
    is_removed: bool, renewals: int
) -> None:
    old = [join()]
    for number in range(renewals):
        old.append(renewed(old[-1], f"renewal-{number}"))
    if is_removed:
        remove()
        make.cluster("edge")
    new = override()
    assert all(is_shut_out(agent) for agent in old)
    assert new.may_read() == 200
    assert renewed(new, "third").may_read() == 200
    assert {agent.issued.revocation_reason for agent in old} == {key_lines.REPLACED}
    told = AuditEvent.objects.filter(act="certificate:revoke", name="edge", user=ROOT.user)
    assert {each.reason for each in told} == {
        f"{agent.issued.common_name} {agent.issued.pk}: {key_lines.REPLACED}" for agent in old
    }


def test_they_are_revoked_in_the_transaction_of_the_override() -> None:
    """Nothing of it happens when the approval is refused, and no commit lies between the two."""
    old, key = join(), ask("second")
    stale = services.SeenVersions("1", {})
    with pytest.raises(errors.Conflict):
        services.accept_cluster(ROOT, "edge", override=services.Override(key, WHY), seen=stale)
    assert old.may_read() == 200
    services.accept_cluster(ROOT, "edge", override=services.Override(key, WHY))
    assert requests.state("second") == "Approved"  # nobody has signed it yet
    assert is_shut_out(old)
    assert AuditEvent.objects.get(act="certificate:revoke").request_id == (
        AuditEvent.objects.get(act="certificatesigningrequest:approve", name="second").request_id
    )


@pytest.mark.contract("D9", "D15")
@pytest.mark.parametrize("way", ["page", "command", "kubectl approve", "setting"])
def test_so_does_every_way_to_accept_another_key(way: str, settings: Any) -> None:
    from django.contrib.auth import get_user_model

    old, key = join(), ask("second")
    waiting = Waiting("edge", "second")
    root = get_user_model().objects.create_superuser("rita")
    if way == "page":
        browser = Browser(root)
        form = browser.open("/approvals/edge/").form("/approvals/edge/override/")
        assert "Every certificate of its other keys is revoked" in browser.open("/approvals/edge/").text
        browser.send(form, accept_key=key, typed="edge", reason=WHY)
    elif way == "command":
        call_command("accept", "edge", "--accept-key", key, "--reason", WHY, "--as", "rita")
    elif way == "setting":
        settings.OCMCONSOLE_ALLOW_REKEY = True
        services.accept_cluster(ROOT, "edge")
    else:
        Api().patch(root, waiting, {"metadata": {"annotations": {ACCEPT_KEY: key}}})
        assert old.may_read() == 200  # a word alone changes nothing yet
        Api().decide(root, "second", "Approved")
    make.settle()
    assert is_shut_out(old)
    assert held("second").may_read() == 200


def test_what_is_signed_after_its_line_has_ended_is_worth_nothing(settings: Any) -> None:
    """Approved before the override, signed by somebody else after it."""
    settings.OCMCONSOLE_CSR_SIGNER = "external"
    make.cluster("edge")
    ask("first")
    services.accept_cluster(ROOT, "edge")
    ask("second")
    services.accept_cluster(ROOT, "edge", override=services.Override(requests.row("second").key_fingerprint, WHY))
    for name in ("first", "second"):
        _sign(name)
    make.settle()
    assert is_shut_out(held("first"))
    assert held("second").may_read() == 200
    assert ClusterFacts.objects.get(cluster="edge").certificate_fingerprint == held("second").issued.pk


def _sign(name: str) -> None:
    from datetime import UTC, datetime

    from django.conf import settings

    from registration.kinds import request_pem

    doc = requests.row(name).doc
    chain = ca.client_authority(settings.OCMCONSOLE_HOME).sign_client(
        request_pem(doc), usages=requests.USAGES, lifetime=timedelta(hours=1), now=datetime.now(UTC)
    )
    encoded = base64.b64encode(chain).decode()
    make.edit(CSR, name, lambda new: new["status"].update(certificate=encoded), subresource="status")


def test_the_hubs_own_signer_does_not_sign_it_and_says_why() -> None:
    make.cluster("edge")
    ask("first")
    services.accept_cluster(ROOT, "edge")
    key = ask("second")
    services.accept_cluster(ROOT, "edge", override=services.Override(key, WHY))
    make.settle()
    assert (requests.state("first"), requests.state("second")) == ("Failed", "Issued")
    condition = requests.row("first").doc["status"]["conditions"][-1]
    assert condition["message"].endswith(f"were revoked: {key_lines.REPLACED}")


def test_what_the_old_agent_asked_for_goes_with_its_line() -> None:
    """Certificates of its add-ons, and those whose subject names the cluster's group in another way."""
    old = join()
    addon = "system:open-cluster-management:cluster:edge:addon:a"
    label = {agent_names.ADDON_LABEL: "a"}
    old.asks("addon", requests.pem(f"{addon}:agent:a", [addon]), **label)
    old.asks("again", requests.pem(f"{addon}:agent:a", [addon]), **label)
    requests.ask("sideways", requests.pem("somebody", [agent_names.group_of("edge")], key=None), cluster="")
    given = key_history.KeyOverride("edge", requests.row("sideways").key_fingerprint, WHY)
    _approve("addon")
    make.settle()
    assert {each.pk for each in key_lines.certificates_of("edge", timezone.now())} == {
        old.issued.pk, held("addon").issued.pk
    }  # fmt: skip
    _approve("sideways", given)
    make.settle()
    _approve("again")
    make.settle()
    assert is_shut_out(old)
    assert is_shut_out(held("addon"))
    assert requests.state("again") == "Failed"
    assert held("sideways").may_read() == 200
    override()
    assert is_shut_out(held("sideways"))


def _approve(name: str, given: key_history.KeyOverride | None = None) -> None:
    approved = {"type": "Approved", "status": "True", "reason": "ok", "message": ""}
    verbs.edit(
        ADMIN,
        CSR,
        Key("", name),
        lambda doc: doc.setdefault("status", {}).update(conditions=[approved]),
        subresource="approval",
        options=verbs.Options(given=given),
    )


def test_another_cluster_with_the_same_key_keeps_its_certificates() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    for name in ("edge", "twin"):
        make.cluster(name)
        group = agent_names.group_of(name)
        requests.ask(name, requests.pem(f"{group}:agent", [group], key=key), cluster=name)
        services.accept_cluster(ROOT, name)
    make.settle()
    override()
    assert is_shut_out(held("edge"))
    assert held("twin").caller.get(f"{CLUSTERS}/twin").code == 200


def test_a_key_of_an_ended_line_comes_back_only_with_an_override_which_begins_a_new_line() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key, group = ec.generate_private_key(ec.SECP256R1()), agent_names.group_of("edge")
    pem = requests.pem(f"{group}:agent", [group], key=key)
    make.cluster("edge")
    requests.ask("first", pem, cluster="edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    IssuedCertificate.objects.all().delete()  # it has expired and was forgotten, only its line tells
    new = override()
    requests.ask("back", pem, cluster="edge")
    assert assessment.evidence_of("edge").verdict is assessment.Verdict.BLOCKED
    with pytest.raises(errors.Forbidden, match="known under other keys"):
        services.accept_cluster(ROOT, "edge")
    services.accept_cluster(ROOT, "edge", override=services.Override(requests.row("back").key_fingerprint, WHY))
    make.settle()
    assert is_shut_out(new)
    assert held("back").may_read() == 200
    assert KeyLine.objects.filter(cluster="edge", ended_at=None).count() == 1
    assert KeyLine.objects.count() == 3


# ---------------------------------------------------------------- the same line


def test_a_renewal_extends_the_line_of_the_certificate_that_asks() -> None:
    agent = join()
    third = renewed(renewed(agent, "a"), "b")
    line = KeyLine.objects.get()
    assert set(line.keys.values_list("request", "how")) == {
        ("first", "accept"), ("a", "renewal"), ("b", "renewal")
    }  # fmt: skip
    assert set(line.certificates.all()) == set(IssuedCertificate.objects.filter(cluster="edge"))
    assert (agent.may_read(), third.may_read()) == (200, 200)


def test_an_accidental_delete_and_re_create_needs_no_hands_on_the_cluster() -> None:
    agent = renewed(join(), "a")
    remove()
    assert agent.may_read() == 403
    make.cluster("edge")
    make.settle()
    assert agent.may_read() == 403
    services.accept_cluster(ROOT, "edge")
    make.settle()
    assert agent.may_read() == 200
    assert renewed(agent, "b").may_read() == 200
    assert KeyLine.objects.count() == 1


# ---------------------------------------------------------------- revoked with the removal


def remove_on_page(revoke: bool) -> str:
    from django.contrib.auth import get_user_model

    browser = Browser(get_user_model().objects.create_superuser("rita"))
    form = browser.open("/clusters/edge/remove/").form("/clusters/edge/remove/")
    if not revoke:
        form.fields.pop("revoke")
    browser.send(form, typed="edge")
    make.settle()
    return form.fields.get("revoke", "")


def test_the_removal_page_asks_ticked_whether_certificates_are_revoked_too() -> None:
    from django.contrib.auth import get_user_model

    agent = join()
    text = Browser(get_user_model().objects.create_superuser("zoe")).open("/clusters/edge/remove/").text
    assert "Also revoke its certificates now" in text
    assert remove_on_page(revoke=True)
    assert is_shut_out(agent)
    make.cluster("edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    assert is_shut_out(agent)
    assert KeyLine.objects.get().ended_by == "rita"


def test_unticked_they_stay_without_rights_and_open_the_name_again_when_it_is_accepted_again() -> None:
    agent = join()
    remove_on_page(revoke=False)
    assert agent.may_read() == 403
    make.cluster("edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    assert agent.may_read() == 200


def test_who_may_delete_and_not_accept_is_not_asked_and_revokes_nothing() -> None:
    from clusters.kinds import GROUP
    from tests.actors import grant, person, rule

    agent = join()
    raj = person("raj")
    grant(raj, rule("delete", "managedclusters", groups=GROUP))
    with pytest.raises(errors.Forbidden):
        cluster_services.remove_cluster(raj, "edge", revoke=True)
    assert agent.may_read() == 200
    cluster_services.remove_cluster(raj, "edge")
    assert agent.issued.revoked_at is None


@pytest.mark.contract("K29")
@pytest.mark.parametrize("is_gone", [False, True])
def test_detach_revoke_revokes_them_at_the_command_line(is_gone: bool, capsys: pytest.CaptureFixture[str]) -> None:
    from django.contrib.auth import get_user_model

    get_user_model().objects.get_or_create(username="admin", defaults={"is_superuser": True})
    agent = renewed(join(), "a")
    if is_gone:
        remove()
    else:
        make.addon("edge", "held", finalizers=["example.com/hold"])
        verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "edge"))
    capsys.readouterr()
    call_command("detach", "edge", "--reason", "it burned down", "--revoke")
    told = capsys.readouterr().out
    assert told.endswith("; 2 certificates revoked\n")
    assert ("abandoned" in told) is not is_gone
    assert is_shut_out(agent)


def test_disconnect_and_revoke_ends_the_line() -> None:
    agent = join()
    assert len(sending_away.send_away(ROOT, "edge", revoke=True)) == 1
    assert is_shut_out(agent)
    assert key_lines.open_line("edge") is None
    ask("again")
    assert key_history.is_unknown_key("edge", requests.row("again").key_fingerprint)


# ---------------------------------------------------------------- an existing database


def test_an_upgrade_puts_keys_into_lines_and_ends_those_that_an_override_had_left() -> None:
    first = renewed(join(), "renewal")
    second = renewed(override(), "later")
    _as_before_lines()
    assert renewed(first, "theft").may_read() == 200  # as it was
    _as_before_lines()
    _upgrade()
    assert all(is_shut_out(held(name)) for name in ("first", "renewal", "theft"))
    assert (held("second").may_read(), second.may_read()) == (200, 200)
    now_open = KeyLine.objects.get(ended_at=None)
    assert set(now_open.keys.values_list("request", flat=True)) == {"second", "later"}
    assert set(now_open.certificates.values_list("request", flat=True)) == {"second", "later"}
    assert renewed(second, "after").may_read() == 200
    ended = KeyLine.objects.get(ended_at__isnull=False)
    assert set(ended.keys.values_list("request", flat=True)) == {"first", "renewal", "theft"}


def test_an_upgrade_leaves_the_agent_whose_rival_was_revoked() -> None:
    """Accepted by mistake, and taken back by hand: the older line is the one that counts."""
    first = join()
    rival = override()
    _as_before_lines()
    services.revoke_certificate(ROOT, rival.issued.pk, reason="a mistake")
    _as_before_lines(keep=rival.issued.pk)
    _upgrade()
    assert first.may_read() == 200
    assert is_shut_out(rival)


def test_an_upgrade_without_an_audit_takes_no_hub_from_an_agent() -> None:
    agent = renewed(renewed(join(), "a"), "b")
    _as_before_lines()
    AuditEvent.objects.all()._raw_delete("default")
    _upgrade()
    assert agent.may_read() == 200
    assert KeyLine.objects.get().keys.count() == 3


def test_an_upgrade_opens_no_line_whose_certificates_are_all_revoked() -> None:
    agents = [join(), override()]
    pks = [agent.issued.pk for agent in agents]
    _as_before_lines()
    IssuedCertificate.objects.filter(pk__in=pks).update(revoked_at=timezone.now(), revocation_reason="stolen")
    _upgrade()
    assert key_lines.open_line("edge") is None
    assert set(KeyLine.objects.values_list("end_reason", flat=True)) == {
        "All its certificates were revoked; found by the upgrade."
    }
    edge = IssuedCertificate.objects.filter(cluster="edge")
    assert set(edge.values_list("revocation_reason", flat=True)) == {"stolen"}
    assert all(is_shut_out(agent) for agent in agents)


def test_an_upgrade_reads_twice_as_many_keys_with_twice_as_many_steps() -> None:
    """Counted, not timed: how often a fingerprint is read for each renewal of one cluster."""
    module = importlib.import_module("registration.migrations.0007_lines_of_keys")
    reads = 0

    class Counted:
        how, cluster = "renewal", "edge"

        def __init__(self, number: int) -> None:
            self.request = self.request_uid = f"request-{number}"
            self._fingerprint = f"key-{number}"

        @property
        def fingerprint(self) -> str:
            nonlocal reads
            reads += 1
            return self._fingerprint

        key_fingerprint = fingerprint

    def steps(count: int) -> int:
        nonlocal reads
        reads = 0
        rows = [Counted(number) for number in range(count)]
        asked = {f"request-{number + 1}": f"key-{number}" for number in range(count - 1)}
        groups = module._groups(rows, rows, asked, {f"key-{number}": row for number, row in enumerate(rows)})
        assert [(len(group.keys), len(group.certificates)) for group in groups] == [(count, count)]
        return reads

    assert steps(80) <= 2 * steps(40) + 4


def _as_before_lines(keep: str = "") -> None:
    """What the hub of the version before would have stored."""
    AcceptedKey.objects.update(line=None)
    IssuedCertificate.lines.through.objects.all().delete()
    KeyLine.objects.all().delete()
    IssuedCertificate.objects.exclude(pk=keep).update(revoked_at=None, revoked_by="", revocation_reason="")


def _upgrade() -> None:
    module = importlib.import_module("registration.migrations.0007_lines_of_keys")
    module.put_into_lines(apps, None)
