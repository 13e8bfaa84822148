"""From the list of agents that fell off to the manifest in the browser, and the agent that comes back with it."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests import requests
from tests.browser.people import Console
from tests.fleet import Fleet
from tests.hub import Hub

pytestmark = pytest.mark.contract("D29")

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def test_a_revoked_agent_is_found_in_the_list_and_repaired(console: Console, fleet: Fleet, hub: Hub) -> None:
    fleet.accept(fleet.ask("fallen-off"))
    fingerprint = _fingerprint(hub)
    hub.manage("revoke_certificate", fingerprint, "--reason", "The disk was sold.")
    console.sign_in()
    page = console.page
    console.open("/certificates/")
    page.get_by_role("link", name="Agents that fell off").click()
    row = page.locator("#fallen-fallen-off")
    expect(row).to_contain_text("The disk was sold.")
    row.get_by_role("link", name=re.compile("Repair")).click()
    expect(page.locator("#trouble")).to_contain_text("Its certificate was revoked by admin")
    page.get_by_role("button", name="Make the manifest").click()
    expect(page.get_by_text("is shown on this page and never again")).to_be_visible()
    expect(page.get_by_text("delete secret hub-kubeconfig-secret")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download repair-fallen-off.yaml").click()
    secret = yaml.safe_load(Path(download.value.path()).read_text())
    kubeconfig = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    token = kubeconfig["users"][0]["user"]["token"]
    doc = requests.document("fallen-off-again", requests.agent_pem("fallen-off"), cluster="fallen-off")
    with hub.client(Authorization=f"Bearer {token}") as client:
        client.post(REQUESTS, json=doc).raise_for_status()
    console.open("/clusters/fallen-off/identity/")
    expect(page.locator("#lives")).to_contain_text("with a repair token")


def _fingerprint(hub: Hub) -> str:
    code = "from registration.models import IssuedCertificate as I; print(I.objects.get(cluster='fallen-off').pk)"
    return hub.manage("shell", "--no-imports", "-c", code).strip()
