"""Reports in the console: figures, the first decisions, the whole as a file. Who may read what is as in Activity."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_GET

from ocmconsole.components import downloads
from ocmconsole.components.links import query_of
from ocmconsole.console import activity
from ocmconsole.console.reports import decisions, formats
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from ocmconsole.console.reports.decisions import DecisionReport
    from ocmconsole.kubeapi.access.actor import Actor

SHOWN = 50  # decisions on the page; the file has all
DAY = timedelta(days=1)


@login_required
@require_GET
def report(request: HttpRequest) -> HttpResponseBase:
    """Without a period it is the month before the present one."""
    actor = actor_of(request)
    first, last = _last_month(clock.now())
    since, until = _day(request.GET.get("from", ""), first), _day(request.GET.get("to", ""), last)
    kind = request.GET.get("kind", "")
    kind = kind if kind in decisions.KINDS else "decisions"
    form = request.GET.get("format", "")
    problem, found = "", None
    if until < since:
        problem = "The last day lies before the first one."
    else:
        try:
            if form in formats.MEDIA:
                return _download(actor, kind, since, until, form)
            found = _report(actor, kind, since, until)
        except decisions.TooManyDecisions as error:
            problem = f"{error}."
    return render(request, "console/reports/report.html", _context(actor, found, problem, kind, since, until))


def _context(
    actor: Actor, found: DecisionReport | None, problem: str, kind: str, since: date, until: date
) -> dict[str, Any]:
    given = {"from": str(since), "to": str(until), "kind": kind}
    return {
        "given": given,
        "since": given["from"],
        "kinds": [(name, each.label) for name, each in decisions.KINDS.items()],
        "report": found,
        "reads_all": activity.reads_all(actor),
        "shown": found.decisions[:SHOWN] if found else (),
        "facts": formats.facts_of(found) if found else [],
        "problem": problem[:1].upper() + problem[1:],
        "files": [(form.upper(), query_of({**given, "format": form})) for form in formats.MEDIA],
    }


def _report(actor: Actor, kind: str, since: date, until: date) -> DecisionReport:
    return decisions.make_report(
        activity.audit_for(actor),
        kind,
        _midnight(since),
        _midnight(until + DAY),
        reader=actor.user,
        with_chain=activity.reads_all(actor),
    )


def _download(actor: Actor, kind: str, since: date, until: date, form: str) -> HttpResponseBase:
    """Made while it is read, so that readers of reports share the few threads of exports."""

    def text() -> Iterator[str]:
        found = _report(actor, kind, since, until)
        yield formats.as_csv(found) if form == "csv" else formats.as_html(found)

    name = f"{kind}-{since}-{until}.{form}"
    return downloads.download(text(), reader=actor.user, name=name, content_type=formats.MEDIA[form])


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _day(text: str, default: date) -> date:
    try:
        found = parse_date(text) or default
    except ValueError:
        return default
    return min(max(found, date(1970, 1, 1)), date(9998, 12, 31))


def _last_month(now: datetime) -> tuple[date, date]:
    last = now.astimezone(UTC).date().replace(day=1) - DAY
    return last.replace(day=1), last
