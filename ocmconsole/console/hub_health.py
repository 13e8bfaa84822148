"""The page about the hub itself: what it is made of, whether all of it works, and what waits.

For admins. The same checks as ``manage.py doctor``.
"""

from __future__ import annotations

import platform
import resource
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.db.models import Count, Max, Min, Sum
from django.shortcuts import render
from django.views.decorators.http import require_GET

from clusters.health import reconcilers
from clusters.models import FleetMinute, Serving
from ocmconsole.console import checkup
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import metrics
from ocmconsole.kubeapi.models import AuditEvent, Change, HeldBack, WorkItem
from ocmconsole.kubeapi.outbound import backlog
from ocmconsole.kubeapi.storage import audit_chain, database_clock
from ocmconsole.kubeapi.watch import change_log, redis_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

STUCK_ATTEMPTS = 3  # tries of a work item after which it is shown; fewer are races
SHOWN = 10  # lines of each list; the others are counted
LIMITS = {
    "OCMCONSOLE_LIMIT_REQUESTS": "requests a second",
    "OCMCONSOLE_LIMIT_IN_FLIGHT": "requests in flight",
    "OCMCONSOLE_LIMIT_WATCHES": "open watches",
    "OCMCONSOLE_LIMIT_STRANGERS": "requests a second without a valid credential",
    "OCMCONSOLE_LIMIT_BODIES": "bytes of bodies in flight",
    "OCMCONSOLE_LIMIT_STRANGER_BODIES": "bytes of bodies in flight without a valid credential",
    "OCMCONSOLE_LIMIT_CPU": "share of CPU time: delayed, not refused",
    "OCMCONSOLE_LIMIT_STATUS_SIZE": "size of a status",
    "OCMCONSOLE_LIMIT_CLAIMS": "claims of a cluster",
    "OCMCONSOLE_LIMIT_TOKEN_OBJECTS": "clusters and certificate requests of one credential",
}
KIB = 1024


@login_required
@require_GET
def hub_health(request: HttpRequest) -> HttpResponse:
    if MASTERS not in actor_of(request).groups:
        raise PermissionDenied("The hub's health is for its admins.")
    now = clock.now()
    checks = checkup.hub_problems() | {"reconcilers": list(_reconcilers(now))}
    unused = checkup.unused_checks()
    context = {
        "checks": [
            {"name": name, "problems": problems, "is_used": name not in unused} for name, problems in checks.items()
        ],
        "warnings": checkup.hub_warnings(),
        "wrong": sum(map(bool, checks.values())),
        "made_of": _made_of(),
        "serving": Serving.objects.first(),
        "log": _log(),
        "work": _work(),
        "audit": _audit(),
        "minutes": FleetMinute.objects.count(),
        "unauthorized": metrics.unauthorized(),
        "held_back": _held_back(),
        "held_back_more": max(HeldBack.objects.count() - SHOWN, 0),
    }
    return render(request, "console/hub.html", context)


def _reconcilers(now: datetime) -> Iterator[str]:
    """The clock looks at leases every two seconds; work that is due is done within one."""
    if Serving.objects.exists() and (trouble := reconcilers.clock_trouble()):
        yield trouble
    if trouble := workqueue.trouble(now):
        yield trouble


def _made_of() -> list[tuple[str, str]]:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB
    return [
        ("API", settings.OCMCONSOLE_API_URL),
        ("Console", settings.OCMCONSOLE_CONSOLE_URL),
        ("Database", {"postgresql": "PostgreSQL", "sqlite": "SQLite"}.get(connection.vendor, connection.vendor)),
        ("Redis", _redis()),
        ("Reconcilers", settings.OCMCONSOLE_CONTROLLERS),
        (
            "Certificates",
            f"{settings.OCMCONSOLE_CSR_SIGNER} signer, at most {span(settings.OCMCONSOLE_CERT_LIFETIME)}",
        ),
        ("Memory", f"{memory:,} MiB at most, in this process"),
        ("Python", f"{platform.python_version()}, Django {django.get_version()}"),
    ]


def _redis() -> str:
    if not settings.OCMCONSOLE_REDIS_URL:
        return "not used"
    return "away: the hub goes on without it" if redis_client.breaker.is_open else "in use"


def _log() -> dict[str, Any]:
    found = Change.objects.aggregate(count=Count("pk"), oldest=Min("time"), size=Sum("size"))
    return {"head": change_log.newest_revision(), **found, "most": settings.OCMCONSOLE_LIMIT_CHANGE_LOG}


def _work() -> dict[str, Any]:
    rows = WorkItem.objects.values("reconciler").annotate(count=Count("pk"), due=Min("due"), attempts=Max("attempts"))
    failing = WorkItem.objects.filter(attempts__gte=STUCK_ATTEMPTS).order_by("-attempts", "due")
    now = database_clock.now()
    return {
        "rows": [{**row, "is_due": row["due"] <= now} for row in rows.order_by("due")],
        "count": WorkItem.objects.count(),
        "failing": failing[:SHOWN],
        "failing_more": max(failing.count() - SHOWN, 0),
    }


def _held_back() -> list[dict[str, Any]]:
    """Who met a limit in the last week, the latest first (D23)."""
    return [
        {
            "row": row,
            "who": row.user or f"Callers without a valid credential from {row.address}",
            "words": LIMITS.get(row.limit, row.limit),
        }
        for row in HeldBack.objects.order_by("-last", "pk")[:SHOWN]
    ]


def _audit() -> dict[str, Any]:
    seal = audit_chain.newest_seal()
    retention = settings.OCMCONSOLE_AUDIT_RETENTION
    return {
        "seal": seal,
        "unsealed": audit_chain.count_unsealed(seal),
        "count": AuditEvent.objects.count(),
        "days": retention and retention.days,
        "outlets": backlog.backlogs(),
    }
