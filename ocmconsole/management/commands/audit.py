"""``manage.py audit verify`` computes the hash chain of the audit again; ``audit export`` writes it as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_date, parse_datetime

from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit_chain

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django.db.models import QuerySet


class Command(BaseCommand):
    help = "Checks the audit's hash chain, or writes the audit as JSON lines."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        verify = acts.add_parser("verify", help="exit code 1 when an entry was changed, removed or put elsewhere")
        verify.add_argument("--head", default="", metavar="DIGEST", help="a seal noted elsewhere, which must be there")
        export = acts.add_parser("export", help="entries as JSON lines, the oldest first")
        export.add_argument("--since", default="", metavar="TIME", help="2026-11-21 or 2026-11-21T14:00:00Z")
        export.add_argument("--until", default="", metavar="TIME", help="entries before this time")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "verify":
            self._verify(options["head"])
        else:
            for entry in _between(options["since"], options["until"]).iterator():
                self.stdout.write(audit_chain.line(entry).decode())

    def _verify(self, head: str) -> None:
        audit_chain.seal_entries()
        report = audit_chain.verify_chain(expected=head)
        for flaw in report.flaws:
            self.stderr.write(f"seal {flaw.seal}: {flaw.text}")
        if report.flaws:
            raise CommandError("the audit is not as it was sealed")
        self.stdout.write(f"entries as they were sealed: {report.entries} (seals: {report.seals})")
        self.stdout.write(f"younger entries, not sealed yet: {report.unsealed}")
        if report.head:
            self.stdout.write(f"head: {report.head}")


def _between(since: str, until: str) -> QuerySet[AuditEvent]:
    rows = AuditEvent.objects.order_by("pk")
    if since:
        rows = rows.filter(time__gte=_moment(since))
    return rows.filter(time__lt=_moment(until)) if until else rows


def _moment(text: str) -> str:
    """A date counts from its first instant, UTC."""
    try:
        if parse_date(text):
            return f"{text}T00:00:00+00:00"
        if (found := parse_datetime(text)) and found.tzinfo:
            return text
    except ValueError as error:
        raise CommandError(f"{text!r} is no such time: {error}") from error
    raise CommandError(f"{text!r} must be like 2026-11-21 or 2026-11-21T14:00:00Z")
