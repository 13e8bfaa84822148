"""``manage.py audit``: ``verify`` computes the hash chain again, ``export`` writes entries, ``report`` decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_date, parse_datetime

from ocmconsole.environment import home
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_chain, audit_heads
from ocmconsole.kubeapi.storage.audit_heads import NotedHead

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django.db.models import QuerySet


READER = "the command line"


class Command(BaseCommand):
    help = "Checks the audit's hash chain, writes the audit as JSON lines, or a report of who decided what."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        verify = acts.add_parser("verify", help="exit code 1 when an entry was changed, removed or put elsewhere")
        verify.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="DIGEST|@FILE",
            help="a seal noted elsewhere, or a file with some: all must be in the chain",
        )
        export = acts.add_parser("export", help="entries as JSON lines, the oldest first")
        export.add_argument("--since", default="", metavar="TIME", help="2026-11-21 or 2026-11-21T14:00:00Z")
        export.add_argument("--until", default="", metavar="TIME", help="entries before this time")
        report = acts.add_parser(
            "report", help="who decided what in a time, on which evidence, with what the chain says"
        )
        report.add_argument("--from", dest="since", required=True, metavar="TIME", help="2026-10-01")
        report.add_argument("--to", dest="until", required=True, metavar="TIME", help="2026-10-31, with that day")
        report.add_argument("--kind", default="decisions", help="decisions, acceptances, bindings or rights")
        report.add_argument("--format", default="html", choices=("html", "csv"))
        report.add_argument("file", metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "verify":
            self._verify(options["head"])
        elif options["act"] == "report":
            self._report(options)
        else:
            for entry in _between(options["since"], options["until"]).iterator():
                self.stdout.write(audit_chain.line(entry).decode())

    def _verify(self, noted: list[str]) -> None:
        expected = [head for each in noted for head in _heads(each)]
        audit_chain.seal_entries()
        report = audit_chain.verify_chain(expected=expected)
        for flaw in report.flaws:
            self.stderr.write(f"seal {flaw.seal}: {flaw.text}")
        if report.flaws:
            raise CommandError("the audit is not as it was sealed")
        if report.missing:
            more = f" and {len(report.missing) - 1} more" if len(report.missing) > 1 else ""
            raise CommandError(
                f"the chain does not contain {report.missing[0]}{more}, noted elsewhere: its end was cut off, it was "
                "made anew, or the hub was restored from an older backup"
            )
        self.stdout.write(f"entries as they were sealed: {report.entries} (seals: {report.seals})")
        self.stdout.write(f"younger entries, not sealed yet: {report.unsealed}")
        if report.head:
            self.stdout.write(f"head: {report.head}")
        if (seal := report.vouched) is not None:
            self.stdout.write(
                f"vouched for from outside: entries up to {seal.last}, of {seal.newest:%Y-%m-%d %H:%M:%S} UTC, by seal "
                f"{seal.number} ({len(expected)} noted)"
            )

    def _report(self, options: dict[str, Any]) -> None:
        from ocmconsole.console.reports import decisions, formats  # noqa: PLC0415 - costs start time of the others

        if options["kind"] not in decisions.KINDS:
            raise CommandError(f"{options['kind']!r} must be one of {', '.join(decisions.KINDS)}")
        since, until = _instant(options["since"]), _instant(options["until"], with_day=True)
        if until <= since:
            raise CommandError("--to lies before --from")
        audit_chain.seal_entries()
        try:
            found = decisions.make_report(
                AuditEvent.objects.all(), options["kind"], since, until, reader=READER, is_whole=True
            )
            text = formats.as_csv(found) if options["format"] == "csv" else formats.as_html(found)
            home.write_file(Path(options["file"]), text.encode(), secret=True)
        except decisions.TooManyDecisions as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be written: {error.strerror}") from error
        assert found.chain is not None
        if found.chain.flaws:
            raise CommandError(found.chain.sentence)
        self.stdout.write(f"{len(found.decisions)} decisions; chain {found.chain.sentence}")


def _heads(noted: str) -> list[NotedHead]:
    """Of one ``--head``. Raises CommandError where there is none."""
    if not noted.startswith("@"):
        found = audit_heads.read_heads([noted])
    else:
        try:
            with Path(noted[1:]).open(encoding="utf-8") as lines:  # a whole stream may be large
                found = audit_heads.read_heads(lines)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{noted[1:]} cannot be read: {getattr(error, 'strerror', '') or error}") from error
    if not found:
        raise CommandError(f"{noted.removeprefix('@')} holds no digest of a seal: 64 hexadecimal digits in lower case")
    return found


def _between(since: str, until: str) -> QuerySet[AuditEvent]:
    rows = AuditEvent.objects.order_by("pk")
    if since:
        rows = rows.filter(time__gte=_moment(since))
    return rows.filter(time__lt=_moment(until)) if until else rows


def _instant(text: str, *, with_day: bool = False) -> datetime:
    """``with_day``: a date counts to its end."""
    found = datetime.fromisoformat(_moment(text))
    try:
        return found + timedelta(days=1) if with_day and parse_date(text) else found
    except OverflowError as error:
        raise CommandError(f"{text!r} is no such time: no day follows it") from error


def _moment(text: str) -> str:
    """A date counts from its first instant, UTC."""
    try:
        if parse_date(text):
            return f"{text}T00:00:00+00:00"
        if (found := parse_datetime(text)) and found.tzinfo:
            return found.astimezone(UTC).isoformat()
    except (OverflowError, ValueError) as error:
        raise CommandError(f"{text!r} is no such time: {error}") from error
    raise CommandError(f"{text!r} must be like 2026-11-21 or 2026-11-21T14:00:00Z")
