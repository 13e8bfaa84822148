"""``manage.py support-bundle``: what a maintainer needs to understand a hub, without its secrets.

In: this home and database, which may be away. Out: a ``tar.gz`` of texts, mode 0600. No document, key or token is read
for it: settings that are numbers, switches or one of few words stand with their values, of all others only whether they
are set. Names of clusters and people, and addresses of callers, stand in it only where a line of ``manage.py doctor``
names one; those of notification channels also as labels of metrics.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Max, Min, Q, Sum

from clusters.health import status_sql
from clusters.models import ManagedCluster
from ocmconsole.console import checkup
from ocmconsole.environment.durations import span
from ocmconsole.environment.home import replacing
from ocmconsole.kubeapi import clock, kinds, request_cache
from ocmconsole.kubeapi.health import metrics, outages, probes
from ocmconsole.kubeapi.models import AuditEvent, Change, Incarnation, WorkItem
from ocmconsole.kubeapi.storage import audit_chain
from ocmconsole.kubeapi.watch import change_log
from registration.models import IssuedCertificate
from registration.pki import ca

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "OCMCONSOLE_"
# Settings that are one of few words, as ``readers.choice`` checks; every other text may be a secret or name somebody.
CHOICES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "CONTROLLERS",
        "CSR_SIGNER",
        "EVICTION_BRAKE",
        "LOG_FORMAT",
        "MISCONFIGURED_PLACEMENTS",
        "UNKNOWN_CERTIFICATES",
    )
)
Part = Callable[[], Any]


def write(path: Path) -> list[str]:
    """Names of the bundle's files. OSError where the file cannot be written; then there is none."""
    found = {name: _content(part) for name, part in PARTS.items()}
    moment = clock.now()
    with replacing(path, secret=True) as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, content in found.items():
            entry = tarfile.TarInfo(f"support-bundle/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(moment.timestamp()), 0o600
            bundle.addfile(entry, io.BytesIO(content))
    return list(found)


def _content(part: Part) -> bytes:
    """What cannot be read says why: a bundle is wanted when something is wrong."""
    try:
        found = part()
    except DatabaseError as error:
        found = {"error": outages.operator_line(error)}
    except (OSError, ca.AuthorityError) as error:
        found = {"error": str(error)}
    return found if isinstance(found, bytes) else json.dumps(found, indent=2, default=_as_text).encode() + b"\n"


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _machine() -> dict[str, Any]:
    disk = shutil.disk_usage(settings.OCMCONSOLE_HOME)
    return {
        "time": clock.now(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "home_disk": {"size_bytes": disk.total, "free_bytes": disk.free},
        "packages": {each.name: each.version for each in sorted(metadata.distributions(), key=lambda each: each.name)},
    }


def _settings() -> dict[str, Any]:
    names = sorted(name for name in dir(settings) if name.startswith(PREFIX))
    return {name: _shown(name, getattr(settings, name)) for name in names}


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return span(value)
    if value is None or isinstance(value, bool | int) or name in CHOICES:
        return value
    if isinstance(value, dict) and all(isinstance(each, bool) for each in value.values()):
        return value  # feature gates
    return "set" if value else "not set"


def _checks() -> dict[str, Any]:
    with request_cache.sharing():
        return {
            "problems": checkup.hub_problems(),
            "warnings": checkup.hub_warnings(),
            "not used": sorted(checkup.unused_checks()),
        }


def _database() -> dict[str, Any]:
    with connection.cursor() as cursor:
        postgres = connection.vendor == "postgresql"
        cursor.execute("SHOW server_version" if postgres else "SELECT sqlite_version()")
        version = cursor.fetchone()[0]
        cursor.execute(
            "SELECT pg_database_size(current_database())"
            if postgres
            else "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        )
        size = cursor.fetchone()[0]
    log = Change.objects.aggregate(count=Count("pk"), oldest=Min("time"), size_bytes=Sum("size"))
    return {
        "vendor": connection.vendor,
        "version": version,
        "size_bytes": size,
        "migrations_missing": sorted(".".join(each) for each in probes.unapplied()),
        "incarnations": list(Incarnation.objects.order_by("pk").values("number", "begun_at", "activated_at")),
        "revision": change_log.newest_revision(),
        "change_log": log,
        "rows": {str(kind): kind.model.objects.count() for kind in kinds.all_kinds()},
    }


def _work() -> dict[str, Any]:
    now = clock.now()
    rows = WorkItem.objects.values("reconciler").annotate(
        count=Count("pk"),
        oldest=Min("due"),
        are_due=Count("pk", Q(due__lte=now)),
        most_attempts=Max("attempts"),
    )
    return {"time": now, "reconcilers": list(rows.order_by("reconciler"))}


def _clusters() -> dict[str, int]:
    """How many of each state, by the words of the console."""
    words = {rank: str(word) for word, rank in status_sql.RANKS.items()}
    found = status_sql.with_word(ManagedCluster.objects.all(), clock.now())
    counts = found.values_list("rank").annotate(count=Count("pk")).order_by("rank")
    return {words[rank]: count for rank, count in counts}


def _certificates() -> dict[str, Any]:
    now, home = clock.now(), settings.OCMCONSOLE_HOME
    issued = IssuedCertificate.objects
    authorities = {"clients": ca.client_authority(home), "serving": ca.serving_authority(home)}
    return {
        "authorities": {name: each.certificate.not_valid_after_utc for name, each in authorities.items()},
        "issued": issued.count(),
        "valid": issued.filter(not_after__gt=now, revoked_at=None).count(),
        "revoked": issued.exclude(revoked_at=None).count(),
        "next_end": issued.filter(not_after__gt=now, revoked_at=None).aggregate(Min("not_after"))["not_after__min"],
    }


def _audit() -> dict[str, Any]:
    seal = audit_chain.newest_seal()
    return {
        "entries": AuditEvent.objects.count(),
        "sealed": seal and {"number": seal.number, "last": seal.last},
        "not_sealed": audit_chain.count_unsealed(seal),
    }


PARTS: dict[str, Part] = {
    "machine.json": _machine,
    "settings.json": _settings,
    "checks.json": _checks,
    "database.json": _database,
    "work.json": _work,
    "clusters.json": _clusters,
    "certificates.json": _certificates,
    "audit.json": _audit,
    "metrics.txt": metrics.exposition,
}
