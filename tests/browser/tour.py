"""Every page of the console for test_accessibility: who opens it, at which address, and what a demonstration hub calls things.

A word in braces stands for something that only the hub knows: ``{silent}`` is a silent cluster, ``{token}`` a token's id.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.hub import Hub

PASSWORD = "a-tour-of-the-hub"
FIRST = ("demo", "--clusters", "30", "--password", PASSWORD)
ADMIN, STRANGER = "admin", ""
MOST_WAIT = 400  # seconds: time in which the hub did not serve, as before its start, is no silence of a cluster

# What nobody of the demonstration has done yet.
EVENTS = """
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from ocmconsole.access import services
from ocmconsole.core.rbac.known_rights import question
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.rules import Rule
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput

def person(name):
    return actor_for(User.objects.get(username=name), entry_point=EntryPoint.CLI, credential="cli")

rule = PolicyInput(name="shops", pattern="store-fr-*", reason="New shops of this month.", expires=timezone.now() + timedelta(days=9))
policy_services.create_policy(person("admin"), rule)
settings.OCMCONSOLE_SECOND_APPROVAL = {"approval-policy": Rule()}
with suppress(Waits):
    policy_services.create_policy(person("admin"), replace(rule, name="proposed"))
settings.OCMCONSOLE_SECOND_APPROVAL = {}
for who in ("mallory", "li"):
    asked = question("accept", "managedclusters.cluster.open-cluster-management.io", name="")
    services.request_access(person(who), asked, "I look after the shops this week.")
User.objects.create_user("wanda", password=PASSWORD)
"""
# After she has signed in with her password alone; nobody can touch this passkey.
FACTORS = """
from django.contrib.auth.models import User
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP

wanda = User.objects.get(username="wanda")
TOTP.activate(wanda, "JBSWY3DPEHPK3PXP")
RecoveryCodes.activate(wanda)
credential = {"clientExtensionResults": {"credProps": {"rk": True}}}
key = Authenticator.objects.create(user=wanda, type="webauthn", data={"name": "Key ring", "credential": credential})
print(key.pk)
"""

# By who opens them. Empty, loaded and refused states of a page follow each other.
PAGES: dict[str, tuple[str, ...]] = {
    ADMIN: (
        "/",
        "/attention/",
        "/activity/",
        "/activity/?q=nothing-like-it",
        "/activity/report/",
        "/activity/report/?from=2020-01-01&to=2099-01-01",
        "/search/",
        "/search/?q=store",
        "/search/?q=nothing-like-it",
        "/help/",
        "/hub/",
        "/notifications/",
        "/notifications/-/add/",
        "/notifications/ops/",
        "/demo/",
        "/bulk/",
        "/bulk/{going}/",
        "/bulk/{ended}/",
        "/preferences/",
        # approvals
        "/approvals/",
        "/approvals/?verdict=blocked",
        "/approvals/?q=nothing-like-it",
        "/approvals/?source=nowhere",
        "/approvals/-/decided/",
        "/approvals/-/superseded/",
        "/approvals/-/together/{waiting}/accept/",
        "/approvals/-/together/{waiting}/decline/",
        "/approvals/-/together/{waiting}/later/",
        "/approvals/-/together/{chosen}/accept/",
        "/approvals/{safe}/",
        "/approvals/{check}/",
        "/approvals/{blocked}/",
        "/approvals/{declined}/",
        "/approvals/nobody/",
        "/second-approval/",
        "/second-approval/closed/",
        "/second-approval/1/",
        "/policies/",
        "/policies/-/new/",
        "/policies/shops/",
        "/policies/shops/edit/",
        "/policies/shops/delete/",
        "/tokens/",
        "/tokens/?state=usable",
        "/tokens/mint/",
        "/tokens/{token}/revoke/",
        "/certificates/",
        "/certificates/?q=nothing-like-it",
        "/certificates/?bucket=removed",
        "/certificates/-/fallen/",
        "/certificates/{fingerprint}/revoke/",
        "/ca/",
        # clusters
        "/clusters/",
        "/clusters/?status=silent",
        "/clusters/?q=nothing-like-it",
        "/clusters/add/",
        "/clusters/add/?name=new-01&labels=env%3Dprod",
        "/clusters/add/token/?name=new-01",
        "/clusters/add/token/?name=new-01&server=https%3A%2F%2Fhub.corp%3A6443",
        "/clusters/add/watch/{token}/?name={joining}",
        "/clusters/_bulk/{chosen}/maintenance/",
        "/clusters/_bulk/{chosen}/taint/",
        "/clusters/_bulk/{chosen}/disconnect/",
        "/clusters/_bulk/{chosen}/remove/",
        "/clusters/{healthy}/",
        "/clusters/{healthy}/health/",
        "/clusters/{healthy}/identity/",
        "/clusters/{maintenance}/taints/",
        "/clusters/{healthy}/claims/",
        "/clusters/{healthy}/sets/",
        "/clusters/{healthy}/events/",
        "/clusters/{healthy}/yaml/",
        "/clusters/{healthy}/yaml/edit/",
        "/clusters/{healthy}/maintenance/",
        "/clusters/{healthy}/remove/",
        "/clusters/{healthy}/disconnect/",
        "/clusters/{healthy}/set/?to=default",
        "/clusters/{disconnected}/reconnect/",
        "/clusters/{healthy}/repair/",
        "/clusters/{disconnected}/repair/",
        # Django admin in the console's look
        "/admin/",
        "/admin/clusters/managedcluster/",
        "/admin/clusters/managedcluster/?q=nothing-like-it",
        "/admin/clusters/managedcluster/{uid}/change/",
        "/admin/clusters/managedcluster/{uid}/permissions/",
        "/admin/clusters/managedcluster/{uid}/delete/",
        "/admin/registration/certificatesigningrequest/",
        "/admin/registration/issuedcertificate/",
        "/admin/kubeapi/auditevent/",
        "/admin/auth/user/add/",
        "/clusters/{removing}/remove/",
        "/clusters/{silent}/",
        "/clusters/{silent}/health/",
        "/clusters/{api-unhealthy}/",
        "/clusters/{clock-skew}/",
        "/clusters/{credential-revoked}/",
        "/clusters/{credential-revoked}/health/",
        "/clusters/{credential-expired}/",
        "/clusters/{credential-expired}/identity/",
        "/clusters/{declined}/",
        "/clusters/{disconnected}/",
        "/clusters/{joining}/",
        "/clusters/{maintenance}/",
        "/clusters/{needs-review}/",
        "/clusters/{removing}/",
        "/clusters/{unknown}/",
        "/clusters/{waiting-for-certificate}/",
        "/clusters/{waiting-for-certificate}/health/",
        "/clusters/nobody/",
        "/claims/",
        "/claims/?label=env",
        # sets
        "/sets/",
        "/sets/?view=map",
        "/sets/_new/",
        "/sets/_move/{chosen}/?to=default",
        "/sets/production/",
        "/sets/default/",
        "/sets/default/_add/",
        "/sets/web/_delete/",
        "/sets/global/bindings/",
        "/sets/stores-fr/people/",
        "/sets/production/definition/",
        "/namespaces/",
        "/namespaces/shop/",
        "/namespaces/_bind/?set=web&namespace=shop",
        "/namespaces/shop/_unbind/web/",
        # placements
        "/placements/",
        "/placements/?word=short",
        "/placements/?q=nothing-like-it",
        "/placements/held/",
        "/placements/shop/checkout/",
        "/placements/shop/catalog/",
        "/placements/shop/loyalty/",
        "/placements/sandbox/first-steps/",
        "/placements/shop/checkout/why/",
        "/placements/shop/checkout/why/?stage=taints",
        "/placements/sandbox/first-steps/why/",
        "/placements/shop/checkout/?group=0",
        "/placements/shop/checkout/history/",
        "/placements/shop/catalog/history/",
        "/placements/sandbox/first-steps/history/",
        "/placements/playground/?from=shop/checkout",
        "/placements/playground/?from=sandbox/first-steps",
        "/placements/playground/?from=shop/checkout&as=yaml",
        "/placements/playground/?from=shop/checkout&add=cel-1",
        "/placements/-/review/?from=shop/checkout",
        "/placements/-/review/?namespace=shop&name=new",
        "/placements/playground/?from=shop/loyalty&d=damaged",
        # access
        "/access/",
        "/access/?q=nothing-like-it",
        "/access/resources/",
        "/access/risks/",
        "/access/requests/",
        "/access/requests/1/",
        "/access/users/ana/",
        "/access/groups/operators/",
        "/access/explain/",
        "/access/explain/?verb=accept&resource=managedclusters.cluster.open-cluster-management.io&name={blocked}&user=li",
        "/access/give/",
        "/access/give/?preset=set-owner&holder=li&scope=set&set=web",
        "/access/take/?holder=group%3Aoperators&source=permission%3Acorekinds.add_bootstraptoken%40",
        "/access/add/person/",
        "/access/add/group/",
        # nothing of it
        "/no/such/page/",
    ),
    # May look: what the person may not do is a button that says why.
    "li": (
        "/",
        "/approvals/",
        "/approvals/{blocked}/",
        "/approvals/{safe}/",
        "/clusters/{healthy}/maintenance/",
        "/clusters/{healthy}/remove/",
        "/sets/_new/",
        "/access/users/li/",
        "/access/give/",
        "/access/explain/?verb=accept&resource=managedclusters.cluster.open-cluster-management.io",
    ),
    # May nothing: the same pages without anything on them.
    "mallory": (
        "/",
        "/attention/",
        "/activity/",
        "/approvals/",
        "/approvals/-/decided/",
        "/clusters/",
        "/claims/",
        "/sets/",
        "/namespaces/",
        "/placements/",
        "/placements/playground/",
        "/tokens/",
    ),
    # Has an app, a passkey and codes for when they are lost.
    "wanda": (
        "/account/",
        "/account/password/",
        "/account/app/deactivate/",
        "/account/passkeys/",
        "/account/passkeys/keys/{passkey}/edit/",
        "/account/passkeys/keys/{passkey}/remove/",
        "/account/recovery/",
        "/account/recovery/generate/",
        "/account/sessions/",
        "/login/again/",
        "/login/again/code/",
        "/logout/",
    ),
    # Has none of them.
    "raj": (
        "/login/again/go-on/",
        "/account/",
        "/account/app/activate/",
        "/account/passkeys/",
        "/account/passkeys/add/",
        "/access/",
        "/sets/stores-fr/people/",
    ),
    STRANGER: ("/login/", "/login/?next=/clusters/", "/login/inactive/", "/clusters/"),
}

REFUSED: dict[str, set[str]] = {"li": {"/access/give/"}}
INVALID: dict[str, set[str]] = {ADMIN: {"/approvals/?source=nowhere"}}
MISSING: dict[str, set[str]] = {ADMIN: {"/no/such/page/"}, "mallory": {"/tokens/"}}

# Answers nobody looks at as a page, and why. What is left answers a GET with 405, which a test asks.
NO_PAGES = {
    "live": "a stream",
    "session/": "JSON",
    "session/extend/": "JSON",
    "bulk/<uuid:pk>/results.csv": "a file",
    "ca/ca.crt": "a file",
    "clusters/_export/<str:form>/": "a file",
    "account/recovery/download/": "a file",
    "approvals/<str:name>/effects/": "a part of the page of a request",
    "account/passkeys/login/": "what a script asks",
    "account/passkeys/reauthenticate/": "the page of /login/again/",
    "admin/logout/": "the page of /logout/",
    "admin/password_change/": "the page of /account/password/",
}
# Of a brake on evictions (D27), as the admin sees them while it stands, and what each says then. Checkout tolerates a
# silence for a while, catalog does not.
HELD = {
    "/placements/held/": "Why the hub doubts that they died",
    "/placements/held/?release=1": "silent clusters now?",
    "/placements/?word=held": "fell silent or late at once",
    "/placements/shop/catalog/": "stay chosen",
    "/placements/shop/catalog/why/?show=chosen": "held: would leave at",
    "/placements/shop/catalog/history/": "held: would leave at",
    "/": "Evictions held",
}
# Every agent of the demonstration ends at once: its last heartbeat was almost a grace period ago, and no more come.
# What the hub makes of it is left to its own sweeps.
CUT_OFF = """
from datetime import timedelta
from django.contrib.auth.models import User
from clusters.kinds import LEASE, LEASE_NAME
from clusters.models import Lease
from ocmconsole.demo.agents import BEATS
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.schema import times

heard = times.micro_timestamp(clock.now() - timedelta(seconds=295))

def fall_silent(lease):
    del lease["metadata"]["labels"][BEATS]
    lease["spec"]["renewTime"] = heard

def everybody(batch):
    for row in Lease.objects.filter(name=LEASE_NAME, labels__has_key=BEATS):
        batch.edit(LEASE, row.key, fall_silent)

admin = actor_for(User.objects.get(username="admin"), entry_point=EntryPoint.CLI, credential="cli")
verbs.together(admin, everybody)
"""
# Pages that only an act leads to: a test of their own goes there.
AFTER_AN_ACT = {
    "clusters/add/run/",
    "login/second/",
}


def addresses() -> list[tuple[str, str]]:
    return [(who, path) for who, paths in PAGES.items() for path in paths]


def pages() -> list[tuple[str, str]]:
    """Each page once: as the first person who opens it, of the first object, not filtered. The other addresses show its other states."""
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for who, path in addresses():
        page = re.sub(r"{[\w-]+}", "{}", path.partition("?")[0])
        found.setdefault((page, status(who, path)), (who, path))
    return list(found.values())


ONE_OF_EACH = """
import json
from django.contrib.auth.models import User
from django.utils import timezone
from clusters.fleet import bulk_acts
from clusters import queries
from clusters.models import ManagedCluster
from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi.control import bulk_jobs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.models import BulkJob
from ocmconsole.kubeapi.access.session import actor_for
from datetime import time as clock_time
from ocmconsole.models import NotificationQuietHours as Hours
from ocmconsole.notifications import services as notifications
from registration.approvals import bulk_decisions as requests, inbox
from registration.models import IssuedCertificate

admin = actor_for(User.objects.get(username="admin"), entry_point=EntryPoint.CLI, credential="cli")
observed = queries.observe_clusters(queries.clusters_for(admin), timezone.now())
known = {each.status.word.value: each.row.name for each in observed}
known |= {str(row.verdict): row.name for row in inbox.inbox_for(admin).rows}
known["uid"] = str(ManagedCluster.objects.get(name=known["healthy"]).pk)
known["token"] = BootstrapToken.objects.usable(timezone.now()).first().pk
known["fingerprint"] = IssuedCertificate.objects.order_by("-not_after").first().fingerprint
known["chosen"] = str(bulk_jobs.store_selection(admin, {known[word]: {} for word in ("healthy", "removing", "silent")}).pk)
known["waiting"] = str(requests.select_requests(admin, [known["check"]], inbox.Filter(), every_safe=True).pk)
told = {"key": "tour", "value": "1"}
known["ended"] = str(bulk_acts.start_act(admin, bulk_acts.LABEL, [known["healthy"], known["removing"]], told).pk)
# Nobody goes on with this one.
going = BulkJob.objects.create(person=User.objects.get(username="admin"), act="clusters.label", created=timezone.now())
for word, state in (("healthy", "done"), ("silent", "refused"), ("removing", "running"), ("api-unhealthy", "waiting")):
    going.items.create(name=known[word], state=state, text="you may not" if state == "refused" else "")
known["going"] = str(going.pk)
notifications.create_channel(admin, "ops", "webhook", "https://127.0.0.1/")
notifications.test_channel(admin, "ops")
night = Hours(days=[0, 4], begins=clock_time(22), ends=clock_time(7), zone="UTC", breaks=3)
notifications.add_quiet_hours(admin, "ops", night)
print(json.dumps(known))
"""


@dataclass(frozen=True)
class Tour:
    """A hub with something in every state. ``known`` is what the words in braces stand for."""

    hub: Hub
    known: dict[str, str]

    def address(self, path: str) -> str:
        return self.hub.console_url + path.format_map(self.known)

    def filled(self, route: str) -> str:
        """An address of that route."""
        name = "shops" if route.startswith("policies") else self.known["healthy"]
        for converter, value in (("int", "1"), ("uuid", self.known["ended"]), ("str", name)):
            route = re.sub(rf"<{converter}:[a-z_]+>", value, route)
        return f"{self.hub.console_url}/{route}"

    def password(self, who: str) -> str:
        return self.hub.admin_password if who == ADMIN else PASSWORD


@contextmanager
def prepared(hub: Hub) -> Iterator[Tour]:
    """Its clusters go on beating, by the clock of the hub."""
    _tell(hub, f"PASSWORD = {PASSWORD!r}\n{EVENTS}")
    yield Tour(hub, json.loads(_tell(hub, ONE_OF_EACH)))


def give_factors(tour: Tour) -> None:
    tour.known["passkey"] = _tell(tour.hub, FACTORS).strip()


def cut_off(hub: Hub, page: Page) -> None:
    """Most clusters of a demonstration fall silent, and the hub begins a brake, which ``page`` waits for as an admin."""
    _tell(hub, CUT_OFF)
    until = time.monotonic() + MOST_WAIT
    while time.monotonic() < until:
        page.goto(f"{hub.console_url}/placements/held/")
        if page.locator("#held-title").count():
            return
        time.sleep(1)
    raise AssertionError("the hub has begun no brake")


def _tell(hub: Hub, script: str) -> str:
    return hub.manage("shell", "-v", "0", "-c", script)


def status(who: str, path: str) -> int:
    """What the page answers with."""
    if "nobody" in path or path in MISSING.get(who, ()):
        return 404
    if path in REFUSED.get(who, ()):
        return 403
    return 400 if path in INVALID.get(who, ()) else 200
