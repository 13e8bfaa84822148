"""The list as a file: every cluster that the filter finds and the person may see, streamed as CSV or JSON."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.views.decorators.http import require_GET

from clusters.fleet import columns
from clusters.fleet.filters import Filters
from clusters.fleet.listing import Listing
from ocmconsole.components import downloads
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.schema.times import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, StreamingHttpResponse

    from clusters.queries import Observed

MEDIA = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
# A spreadsheet takes a cell that begins so for a formula, and runs it; full-width forms of these too. Agents write
# claims and versions.
FORMULA = ("=", "+", "-", "@")
SEPARATOR = ";"  # of cells too, where a comma is part of numbers: quotes do not help there


@login_required
@require_GET
def export(request: HttpRequest, form: str) -> StreamingHttpResponse:
    if form not in MEDIA:
        raise Http404("Clusters are exported as csv or json.")
    actor = actor_of(request)
    asked = Listing(actor, Filters.read(request.GET), clock.now())
    claims = columns.chosen_by(request.user).claims
    records = (_record(each, asked, claims) for each in asked.everything(claims))
    lines = _csv(records, claims) if form == "csv" else _json(records)
    name = f"clusters-{asked.now:%Y-%m-%d-%H%M}.{form}"
    return downloads.download(lines, reader=actor.user, name=name, content_type=MEDIA[form])


def _record(found: Observed, asked: Listing, claims: list[str]) -> dict[str, Any]:
    row, known = found.row, found.row.facts
    present = {claim.name: claim.value for claim in row.claims.all()} if claims else {}
    return {
        "name": row.name,
        "status": found.status.word.value,
        "since": _time(found.status.since),
        "sentence": found.status.sentence,
        "sets": asked.sets_of(row),
        "version": row.kubernetes_version,
        "lastHeard": _time(found.last_heard),
        "certificateEnds": _time(known.certificate_not_after if known else None),
        "certificateRevoked": _time(known.certificate_revoked_at if known else None),
        "accepted": row.hub_accepts_client,
        "taints": [str(taint) for taint in row.taints.all()],
        "created": _time(row.created),
        "claims": {name: present.get(name, "") for name in claims},
    }


def _time(moment: datetime | None) -> str:
    return timestamp(moment) if moment is not None else ""


class _Line:
    """A file for the csv writer: ``write`` returns the line."""

    def write(self, line: str) -> str:
        return line


def _csv(records: Iterator[dict[str, Any]], claims: list[str]) -> Iterator[str]:
    writer = csv.writer(_Line())
    plain = [
        "name",
        "status",
        "since",
        "sentence",
        "sets",
        "version",
        "lastHeard",
        "certificateEnds",
        "certificateRevoked",
        "accepted",
        "taints",
        "created",
    ]
    yield writer.writerow([*plain, *map(safe, claims)])
    for record in records:
        cells = [record[name] for name in plain] + [record["claims"][name] for name in claims]
        yield writer.writerow([safe(" ".join(cell) if isinstance(cell, list) else str(cell)) for cell in cells])


def safe(cell: str) -> str:
    """As text in one line, whatever a spreadsheet makes of text."""
    line = " ".join(cell.splitlines())
    return SEPARATOR.join(map(_marked, line.split(SEPARATOR)))


def _marked(part: str) -> str:
    first = unicodedata.normalize("NFKC", part.lstrip()[:1])
    return f"'{part}" if first.startswith(FORMULA) else part


def _json(records: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    before = b"[\n"
    for record in records:
        yield before + orjson.dumps(record)
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"
