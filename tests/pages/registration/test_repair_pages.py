"""Pages of repair: what is wrong, the manifest that is shown once, and the list of agents that fell off (D29)."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.utils import timezone
from time_machine import travel

from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services
from registration.certificates import agent_troubles
from registration.certificates.agent_troubles import FELL_OFF, Trouble
from registration.models import IssuedCertificate
from tests import factories as make
from tests import requests
from tests.actors import ROOT
from tests.pages.joining import hub, page, person
from tests.security.callers import REQUESTS, bearer, request_for

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D29")]

YEAR = timedelta(days=365)


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)


def join(*names: str) -> None:
    for name in names:
        make.cluster(name)
        requests.ask(f"{name}-0", requests.agent_pem(name), cluster=name)
        services.accept_cluster(ROOT, name)
    make.settle()
    for name in names:
        make.available(name)
        make.renew(name)
    make.settle()


def dates(name: str, begins: timedelta, ends: timedelta) -> None:
    """Of its certificate, from now."""
    row = IssuedCertificate.objects.get(cluster=name)
    row.not_before, row.not_after = timezone.now() + begins, timezone.now() + ends
    row.save()


def manifest_in(answer: Any) -> str:
    found = re.search(r'<pre class="oc-code" tabindex="0">(.*?)</pre>', answer.content.decode(), re.DOTALL)
    assert found is not None
    return found[1].replace("&#x27;", "'").replace("&quot;", '"')


# ---------------------------------------------------------------- one cluster


def test_where_all_keys_were_revoked_pages_promise_no_manifest() -> None:
    join("edge")
    services.disconnect_and_revoke(ROOT, "edge", reason="stolen")
    make.settle()
    make.accept("edge")
    make.settle()
    ana = person("ana", "view_managedcluster", "accept_managedcluster")
    assert "has no line of keys to continue" in page(ana.get("/clusters/edge/repair/"))
    for path in ("/clusters/edge/", "/certificates/-/fallen/"):
        shown = page(ana.get(path))
        assert "bootstrap token" in shown, path
        assert "by an override" in shown, path


def test_the_tab_and_the_page_say_what_is_wrong_and_the_manifest_is_shown_once() -> None:
    join("edge")
    dates("edge", -YEAR, -timedelta(days=2))
    ana = person("ana", "view_managedcluster", "accept_managedcluster")
    sentence = agent_troubles.what_is_wrong("edge", timezone.now()).text
    assert sentence.startswith("Its certificate ended 2 d ago")
    tab = page(ana.get("/clusters/edge/identity/"))
    assert "Its certificate ended 2 d ago" in tab
    assert "/clusters/edge/repair/" in tab
    assert "Its certificate ended 2 d ago" in page(ana.get("/clusters/edge/repair/"))
    assert not BootstrapToken.objects.exists()
    answer = ana.post("/clusters/edge/repair/")
    assert "no-store" in answer["Cache-Control"]
    text = manifest_in(answer)
    assert "rollout restart" not in page(answer)
    file = ana.post("/clusters/edge/repair/file/", {"manifest": text.replace("\n", "\r\n")})
    assert file.content.decode() == text
    assert file["Content-Disposition"] == 'attachment; filename="repair-edge.yaml"'
    assert AuditEvent.objects.get(act="bootstraptoken:create").user == "ana"
    secret = re.search(r"[a-z0-9]{6}\.[a-z0-9]{16}", _kubeconfig(text))
    assert secret is not None
    assert bearer(secret[0]).post(REQUESTS, request_for("edge", "edge-1")).code == 201
    make.settle()
    assert requests.state("edge-1") == "Issued"
    assert "with a repair token" in page(ana.get("/clusters/edge/identity/"))
    trail = page(ana.get("/clusters/edge/events/?source=audit"))
    assert BootstrapToken.objects.get().pk in trail
    assert "Agent came back with a repair token" in trail


def _kubeconfig(text: str) -> str:
    return base64.b64decode(yaml.safe_load(text)["data"]["kubeconfig"]).decode()


def test_a_manifest_that_stands_is_shown_and_revoked_by_who_minted_it_without_the_right_to_mint_tokens() -> None:
    join("edge")
    ana = person("ana", "view_managedcluster", "accept_managedcluster")
    assert ana.get("/tokens/").status_code == 404
    ana.post("/clusters/edge/repair/")
    token = BootstrapToken.objects.get()
    shown = page(ana.get("/clusters/edge/repair/"))
    assert "It has not been used, and ends" in shown
    assert f"/tokens/{token.pk}/revoke/" in shown
    others = page(person("raj", "view_managedcluster", "accept_managedcluster").get("/clusters/edge/repair/"))
    assert "It has not been used, and ends" in others
    assert f"/tokens/{token.pk}/revoke/" not in others
    assert "repair of edge" in page(ana.post(f"/tokens/{token.pk}/revoke/", follow=True))
    assert "It has not been used" not in page(ana.get("/clusters/edge/repair/"))


def test_only_who_minted_it_downloads_it_and_only_for_its_cluster() -> None:
    join("edge", "other")
    ana = person("ana", "view_managedcluster", "accept_managedcluster")
    text = manifest_in(ana.post("/clusters/edge/repair/"))
    assert ana.post("/clusters/other/repair/file/", {"manifest": text}).status_code == 404
    raj = person("raj", "view_managedcluster", "accept_managedcluster")
    assert raj.post("/clusters/edge/repair/file/", {"manifest": text}).status_code == 404
    for junk in ("", "a: [", "[]", "data: {kubeconfig: 1}", "data: {kubeconfig: YQ==}"):
        assert ana.post("/clusters/edge/repair/file/", {"manifest": junk}).status_code == 404


def test_who_may_not_accept_reads_what_is_wrong_and_makes_nothing() -> None:
    join("edge")
    li = person("li", "view_managedcluster")
    shown = page(li.get("/clusters/edge/repair/"))
    assert "Nothing is wrong" in shown
    assert "Make the manifest" not in shown
    assert "clusters.accept_managedcluster" in shown
    assert li.post("/clusters/edge/repair/").status_code == 403
    assert person("mallory").get("/clusters/edge/repair/").status_code == 404
    assert not BootstrapToken.objects.exists()


def test_without_a_line_of_keys_the_page_says_what_to_do_instead() -> None:
    join("edge")
    services.revoke_all(ROOT, "edge", reason="Stolen.")
    ana = person("ana", "view_managedcluster", "accept_managedcluster", "add_bootstraptoken")
    shown = page(ana.get("/clusters/edge/repair/"))
    assert "has no line of keys to continue" in shown
    assert "/clusters/add/?name=edge" in shown
    assert ana.post("/clusters/edge/repair/").status_code == 409


# ---------------------------------------------------------------- those that fell off


def test_the_list_counts_and_filters_what_the_function_says_of_each() -> None:
    with travel(timezone.now() - timedelta(days=4)):
        join("mute", "silent")
    join("ended", "late", "fine", "revoked", "foreign")
    dates("ended", -YEAR, -timedelta(days=2))
    dates("late", -YEAR * 9 / 10, YEAR / 10)
    services.revoke_certificate(ROOT, IssuedCertificate.objects.get(cluster="revoked").pk, reason="Stolen.")
    make.serve_since(timedelta(days=10))
    for name, ago in (("mute", timedelta(days=3)), ("silent", timedelta(hours=1))):
        make.renew(name, timezone.now() - ago)
    make.sweep()
    dates("mute", -timedelta(hours=1), timedelta(hours=47))
    dates("silent", -timedelta(hours=1), timedelta(hours=47))
    _silent_since("mute", timedelta(days=3))
    _silent_since("silent", timedelta(hours=1))
    make.accept("foreign", accepts=False)
    make.settle()
    ana = person("ana", "view_managedcluster", "accept_managedcluster")
    text = page(ana.get("/certificates/-/fallen/"))
    for name in ("ended", "late", "mute", "revoked"):
        assert f"/clusters/{name}/repair/" in text
    for name in ("fine", "silent", "foreign"):
        assert f"/clusters/{name}/repair/" not in text
    expected = {Trouble.REVOKED: "revoked", Trouble.ENDED: "ended", Trouble.LATE: "late", Trouble.LONG_SILENT: "mute"}
    for kind in FELL_OFF:
        shown = page(ana.get(f"/certificates/-/fallen/?trouble={kind.value}"))
        named = re.findall(r"/clusters/([a-z]+)/repair/", shown)
        assert named == [expected[kind]]
        assert agent_troubles.what_is_wrong(expected[kind], timezone.now()).kind is kind
    assert "/certificates/-/fallen/" in page(ana.get("/certificates/"))


def _silent_since(name: str, ago: timedelta) -> None:
    moment = connection.ops.adapt_datetimefield_value(timezone.now() - ago)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE clusters_managedcluster SET available_since = %s WHERE name = %s", [moment, name])


def test_people_see_those_of_their_clusters_only() -> None:
    join("ended")
    dates("ended", -YEAR, -timedelta(days=2))
    assert "Its certificate" not in page(person("mallory").get("/certificates/-/fallen/"))
    li = page(person("li", "view_managedcluster").get("/certificates/-/fallen/"))
    assert "Its certificate ended 2 d ago" in li
    assert "/repair/" not in li
