"""docs/nginx.conf before the hub: who a client is, and that streams flow (W21, W30)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from registration.pki import ca
from tests.conformance.commands import eventually
from tests.proxy.conftest import CLUSTERS, Site, cluster

pytestmark = [pytest.mark.contract("W30", "W21"), pytest.mark.slow]

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
COUNTED = "ocmconsole_requests_total"
PATIENCE = 300  # of a machine with other work too; an open watch is asked for its right again every 30 s (ADR 7)


def pair_of(path: Path, home: Path, user: str, *, ago: timedelta = timedelta(0)) -> Path:
    """A file with a client certificate of the CA in ``home``, issued some time ago for an hour."""
    certificate, key = ca.client_authority(home).issue_client(user, (), timedelta(hours=1), datetime.now(UTC) - ago)
    path.write_bytes(certificate + key)
    return path


def pair_in(kubeconfig: Path) -> Path:
    """A file beside a kubeconfig with the certificate and key in it."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pair = kubeconfig.with_suffix(".pem")
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    return pair


def who(client: httpx.Client) -> str:
    answer = client.post(SELF, json=REVIEW)
    answer.raise_for_status()
    name: str = answer.json()["status"]["userInfo"]["username"]
    return name


def test_a_client_certificate_works_over_http_2(site: Site, admin_pair: Path) -> None:
    with site.client(admin_pair) as client:
        assert client.get("/version").http_version == "HTTP/2"
        assert who(client) == "admin"


def test_without_a_certificate_a_caller_is_anonymous(site: Site) -> None:
    with site.client() as client:
        assert client.get("/readyz").text == "ok"
        answer = client.get(CLUSTERS)
    assert answer.status_code == 403
    assert "system:anonymous" in answer.json()["message"]


def test_a_token_goes_through(site: Site) -> None:
    path = site.hub.home / "bootstrap.kubeconfig"
    site.hub.manage("bootstrap_token", "create", "--uses", "1000", "--kubeconfig", str(path))
    token = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
    with site.client(Authorization=f"Bearer {token}") as client:
        assert who(client).startswith("system:bootstrap:")


@pytest.mark.parametrize("secret", ["", "s" * 32])
def test_a_forged_header_from_elsewhere_is_refused(site: Site, admin_pair: Path, secret: str) -> None:
    forged = quote(admin_pair.read_text().partition("-----BEGIN PRIVATE")[0])
    for hub in site.servers:
        with hub.client() as client:
            headers = {"X-Client-Certificate": forged, "X-Proxy-Secret": secret}
            answer = client.post(SELF, json=REVIEW, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


def test_nginx_lets_no_such_header_of_a_client_through(site: Site, admin_pair: Path) -> None:
    forged = quote(admin_pair.read_text().partition("-----BEGIN PRIVATE")[0])
    with site.client() as client:
        answer = client.post(SELF, json=REVIEW, headers={"X-Client-Certificate": forged})
    assert answer.status_code == 403  # anonymous may not even ask for its own name


def test_a_certificate_of_an_unknown_ca_is_refused_with_a_status(site: Site, tmp_path: Path) -> None:
    ca.ensure_authority(tmp_path, ["localhost"])
    with site.client(pair_of(tmp_path / "pair.pem", tmp_path, "admin")) as client:
        answer = client.post(SELF, json=REVIEW)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


def test_an_expired_certificate_is_refused_with_a_status(site: Site, tmp_path: Path) -> None:
    pair = pair_of(tmp_path / "pair.pem", site.hub.home, "admin", ago=timedelta(hours=3))
    with site.client(pair) as client:
        answer = client.post(SELF, json=REVIEW)
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")


def test_the_audit_has_the_address_of_the_client(site: Site, admin_pair: Path) -> None:
    with site.client(admin_pair) as client:
        client.post(CLUSTERS, json=cluster("addressed")).raise_for_status()
    with site.hub.reading() as ask:
        ((address,),) = ask("SELECT address FROM kubeapi_auditevent WHERE name = 'addressed' AND verb = 'create'")
    assert address == "127.0.0.1"


def test_the_console_knows_that_it_is_served_over_https(site: Site) -> None:
    with httpx.Client(
        base_url=site.console_url, verify=site.hub.tls(), http2=True, trust_env=False, timeout=60
    ) as browser:
        page = browser.get("/", follow_redirects=True)
        assert page.status_code == 200
        answer = browser.post(
            page.url.path,
            data={
                "login": "admin",
                "password": site.hub.admin_password,
                "csrfmiddlewaretoken": browser.cookies["ocmconsole_csrf"],
            },
            headers={"Origin": site.console_url, "Referer": f"{site.console_url}/"},
        )
    assert answer.status_code == 302, answer.text


def test_kubectl_reads_writes_and_watches_through_nginx(site: Site, kubectl: Path) -> None:
    """The kubeconfig names nginx, because OCMCONSOLE_API_URL does."""
    name = f"kubectl-{abs(hash(kubectl)) % 10**6}"
    manifest = json.dumps(cluster(name))
    with site.hub.kubectl_running(kubectl, "get", "managedclusters", "-w", "-o", "name") as watching:
        assert watching.stdout is not None
        done = site.hub.kubectl(kubectl, "apply", "-f", "-", stdin=manifest)
        assert done.returncode == 0, done.stderr
        assert any(name in line for line in watching.stdout)
    assert name in site.hub.kubectl(kubectl, "get", "managedclusters").stdout


def admin_of(site: Site, path: Path) -> Path:
    """A file with the certificate and key of a new admin, who is named as the file."""
    path.write_text(site.hub.manage("user_kubeconfig", path.stem, "--group", "system:masters"))
    return pair_in(path)


@contextmanager
def watching(site: Site, pair: Path) -> Iterator[httpx.Response]:
    # All namespaces: over HTTP/2 nginx keeps the head of an answer back until there is something of its body.
    with site.client(pair) as client, client.stream("GET", "/api/v1/namespaces", params={"watch": "true"}) as stream:
        assert stream.status_code == 200
        yield stream


def test_who_is_deactivated_or_revoked_is_refused_at_the_next_request_and_their_watches_end(
    site: Site, tmp_path: Path
) -> None:
    """Together, because a watch ends up to 30 s later."""
    leaver, stolen = (admin_of(site, tmp_path / f"{name}.kubeconfig") for name in ("leaver", "stolen"))
    fingerprint = ca.parse_certificate(stolen.read_bytes()).fingerprint
    people = "from django.contrib.auth.models import User; User.objects"
    site.hub.manage("shell", "-c", f"{people}.create(username='leaver')")
    with (
        site.client(leaver) as deactivated,
        site.client(stolen) as revoked,
        watching(site, leaver) as deactivated_watch,
        watching(site, stolen) as revoked_watch,
    ):
        assert [who(deactivated), who(revoked)] == ["leaver", "stolen"]
        site.hub.manage("shell", "-c", f"{people}.filter(username='leaver').update(is_active=False)")
        assert deactivated.post(SELF, json=REVIEW).status_code == 401
        site.hub.manage("revoke_certificate", fingerprint, "--reason", "the laptop was stolen")
        eventually(lambda: revoked.post(SELF, json=REVIEW).status_code == 401)
        begun = time.monotonic()
        for stream in (deactivated_watch, revoked_watch):
            for _ in stream.iter_lines():
                assert time.monotonic() - begun < PATIENCE
        assert deactivated.get(CLUSTERS).status_code == 401


def test_each_server_is_scraped_by_itself_and_answers_nothing_else_there(site: Site) -> None:
    """As docs/guide/operations.md says: each process counts its own requests, of which a balancer would show one's."""
    account = "/api/v1/namespaces/default/serviceaccounts"
    roles = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": "scraped"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    binding = {
        "metadata": {"name": "scraped"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraped"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "scraper"}],
    }
    with site.hub.admin() as admin:
        admin.post(account, json={"metadata": {"name": "scraper"}}).raise_for_status()
        admin.post(f"{roles}/clusterroles", json=role).raise_for_status()
        admin.post(f"{roles}/clusterrolebindings", json=binding).raise_for_status()
        token = admin.post(f"{account}/scraper/token", json={"spec": {}}).raise_for_status().json()["status"]["token"]
    credential = {"Authorization": f"Bearer {token}"}

    def denials(url: str) -> float:
        with httpx.Client(base_url=url, verify=site.hub.tls(), headers=credential, trust_env=False) as prometheus:
            assert prometheus.get("/livez").status_code == 404
            text = prometheus.get("/metrics").raise_for_status().text
        samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
        return sum(each.value for each in samples if each.name == COUNTED and each.labels["code"] == "403")

    before = [denials(url) for url in site.metrics]
    with site.hub.client() as nobody:
        assert [nobody.get("/metrics").status_code for _ in range(5)] == [403] * 5
    after = [denials(url) for url in site.metrics]
    assert after == [before[0] + 5, *before[1:]]
