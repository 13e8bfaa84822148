"""Adding a cluster: what is asked once is carried along, what is secret is shown once, and each step tells its time."""

from __future__ import annotations

import html
import re
import shlex
import shutil
import ssl
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from cryptography import x509
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL
from ocmconsole.core.models import BootstrapToken
from ocmconsole.embedded import Presence
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit
from ocmconsole.server import tls
from registration import hub_setup, join_guide
from registration.models import ApprovalPolicy, HubAddress
from registration.pki import ca
from tests import factories as make
from tests import requests
from tests.pages.joining import hub, page, person

pytestmark = pytest.mark.django_db

ADDING = ("add_bootstraptoken", "view_managedcluster", "change_managedcluster", "accept_managedcluster")
TERMS = {"lifetime": "1h", "uses": "1", "bind": "on", "addresses": ""}


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)


def step_two(client: Any, **more: str) -> Any:
    return client.post("/clusters/add/", {"name": "eu-1", "set": "", "labels": "", **more})


def mint(client: Any, query: str = "name=eu-1", **more: str) -> Any:
    return client.post(f"/clusters/add/token/?{query}", TERMS | {"once": str(uuid.uuid4())} | more)


def secret_of(answer: Any) -> str:
    found = re.search(r"[a-z0-9]{6}\.[a-z0-9]{16}", page(answer))
    assert found
    return found[0]


def bearer(token: BootstrapToken) -> Actor:
    return replace(requests.BOOTSTRAP, user=f"system:bootstrap:{token.pk}", credential=f"bootstrap:{token.pk}")


# ---------------------------------------------------------------- name and place


def test_what_was_entered_is_carried_and_never_asked_again() -> None:
    make.clusterset("web")
    ana = person("ana", *ADDING, "join_managedclusterset", "view_managedclusterset")
    answer = step_two(ana, set="web", labels="env=prod\nteam=pay")
    assert answer.status_code == 302
    text = page(ana.get(answer["Location"]))
    for shown in ("Add eu-1", "<b>web</b>", "env=prod", "team=pay"):
        assert shown in text
    back = re.search(r'href="(/clusters/add/\?[^"]+)"', text)
    assert back
    again = page(ana.get(back[1].replace("&amp;", "&")))
    assert 'value="eu-1"' in again
    assert "env=prod" in again


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", "Not_A_Name", "cannot name a namespace"),
        ("name", "kube-system", "means something else"),
        ("name", "taken", "on the hub already"),
        ("labels", "bad key=1", "must consist of"),
        ("labels", f"{CLUSTERSET_LABEL}=web", "choose the set"),
        ("set", "elsewhere", "valid choice"),
    ],
)
def test_a_name_or_place_that_cannot_be_is_said_beside_its_field(field: str, value: str, told: str) -> None:
    make.cluster("taken")
    answer = step_two(person("ana", *ADDING), **{field: value})
    assert answer.status_code == 400
    assert told in page(answer)


@pytest.mark.contract("D16")
def test_a_name_that_the_person_may_not_see_is_not_given_away() -> None:
    make.cluster("secret")
    ana = person("ana", "add_bootstraptoken")
    assert step_two(ana, name="secret").status_code == 302
    assert "remembers" not in page(ana.get("/clusters/add/token/?name=secret"))


@pytest.mark.contract("A6")
def test_only_sets_that_the_person_may_join_are_offered() -> None:
    make.clusterset("web")
    make.clusterset("pay")
    raj = person("raj", *ADDING, "view_managedclusterset")
    assert ">web<" not in page(raj.get("/clusters/add/"))
    assert ">web<" in page(person("root").get("/clusters/add/"))


# ---------------------------------------------------------------- token and run


@pytest.mark.contract("K4")
def test_the_token_is_for_that_name_and_shown_once() -> None:
    ana = person("ana", *ADDING)
    answer = mint(ana, "name=eu-1&labels=env%3Dprod")
    token = BootstrapToken.objects.get()
    assert (token.cluster, token.max_uses, token.labels) == ("eu-1", 1, {"env": "prod"})
    assert f"clusteradm join --hub-token {secret_of(answer)}" in page(answer)
    assert "no-store" in answer["Cache-Control"]
    assert "certificate names this address" in page(answer)


def test_the_equivalent_command_mints_a_token_with_the_same_terms(capsys: pytest.CaptureFixture[str]) -> None:
    make.clusterset("web")
    root = person("root")
    query = "name=eu-1&set=web&labels=env%3Dprod%2Cteam%3Dpay"
    refused = mint(root, query, lifetime="8h", uses="3", addresses="10.3.0.0/16, 10.4.0.0/16")
    assert refused.status_code == 400  # so that the form is shown again, with what was typed
    shown = re.search(r"bootstrap_token create [^<]*", html.unescape(commands_of(refused)))
    assert shown
    words = shlex.split(shown[0])
    call_command(*words[:2], *["1" if word == "3" else word for word in words[2:]])
    token = BootstrapToken.objects.get()
    assert token.pk in capsys.readouterr().out
    mint(root, query, lifetime="8h", addresses="10.3.0.0/16, 10.4.0.0/16")
    other = BootstrapToken.objects.exclude(pk=token.pk).get()
    for column in ("name", "cluster", "max_uses", "addresses", "clusterset", "labels", "created_by"):
        assert getattr(token, column) == getattr(other, column), column
    assert token.expires - token.created == other.expires - other.created


def test_a_label_without_a_value_mints_nothing() -> None:
    person("root")
    with pytest.raises(CommandError, match="--label must be KEY=VALUE, not 'env'"):
        call_command("bootstrap_token", "create", "--as", "root", "--label", "env")
    assert not BootstrapToken.objects.exists()


def commands_of(answer: Any) -> str:
    """The text of the commands on a page."""
    return " ".join(re.findall(r'data-copy="([^"]*)"', page(answer)))


def test_a_hub_without_a_default_set_promises_none(settings: Any) -> None:
    root = person("root")
    assert "s default set. <a" in page(root.get("/clusters/add/token/?name=eu-1"))
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "DefaultClusterSet": False}
    assert "It joins no set" in page(root.get("/clusters/add/token/?name=eu-1"))
    assert "default set" not in page(root.get("/clusters/add/"))


def test_a_form_that_is_sent_twice_mints_one_token() -> None:
    ana = person("ana", *ADDING)
    once = str(uuid.uuid4())
    mint(ana, once=once)
    again = mint(ana, once=once)
    assert BootstrapToken.objects.count() == 1
    assert again["Location"].startswith("/clusters/add/watch/")


def test_a_token_for_one_name_brings_one_cluster() -> None:
    answer = mint(person("ana", *ADDING), uses="3")
    assert answer.status_code == 400
    assert "brings one cluster" in page(answer)


def test_another_way_to_the_hub_changes_the_command_and_keeps_the_token() -> None:
    ana = person("ana", *ADDING)
    secret = secret_of(mint(ana))
    held = {"token": secret, "name": "eu-1", "way": "clusteradm", "proxy": "http://proxy.example:3128"}
    text = page(ana.post("/clusters/add/run/", held | {"server": "https://elsewhere.example:6443"}))
    assert f"--hub-token {secret} --hub-apiserver https://elsewhere.example:6443" in text
    assert "--proxy-url http://proxy.example:3128" in text
    assert "does not name elsewhere.example" in text
    bad = ana.post("/clusters/add/run/", held | {"server": "javascript:alert(1)"})
    assert bad.status_code == 400
    assert "--hub-apiserver https://hub.example:6443" in page(bad)


def test_kubeconfig_and_manifest_hold_the_token_and_the_way() -> None:
    ana = person("ana", *ADDING)
    secret = secret_of(mint(ana))
    held = {"token": secret, "name": "eu-1", "server": "https://hub.example:6443", "proxy": "http://proxy.example:3128"}
    config = yaml.safe_load(page(ana.post("/clusters/add/file/bootstrap.kubeconfig", held)))
    assert config["users"][0]["user"] == {"token": secret}
    assert config["clusters"][0]["cluster"]["proxy-url"] == "http://proxy.example:3128"
    docs = list(yaml.safe_load_all(page(ana.post("/clusters/add/file/klusterlet.yaml", held))))
    assert [doc["kind"] for doc in docs] == ["Namespace", "Secret", "Klusterlet"]
    assert docs[2]["spec"]["clusterName"] == "eu-1"
    assert ana.post("/clusters/add/file/else", held).status_code == 404


@pytest.mark.contract("K4")
def test_nobody_gets_a_page_for_a_secret_that_they_do_not_hold() -> None:
    ana, raj = person("ana", *ADDING), person("raj", *ADDING)
    secret = secret_of(mint(ana))
    held = {"token": secret, "name": "eu-1", "server": "https://hub.example:6443"}
    assert raj.post("/clusters/add/run/", held).status_code == 404
    assert ana.post("/clusters/add/run/", held | {"token": f"{secret[:7]}{'0' * 16}"}).status_code == 404
    assert ana.post("/clusters/add/run/", held | {"token": "\x00"}).status_code == 404


@pytest.mark.contract("D2")
def test_without_the_right_to_mint_nothing_is_minted() -> None:
    li = person("li", "view_managedcluster")
    assert "corekinds.add_bootstraptoken" in page(li.get("/clusters/add/"))
    assert mint(li).status_code == 403
    assert not BootstrapToken.objects.exists()


# ---------------------------------------------------------------- accepted beforehand


@pytest.mark.contract("K9", "A6")
def test_exactly_this_token_and_name_are_accepted_as_the_person_who_asked() -> None:
    make.clusterset("web")
    ana = person("ana", *ADDING, "join_managedclusterset", "view_managedclusterset")
    mint(ana, "name=eu-1&set=web&labels=env%3Dprod", accept="on")
    token, policy = BootstrapToken.objects.get(), ApprovalPolicy.objects.get()
    assert (policy.tokens, policy.pattern, policy.max_accepts, policy.acts_as) == ([token.pk], "eu-1", 1, "ana")
    make.cluster("eu-1", by=bearer(token))
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1", by=bearer(token))
    make.settle()
    row = make.stored("eu-1")
    assert (row.hub_accepts_client, row.clusterset, row.labels["env"]) == (True, "web", "prod")


@pytest.mark.contract("K9", "D2")
def test_who_may_not_accept_cannot_promise_it() -> None:
    li = person("li", "add_bootstraptoken", "view_managedcluster")
    assert "clusters.accept_managedcluster" in page(li.get("/clusters/add/token/?name=eu-1"))
    mint(li, accept="on")
    assert not ApprovalPolicy.objects.exists()


# ---------------------------------------------------------------- watch


def watched(client: Any, token: BootstrapToken) -> list[str]:
    """The steps that are done, and the cause that the next one shows."""
    text = page(client.get(f"/clusters/add/watch/{token.pk}/?name=eu-1"))
    parts = text.split('<li id="step-')[1:]
    return ["done" if "is-done" in part else "next" if "is-next" in part else "later" for part in parts]


def test_each_step_is_seen() -> None:
    ana = person("ana", *ADDING)
    mint(ana)
    token = BootstrapToken.objects.get()
    assert watched(ana, token) == ["next", *["later"] * 5]
    make.cluster("eu-1", by=bearer(token))
    assert watched(ana, token) == ["done", "done", "next", *["later"] * 3]
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1", by=bearer(token))
    make.settle()
    text = page(ana.get(f"/clusters/add/watch/{token.pk}/"))
    assert watched(ana, token) == ["done"] * 3 + ["next"] + ["later"] * 2
    assert "Decide about eu-1" in text
    assert ana.post("/approvals/eu-1/accept/", _seen(ana)).status_code in {200, 302}
    make.settle()
    assert watched(ana, token)[:5] == ["done"] * 5
    make.available("eu-1")
    make.renew("eu-1")
    assert watched(ana, token) == ["done"] * 6
    assert "eu-1 has joined" in page(ana.get(f"/clusters/add/watch/{token.pk}/"))


def _seen(client: Any) -> dict[str, str]:
    """The hidden fields of the request's page."""
    text = page(client.get("/approvals/eu-1/"))
    return dict(re.findall(r'<input type="hidden" name="(cluster_rv|csr_rvs)" value="([^"]*)"', text))


def test_a_step_that_takes_long_says_what_is_likely_in_its_way() -> None:
    ana = person("ana", *ADDING)
    mint(ana)
    token = BootstrapToken.objects.get()
    BootstrapToken.objects.update(created=timezone.now() - timedelta(minutes=5))
    text = page(ana.get(f"/clusters/add/watch/{token.pk}/"))
    assert "No request with this token has reached the hub" in text
    assert "curl --cacert ca.crt https://hub.example:6443/healthz" in text
    assert 'href="/ca/ca.crt"' in text
    assert b"BEGIN CERTIFICATE" in ana.get("/ca/ca.crt").content
    audit.record_denial(bearer(token), Attributes("create", resource="managedclusters", name="eu-2"), "for eu-1 only")
    assert "refused: for eu-1 only" in page(ana.get(f"/clusters/add/watch/{token.pk}/"))


@pytest.mark.contract("D16")
def test_a_token_does_not_show_what_it_did_not_bring() -> None:
    make.cluster("secret")
    ana = person("ana", "add_bootstraptoken")
    mint(ana, "name=eu-1", bind="")
    token = BootstrapToken.objects.get()
    text = page(ana.get(f"/clusters/add/watch/{token.pk}/?name=secret"))
    assert "is-done" not in text.partition("oc-watch")[2]
    assert person("raj", *ADDING).get(f"/clusters/add/watch/{token.pk}/").status_code == 404


def test_rights_that_are_lost_meanwhile_are_shown() -> None:
    ana = person("ana", *ADDING)
    mint(ana, "name=eu-1&labels=env%3Dprod")
    token = BootstrapToken.objects.get()
    User.objects.get(username="ana").user_permissions.remove(Permission.objects.get(codename="change_managedcluster"))
    make.cluster("eu-1", by=bearer(token))
    make.settle()
    assert "Set and labels could not be set" in page(ana.get(f"/clusters/add/watch/{token.pk}/"))


# ---------------------------------------------------------------- the address


def root() -> Any:
    """An admin; the hub as a fresh clone serves it."""
    return person("root")


@pytest.fixture
def fresh(settings: Any) -> None:
    settings.OCMCONSOLE_API_URL = "https://127.0.0.1:6443"
    settings.OCMCONSOLE_API_ADDRESS = ("127.0.0.1", 6443)
    ca.ensure_authority(settings.OCMCONSOLE_HOME, hub_setup.serving_names())


def names_served(home: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate((home / "serving.crt").read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return found.get_values_for_type(x509.DNSName)


def test_before_a_token_is_minted_the_wizard_says_that_a_loopback_address_reaches_no_other_machine(
    fresh: None,
) -> None:
    admin = root()
    first, second = page(admin.get("/clusters/add/")), page(admin.get("/clusters/add/token/?name=eu-1"))
    for text in (first, second):
        assert "127.0.0.1 leads to the hub only from the hub&#x27;s own machine: no other machine reaches it." in text
        assert "set OCMCONSOLE_API_ADDRESS=0.0.0.0:6443 and start the hub again" in text
    assert 'name="server" value="https://127.0.0.1:6443"' in first
    assert "Change the address" in second
    assert not BootstrapToken.objects.exists()


def test_a_hub_that_other_machines_reach_is_not_warned_about(settings: Any) -> None:
    settings.OCMCONSOLE_API_ADDRESS = ("0.0.0.0", 6443)  # noqa: S104 - nothing is bound
    text = page(root().get("/clusters/add/token/?name=eu-1"))
    assert "oc-t-caution" not in text


def test_an_address_is_entered_once_and_goes_into_the_command(fresh: None) -> None:
    admin = root()
    answer = step_two(admin, server="https://hub.corp:7443")
    assert "server=https%3A%2F%2Fhub.corp%3A7443" in answer["Location"]
    assert "does not name hub.corp" in page(admin.get(answer["Location"]))
    text = page(mint(admin, answer["Location"].partition("?")[2]))
    assert "--hub-apiserver https://hub.corp:7443" in text
    assert "server=https%3A%2F%2Fhub.corp%3A7443" in text  # the last step's probe
    token = BootstrapToken.objects.get()
    BootstrapToken.objects.update(created=timezone.now() - timedelta(minutes=5))
    text = page(admin.get(f"/clusters/add/watch/{token.pk}/?name=eu-1&server=https%3A%2F%2Fhub.corp%3A7443"))
    assert "curl --cacert ca.crt https://hub.corp:7443/healthz" in text
    assert "curl --cacert ca.crt https://127.0.0.1:6443/healthz" in page(
        admin.get(f"/clusters/add/watch/{token.pk}/?name=eu-1&server=https%3A%2F%2Fx%60id%60")
    )


@pytest.mark.parametrize("server", ["http://hub.corp:6443", "https://", "https://hub.corp/$(id)", "hub.corp"])
def test_what_is_no_address_is_refused_beside_its_field(fresh: None, server: str) -> None:
    answer = step_two(root(), server=server)
    assert answer.status_code == 400
    assert "This is not an address such as https://hub.example:6443" in page(answer)


def test_an_admin_adds_the_name_to_the_certificate_and_new_connections_get_it(fresh: None, settings: Any) -> None:
    admin = root()
    served = tls.Context(settings.OCMCONSOLE_HOME / "serving.crt", settings.OCMCONSOLE_HOME / "serving.key")
    before = served._context
    where = "?name=eu-1&server=https%3A%2F%2Fhub.corp%3A7443"
    assert "Add hub.corp to the hub" in page(admin.get(f"/clusters/add/token/{where}"))
    answer = admin.post(f"/clusters/add/address/{where}", follow=True)
    assert "certificate names hub.corp from now on" in page(answer)
    assert "does not name" not in page(answer)
    assert "hub.corp" in names_served(settings.OCMCONSOLE_HOME)
    served.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    assert served._context is not before
    assert AuditEvent.objects.filter(act="hubaddress:create", name="https://hub.corp:7443", user="root").count() == 1
    # It is the address that agents are given from now on, here and on the command line.
    assert 'name="server" value="https://hub.corp:7443"' in page(admin.get("/clusters/add/"))
    assert join_guide.addresses()[0] == "https://hub.corp:7443"
    # The next start keeps it.
    assert ca.is_served(settings.OCMCONSOLE_HOME, hub_setup.serving_names())


def test_an_admin_removes_an_added_address_and_new_connections_get_a_certificate_without_it(
    fresh: None, settings: Any
) -> None:
    admin, home = root(), settings.OCMCONSOLE_HOME
    for url in ("https://hub.corp:7443", "https://hub.corp:8443"):
        admin.post(f"/clusters/add/address/?name=eu-1&server={quote(url, safe='')}")
    served = tls.Context(home / "serving.crt", home / "serving.key")
    assert "Addresses added to the hub" in page(admin.get("/clusters/add/"))
    answer = admin.post("/clusters/add/address/remove/", {"url": "https://hub.corp:7443"}, follow=True)
    assert "Another address keeps hub.corp in the certificate." in page(answer)
    assert "hub.corp" in names_served(home)
    before = served._context
    answer = admin.post("/clusters/add/address/remove/", {"url": "https://hub.corp:8443"}, follow=True)
    assert "https://hub.corp:8443 is removed: agents are given it no more." in page(answer)
    assert "Addresses added to the hub" not in page(answer)
    assert "hub.corp" not in names_served(home)
    served.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    assert served._context is not before
    assert AuditEvent.objects.filter(act="hubaddress:delete", user="root").count() == 2


def test_another_server_of_the_database_serves_what_was_added_and_removed_through_this_one(
    fresh: None, settings: Any, tmp_path: Path
) -> None:
    this, other = settings.OCMCONSOLE_HOME, tmp_path / "other"
    shutil.copytree(this, other)
    served = tls.Context(other / "serving.crt", other / "serving.key")
    before, beside = served._context, Presence()
    boss = actor_for(User.objects.create_user("boss", is_superuser=True))
    for act, is_there in ((hub_setup.add_address, True), (hub_setup.remove_address, False)):
        settings.OCMCONSOLE_HOME = this
        act(boss, "https://hub.corp:7443")
        settings.OCMCONSOLE_HOME = other
        assert ("hub.corp" in names_served(other)) is not is_there
        beside.keep_certificate()
        assert ("hub.corp" in names_served(other)) is is_there
        assert ca.is_served(other, hub_setup.serving_names())
        served.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
        assert served._context is not before
        before = served._context
    issued = (other / "serving.crt").read_bytes()
    beside.keep_certificate()
    assert (other / "serving.crt").read_bytes() == issued


def test_a_home_without_its_authority_is_a_line_in_the_log_and_no_end_of_the_server(
    fresh: None, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OCMCONSOLE_HOME = tmp_path / "empty"
    settings.OCMCONSOLE_HOME.mkdir()
    beside = Presence()
    for _ in range(2):
        beside.keep_certificate()
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "the serving certificate could not be kept in order"
    ]


@pytest.mark.parametrize("url", ["https://other.corp:6443", "", "nonsense", "https://\0"])
def test_an_address_that_was_not_added_is_not_removed(fresh: None, settings: Any, url: str) -> None:
    hub_setup.add_address(actor_for(User.objects.create_user("boss", is_superuser=True)), "https://hub.corp:7443")
    answer = root().post("/clusters/add/address/remove/", {"url": url}, follow=True)
    assert answer.status_code == 404 or "The certificate is as it was" in page(answer)
    assert HubAddress.objects.count() == 1


def test_only_an_admin_removes_an_address(fresh: None, settings: Any) -> None:
    hub_setup.add_address(actor_for(User.objects.create_user("boss", is_superuser=True)), "https://hub.corp:7443")
    ana = person("ana", *ADDING)
    assert "Addresses added" not in page(ana.get("/clusters/add/"))
    answer = ana.post("/clusters/add/address/remove/", {"url": "https://hub.corp:7443"}, follow=True)
    assert "The certificate is as it was: an address of the hub is removed by its admins" in page(answer)
    assert HubAddress.objects.exists()


def test_a_name_can_be_added_where_the_token_is_shown(fresh: None, settings: Any) -> None:
    admin = root()
    held = {"token": secret_of(mint(admin)), "name": "eu-1", "server": "https://late.corp:6443", "name_it": "1"}
    text = page(admin.post("/clusters/add/run/", held))
    assert "late.corp" in names_served(settings.OCMCONSOLE_HOME)
    assert "--hub-apiserver https://late.corp:6443" in text


@pytest.mark.contract("D2")
def test_only_an_admin_changes_the_certificate(fresh: None, settings: Any) -> None:
    ana = person("ana", *ADDING)
    where = "?name=eu-1&server=https%3A%2F%2Fhub.corp%3A7443"
    text = page(ana.get(f"/clusters/add/token/{where}"))
    assert "An admin of the hub can add hub.corp" in text
    assert "Add hub.corp" not in text
    assert "The certificate is as it was" in page(ana.post(f"/clusters/add/address/{where}", follow=True))
    assert "hub.corp" not in names_served(settings.OCMCONSOLE_HOME)
    assert not HubAddress.objects.exists()


def test_a_host_that_no_certificate_can_name_changes_nothing(fresh: None, settings: Any) -> None:
    before = (settings.OCMCONSOLE_HOME / "serving.crt").read_bytes()
    with pytest.raises(ca.AuthorityError):
        hub_setup.add_address(actor_for(User.objects.create_user("boss", is_superuser=True)), "https://h\u00fcb:6443")
    assert not HubAddress.objects.exists()
    assert (settings.OCMCONSOLE_HOME / "serving.crt").read_bytes() == before


# ---------------------------------------------------------------- and back


def test_after_accepting_from_the_wizard_one_is_back_in_its_last_step() -> None:
    ana = person("ana", *ADDING)
    mint(ana)
    token = BootstrapToken.objects.get()
    make.cluster("eu-1", by=bearer(token))
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1", by=bearer(token))
    make.settle()
    link = re.search(r'href="(/approvals/eu-1/[^"]*)"', page(ana.get(f"/clusters/add/watch/{token.pk}/")))
    assert link
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page(ana.get(link[1]))))
    answer = ana.post("/approvals/eu-1/accept/", fields)
    assert answer["Location"] == f"/clusters/add/watch/{token.pk}/?name=eu-1"
    assert "eu-1 is accepted" in page(ana.get(answer["Location"]))


@pytest.mark.parametrize("wizard", ["", "zzzzzz", "//evil.example", "\x00"])
def test_without_a_token_of_ones_own_accepting_leads_to_the_inbox(wizard: str) -> None:
    ana = person("ana", *ADDING)
    make.cluster("eu-1")
    requests.ask("eu-1-a", requests.agent_pem("eu-1"), cluster="eu-1")
    make.settle()
    answer = ana.post("/approvals/eu-1/accept/", _seen(ana) | {"wizard": wizard})
    assert answer["Location"].startswith("/approvals/")


def test_servers_with_one_home_leave_each_others_addresses_in_their_certificate(fresh: None, settings: Any) -> None:
    """Else each of them issues it anew, every few seconds, without end."""
    home, beside = settings.OCMCONSOLE_HOME, Presence()
    issued = []
    for address in ("10.0.0.5", "10.0.0.6", "10.0.0.5", "10.0.0.6"):
        settings.OCMCONSOLE_API_ADDRESS = (address, 6443)
        beside.keep_certificate()
        issued.append((home / "serving.crt").read_bytes())
    assert issued[1] == issued[2] == issued[3] != issued[0]
    assert {"10.0.0.5", "10.0.0.6"} <= {*ca.further_addresses(home, ())}
    boss = actor_for(User.objects.create_user("boss", is_superuser=True))
    for act in (hub_setup.add_address, hub_setup.remove_address):
        act(boss, "https://10.0.0.9:6443")
        assert ("10.0.0.9" in ca.further_addresses(home, ())) is (act == hub_setup.add_address)
