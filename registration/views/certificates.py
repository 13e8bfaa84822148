"""Client certificates of all clusters that a person sees, those that end first; and the authority that signs them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, OuterRef, Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.models import ClusterFacts
from ocmconsole.kubeapi.actor import MASTERS
from ocmconsole.kubeapi.links import query_of
from ocmconsole.kubeapi.session import actor_of
from registration import ca, foundation
from registration.cursors import Cursor
from registration.models import IssuedCertificate

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from ocmconsole.kubeapi.actor import Actor

PAGE = 50
REVOKED_SHOWN = 50
LONGEST = 253
SOON, MONTH = timedelta(days=7), timedelta(days=30)
LANES = {"": "In use", "ended": "Ended", "week": "Within 7 days", "month": "Within 30 days", "revoked": "Revoked",
         "past": "Replaced"}  # fmt: skip


@login_required
@require_GET
def certificate_list(request: HttpRequest) -> HttpResponse:
    """The certificate in use of each cluster; other lanes show what was revoked or replaced."""
    now = timezone.now()
    lane = request.GET.get("lane", "") if request.GET.get("lane", "") in LANES else ""
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    visible = _visible(actor_of(request))
    lanes = _lanes(now)
    counts = visible.aggregate(**{f"n_{name}": Count("pk", filter=condition) for name, condition in lanes.items()})
    rows = visible.filter(lanes[lane])
    if query:
        rows = rows.filter(
            Q(common_name__contains=query) | Q(serial__istartswith=query) | Q(pk__startswith=query.lower())
        )
    falls = lane in {"revoked", "past"}
    order = ("-not_after", "-pk") if falls else ("not_after", "pk")  # what matters next comes first
    if after := Cursor.read(request.GET.get("after", "")):
        rows = rows.filter(after.beyond(*order))
    found = list(rows.order_by(*order)[: PAGE + 1])
    shown = found[:PAGE]
    chosen = {name: value for name, value in (("lane", lane), ("q", query)) if value}
    context = {
        "rows": [{"issued": row, "days": (row.not_after - now).days, "is_over": row.not_after <= now} for row in shown],
        "lanes": [
            {
                "label": label,
                "count": counts[f"n_{name}"],
                "url": query_of({**chosen, "lane": name}),
                "current": name == lane,
            }
            for name, label in LANES.items()
        ],
        "lane": lane,
        "query": query,
        "counts": {name: counts[f"n_{name}"] for name in LANES},
        "next_after": str(Cursor(shown[-1].not_after, shown[-1].pk)) if len(found) > PAGE else "",
    }
    return render(request, "registration/certificates.html", context)


def _visible(actor: Actor) -> QuerySet[Any]:
    """Those of clusters that he sees; with the mark whether it is the one in use."""
    newest = ClusterFacts.objects.filter(cluster=OuterRef("cluster"), certificate_fingerprint=OuterRef("pk"))
    rows = IssuedCertificate.objects.exclude(cluster="").annotate(in_use=Exists(newest))
    return rows.filter(cluster__in=clusters.clusters_for(actor).order_by().values("name"))


def _lanes(now: datetime) -> dict[str, Q]:
    used = Q(in_use=True, revoked_at=None)
    return {
        "": used,
        "ended": used & Q(not_after__lte=now),
        "week": used & Q(not_after__gt=now, not_after__lte=now + SOON),
        "month": used & Q(not_after__gt=now, not_after__lte=now + MONTH),
        "revoked": Q(revoked_at__isnull=False),
        "past": Q(in_use=False, revoked_at=None),
    }


# ---------------------------------------------------------------- the authority


@login_required
@require_GET
def authority(request: HttpRequest) -> HttpResponse:
    """What signs, what the API shows, and what was revoked. For admins; the certificate itself is no secret."""
    if MASTERS not in actor_of(request).groups:
        raise PermissionDenied("The hub's authority is for its admins.")
    now, home = timezone.now(), settings.OCMCONSOLE_HOME
    chain = [
        ca.parse_certificate((home / "ca.crt").read_bytes()),
        ca.parse_certificate((home / "serving.crt").read_bytes()),
    ]
    revoked = IssuedCertificate.objects.filter(revoked_at__isnull=False).order_by("-revoked_at")
    alive = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=now)
    context = {
        "authority": {"certificate": chain[0], "days": (chain[0].not_after - now).days},
        "serving": {
            "certificate": chain[1],
            "days": (chain[1].not_after - now).days,
            "names": sorted(foundation.serving_names()),
        },
        "lifetime": settings.OCMCONSOLE_CERT_LIFETIME.days,
        "is_external": settings.OCMCONSOLE_CSR_SIGNER == "external",
        "alive": alive.exclude(cluster="").count(),
        "people": alive.filter(cluster="").order_by("not_after")[:REVOKED_SHOWN],
        "revoked": revoked[:REVOKED_SHOWN],
        "revoked_count": revoked.count(),
    }
    return render(request, "registration/ca.html", context)


@login_required
@require_GET
def authority_file(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view's signature
    """``ca.crt``, which every client is told to trust."""
    text = (settings.OCMCONSOLE_HOME / "ca.crt").read_bytes()
    name = 'attachment; filename="ca.crt"'
    return HttpResponse(text, content_type="application/x-pem-file", headers={"Content-Disposition": name})
