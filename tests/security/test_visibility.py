"""Every address of the console, requested by four people; what one may not see is on none of their pages.

The walk takes the addresses from the URL configuration itself, so a page that is added is walked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import HeartbeatDay, ManagedCluster, Transition
from clustersets.models import ManagedClusterSet
from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi.models import AuditEvent, BulkItem, BulkJob
from ocmconsole.kubeapi.watch import change_log
from placements.kinds import PLACEMENT
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, ApprovalPolicy
from registration.pki import ca
from tests import factories as make
from tests.security.callers import request_for
from tests.selection import FULL

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D16")]

# Words of what is in the vault, which occur nowhere else.
VAULT = (
    "vault-kx1",
    "vault-kx2",
    "vaultset",
    "topsecretlabel",
    "secretclaim",
    "hidden-ns",
    "vaultcsr",
    "secretevent",
    "77:77:77",
    "deadbeef",
    "hiddenplacement",
)
HUB = ("hiddentoken", "hiddenpolicy", "hiddenperson")
WEB = ("web-zq1", "web-zq2", "webset")
# Pages of signing in, and streams without an end.
ELSEWHERE = re.compile(r"^(login|logout|session|account|admin|live|static)")
ANSWERS = {200, 302, 400, 403, 404, 405, 409}


@pytest.fixture
def first_start() -> None:
    """A web set, and a vault of which most people may know nothing."""
    ca.ensure_authority(settings.OCMCONSOLE_HOME, ["localhost"])
    for name in ("webset", "vaultset"):
        make.clusterset(name)
    for name in ("web-zq1", "web-zq2"):
        make.cluster(name, accepted=True, labels={CLUSTERSET_LABEL: "webset"})
    make.cluster(
        "vault-kx1",
        accepted=True,
        labels={CLUSTERSET_LABEL: "vaultset", "topsecretlabel": "x"},
        annotations={"note": "deadbeef"},
    )
    make.cluster("vault-kx2", labels={CLUSTERSET_LABEL: "vaultset"})
    make.create(CSR, request_for("vault-kx2", "vaultcsr"), by=make.ADMIN)
    make.settle()
    make.available("vault-kx1")
    make.edit(
        MANAGED_CLUSTER,
        "vault-kx1",
        lambda doc: doc["status"].update(clusterClaims=[{"name": "secretclaim", "value": "s"}]),
        subresource="status",
    )
    make.namespace("hidden-ns")
    make.binding("vaultset", namespace="hidden-ns")
    make.create(PLACEMENT, make.document(PLACEMENT, "hiddenplacement", spec={}), namespace="hidden-ns")
    make.settle()
    _records()


def _records() -> None:
    now = timezone.now()
    BootstrapToken.objects.create(
        id="hidden",
        hash="x",
        name="hiddentoken",
        created_by="hiddenperson",
        created=now,
        expires=now + timedelta(days=1),
    )
    ApprovalPolicy.objects.create(
        name="hiddenpolicy",
        expires=now + timedelta(days=9),
        reason="r",
        created_by="hiddenperson",
        created=now,
        acts_as="hiddenperson",
    )
    make.certificate("vault-kx1", "7" * 64, begins=now, ends=now + timedelta(days=5), serial="77:77:77")
    AcceptedKey.objects.create(
        cluster="vault-kx1",
        fingerprint="SHA256:deadbeef",
        key="EC",
        how="accept",
        accepted_at=now,
        request="vaultcsr",
        request_uid="u",
    )
    HeartbeatDay.objects.create(cluster="vault-kx1", day=now.date(), cells=bytes(72), skews=bytes(48))
    Transition.objects.create(cluster="vault-kx1", at=now, turn=Transition.Turn.SILENT)
    job = BulkJob.objects.create(
        pk=UUID(int=1), person=User.objects.create_user("hiddenperson"), act="clusters.label", created=now
    )
    BulkItem.objects.create(job=job, name="vault-kx1", text="secretevent")
    AuditEvent.objects.bulk_create(
        [
            AuditEvent(
                time=now,
                user="hiddenperson",
                entry_point="api",
                outcome="denied",
                act="x:get",
                verb="get",
                resource="secrets",
                name="secretevent",
            )
        ]
    )


def ana() -> Client:
    """She may see and let in every cluster."""
    return _signed_in("ana", "clusters.view_managedcluster", "clusters.accept_managedcluster")


def raj() -> Client:
    """The owner of set webset."""
    client = _signed_in("raj")
    user, owned = User.objects.get(username="raj"), ManagedClusterSet.objects.get(name="webset")
    for right in ("view", "join", "bind", "change"):
        assign_perm(f"clustersets.{right}_managedclusterset", user, owned)
    return client


def li() -> Client:
    """She may look at one cluster."""
    client = _signed_in("li")
    assign_perm(
        "clusters.view_managedcluster", User.objects.get(username="li"), ManagedCluster.objects.get(name="web-zq1")
    )
    return client


def mallory() -> Client:
    """No right at all."""
    return _signed_in("mallory")


def _signed_in(name: str, *rights: str) -> Client:
    user = User.objects.create_user(name)
    for right in rights:
        assign_perm(right, user)
    client = Client()
    client.force_login(user)
    return client


PEOPLE: dict[str, tuple[Callable[[], Client], tuple[str, ...]]] = {
    "ana": (ana, (*HUB, "hidden-ns", "hiddenplacement", "secretevent")),
    "raj": (raj, (*VAULT, *HUB)),
    "li": (li, (*VAULT, *HUB, "web-zq2")),
    "mallory": (mallory, (*VAULT, *HUB, *WEB)),
}


# ---------------------------------------------------------------- the addresses


def routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[str]:
    for entry in (resolver or get_resolver()).url_patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLPattern):
            if not ELSEWHERE.match(route):
                yield route
        elif not ELSEWHERE.match(route):
            yield from routes(entry, route)


# What stands in an address, first of the vault and then of the web.
NAMED = {
    "cluster": ("vault-kx1", "web-zq1"),
    "namespace": ("hidden-ns", "default"),
    "fingerprint": ("7" * 64, "0" * 64),
    "token_id": ("hidden", "nobody"),
    "form": ("csv", "json"),
    "what": ("klusterlet.yaml", "bootstrap.kubeconfig"),
    "view": ("1", "2"),
    "entry": ("1", "2"),
    "number": ("1", "2"),
    "pk": (str(UUID(int=1)), str(UUID(int=2))),
    "tab": ("health", "identity"),
}
NAMES = {
    "sets": ("vaultset", "webset"),
    "policies": ("hiddenpolicy", "other"),
    "approvals": ("vault-kx2", "web-zq1"),
    "access": ("hiddenperson", "raj"),
    "placements": ("hiddenplacement", "placed"),
}
TABS = {
    "clusters": ("summary", "health", "identity", "taints", "claims", "sets", "events", "yaml"),
    "sets": ("members", "bindings", "people", "selector", "audit"),
}


def addresses() -> list[str]:
    """Each route once for the vault and once for the web; tabs one by one."""
    found = []
    for route in routes():
        head = route.partition("/")[0]
        for side in (0, 1):
            filled = [route]
            if "<str:tab>" in route:
                filled = [route.replace("<str:tab>", tab) for tab in TABS[head]]
            value = partial(_value, head, side)
            found += [re.sub(r"<\w+:(\w+)>", value, each) for each in filled]
    queries = ["search/?q=vault", "search/?q=hidden", "search/?q=secret", "search/?q=777777", "clusters/?q=vault", "clusters/?label=topsecretlabel", "clusters/?claim=secretclaim",
               "clusters/?set=vaultset", "claims/?claim=secretclaim", "claims/?label=topsecretlabel", "activity/?name=vault-kx1", "activity/?actor=hiddenperson",
               "activity/?export=jsonl", "certificates/?q=vault", "access/explain/?verb=get&resource=managedclusters&name=web-zq1", "sets/?view=map", "sets/?tab=map"]  # fmt: skip
    return sorted({f"/{each}" for each in (*found, *queries)})


def _value(head: str, side: int, match: re.Match[str]) -> str:
    name = match[1]
    values = NAMES.get(head, NAMED["cluster"]) if name == "name" else NAMED[name]
    return values[side]


def body(answer: Any) -> str:
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(text.decode())


# ---------------------------------------------------------------- the walk


# In the ordinary run by those who see least: a page that shows one of them nothing has asked what it may show.
@pytest.mark.parametrize("name", PEOPLE if FULL else ("raj", "mallory"))
def test_no_page_shows_what_one_may_not_see(name: str, first_start: None) -> None:
    person, secrets = PEOPLE[name]
    client = person()
    leaks = []
    for address in addresses():
        answer = client.get(address)
        assert answer.status_code in ANSWERS, (address, answer.status_code)
        shown = body(answer)
        for word in secrets:
            # What somebody asked for is said back to them; it must then be a refusal.
            if word in address:
                if answer.status_code == 200 and "?" not in address:
                    leaks.append((address, f"answers about {word}"))
            elif word in shown:
                leaks.append((address, word))
    assert leaks == []


def test_no_post_of_who_may_only_look_changes_anything(first_start: None) -> None:
    client = li()
    before = change_log.newest_revision()
    for address in addresses():
        if "?" in address:
            continue
        answer = client.post(
            address,
            {"name": "web-zq1", "reason": "r", "typed": "web-zq1", "clusterset": "webset", "key": "k", "value": "v"},
        )
        assert answer.status_code in ANSWERS, (address, answer.status_code)
    assert change_log.newest_revision() == before
    assert ManagedCluster.objects.get(name="web-zq1").hub_accepts_client
    assert (
        not AuditEvent.objects.filter(user="li", outcome="allowed")
        .exclude(resource__in=("accessrequests", "sessions"))
        .exists()
    )


def test_the_walk_meets_every_app() -> None:
    heads = {address.split("/")[1].partition("?")[0] for address in addresses()}
    assert {
        "",
        "access",
        "activity",
        "approvals",
        "attention",
        "ca",
        "certificates",
        "claims",
        "clusters",
        "help",
        "hub",
        "namespaces",
        "placements",
        "policies",
        "search",
        "sets",
        "tokens",
    } <= heads
