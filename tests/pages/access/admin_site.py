"""The tables that Django admin lists, and how tests ask for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import HeartbeatDay, Silence, Transition
from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi.models import BulkJob, HeldBack, WorkItem
from registration.models import ApprovalPolicy
from tests import factories as make

CLUSTERS = "/admin/clusters/managedcluster/"
TABLES = {
    "auth": ("user", "group"),
    "clusters": (
        "managedcluster", "lease", "managedclusteraddon", "clustermanagementaddon", "manifestwork", "clusterclaim",
        "clusterfacts", "silence", "transition", "heartbeatday",
    ),
    "clustersets": ("managedclusterset", "managedclustersetbinding", "clusterprofile"),
    "corekinds": ("namespace", "event", "bootstraptoken", "bootstraptokenuse", "accessrequest", "configmap", "serviceaccount", "clusterrole"),
    "kubeapi": ("auditevent", "auditseal", "workitem", "bulkjob", "heldback", "pulse"),
    "ocmconsole": ("session",),
    "placements": ("placement", "placementdecision", "addonplacementscore"),
    "registration": (
        "certificatesigningrequest", "issuedcertificate", "keyline", "acceptedkey", "unknowncertificate", "decline",
        "approvalpolicy", "approvalpolicyuse", "hubaddress",
    ),
}  # fmt: skip
LISTS = [f"/admin/{app}/{model}/" for app, models in TABLES.items() for model in models]


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return str(answer.content.decode())


def token(now: Any) -> BootstrapToken:
    return BootstrapToken.objects.create(
        id="abcdef", hash="c0ffee" * 10, name="north", created_by="boss", created=now, expires=now + timedelta(days=1)
    )


def make_fleet() -> None:
    make.clusterset("web")
    for number in range(3):
        make.cluster(f"web-{number}", accepted=True, labels={CLUSTERSET_LABEL: "web"})
    make.cluster("asks-1")
    make.settle()
    make.available("web-0")


def make_records() -> None:
    now = timezone.now()
    make.certificate("web-0", "7" * 64, begins=now, ends=now + timedelta(days=5), serial="77:77:77")
    token(now)
    ApprovalPolicy.objects.create(
        name="shops", expires=now + timedelta(days=9), reason="r", created_by="boss", created=now, acts_as="boss"
    )
    for name in ("web-0", "asks-1"):
        Silence.objects.create(cluster=name, at=now, renew_time=0)
        Transition.objects.create(cluster=name, at=now, turn=Transition.Turn.SILENT)
        HeartbeatDay.objects.create(cluster=name, day=now.date(), cells=bytes(72), skews=bytes(48))
    HeldBack.objects.create(user="greedy", limit="requests", count=7, since=now, last=now)
    BulkJob.objects.create(person=User.objects.create_user("batch"), act="clusters.label", created=now)
    WorkItem.objects.create(reconciler="tried", name="web-0", due=now, attempts=2)
