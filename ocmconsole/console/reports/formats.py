"""A report as a file: CSV that a spreadsheet takes for text, and HTML that needs nothing else and prints."""

from __future__ import annotations

import csv
import io
from datetime import UTC
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.html import format_html, format_html_join

from clusters.fleet.export_pages import safe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.utils.safestring import SafeString

    from ocmconsole.console.reports.decisions import DecisionReport, ReportedDecision

MEDIA = {"html": "text/html; charset=utf-8", "csv": "text/csv; charset=utf-8"}
COLUMNS = (
    "time", "user", "impersonator", "way", "address", "credential", "decision", "act", "kind", "namespace", "name",
    "reason", "changes", "verdict", "evidence", "keys", "entry", "seal", "sealDigest",
)  # fmt: skip
STYLE = """
body{font:14px/1.45 system-ui,sans-serif;color:#151515;background:#fff;margin:2rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:1.5rem 0 .5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dt{font-weight:600}
dd{margin:0;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}
th,td{border:1px solid #a3a3a3;padding:.3rem .5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}
th{background:#f0f0f0}thead{display:table-header-group}tr{break-inside:avoid}ul{margin:0;padding-left:1.1rem}
.wrong{border:2px solid #b1380b;padding:.5rem;font-weight:600}.small{font-size:.85em;color:#4d4d4d}
@media print{body{margin:0;font-size:10px}@page{size:A4 landscape;margin:12mm}}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def facts_of(report: DecisionReport) -> list[tuple[str, str]]:
    """What stands above the rows, in both forms."""
    chain = report.chain
    head = f"seal {chain.head.number}: {chain.head.digest}" if chain and chain.head else "none"
    covering = "none"
    if chain and chain.covering:
        seal = chain.covering
        covering = f"seal {seal.number} up to entry {seal.last} of {_time(seal.newest)}: {seal.digest}"
    return [
        ("report", report.label),
        ("hub", settings.OCMCONSOLE_HUB_NAME),
        ("from", _time(report.since)),
        ("before", _time(report.until)),
        ("made", f"{_time(report.made_at)} for {report.reader}"),
        ("decisions", str(len(report.decisions))),
        ("audit entries in this time", str(report.entries)),
        *(
            [("head of the chain", head), ("seal that covers the period", covering), ("chain", chain.sentence)]
            if chain
            else [("chain", "limited to what this reader may see; auditors read whether the chain is intact")]
        ),
        ("SHA-256 of the entries", report.digest),
    ]


def as_csv(report: DecisionReport) -> str:
    """Lines that begin with # say what the report is; the rows follow under their names."""
    text = io.StringIO()
    writer = csv.writer(text)
    for name, value in facts_of(report):
        writer.writerow([f"# {name}: {' '.join(value.splitlines())}"])
    writer.writerow(COLUMNS)
    for decision in report.decisions:
        writer.writerow([safe(cell) for cell in _cells(decision)])
    return text.getvalue()


def _cells(decision: ReportedDecision) -> list[str]:
    entry, seal = decision.entry, decision.seal
    return [
        _time(entry.time), entry.user, entry.impersonator, decision.way, entry.address, entry.credential,
        decision.title, entry.act, decision.kind, entry.namespace, entry.name, entry.reason, decision.changes,
        decision.verdict, "; ".join(decision.facts), "; ".join(decision.keys), str(entry.pk),
        str(seal.number) if seal else "", seal.digest if seal else "",
    ]  # fmt: skip


def as_html(report: DecisionReport) -> SafeString:
    wrong = format_html('<p class="wrong">{}</p>', report.chain.sentence) if report.chain and report.chain.flaws else ""
    facts = format_html_join(
        "", "<dt>{}</dt><dd>{}</dd>", ((name.capitalize(), value) for name, value in facts_of(report))
    )
    return format_html(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="{}"><meta name="viewport" content="width=device-width">'
        "<title>{} · {}</title><style>{}</style></head><body><h1>{}</h1>{}<dl>{}</dl>"
        '<h2 id="acts">By decision</h2>{}<h2 id="users">By user</h2>{}<h2 id="rows">Decisions</h2>{}</body></html>\n',
        POLICY,
        report.label,
        settings.OCMCONSOLE_HUB_NAME,
        STYLE,
        report.label,
        wrong,
        facts,
        _counts("Decision", report.by_act),
        _counts("User", report.by_user),
        _rows(report.decisions),
    )


def _counts(name: str, counts: list[tuple[str, int]]) -> SafeString:
    rows = format_html_join("", "<tr><td>{}</td><td>{}</td></tr>", counts)
    return format_html("<table><thead><tr><th>{}</th><th>Count</th></tr></thead><tbody>{}</tbody></table>", name, rows)


def _rows(decisions: Iterable[ReportedDecision]) -> SafeString:
    rows = format_html_join(
        "",
        '<tr><td>{}</td><td>{}</td><td>{}<br><span class="small">{}</span></td><td>{}</td><td>{} <b>{}</b>{}</td>'
        '<td>{}</td><td>{}</td><td>{}<br><span class="small">{}</span></td></tr>',
        (
            (
                _time(each.entry.time),
                f"{each.entry.user}, really {each.entry.impersonator}" if each.entry.impersonator else each.entry.user,
                each.way,
                each.entry.address,
                each.title,
                each.kind,
                each.entry.name,
                f" in {each.entry.namespace}" if each.entry.namespace else "",
                " ".join(filter(None, (each.entry.reason, each.changes))),
                _evidence(each),
                each.entry.pk,
                f"seal {each.seal.number}" if each.seal else "not sealed",
            )
            for each in decisions
        ),
    )
    return format_html(
        "<table><thead><tr><th>When</th><th>Who</th><th>Way in</th><th>Decision</th><th>On</th><th>Reason, change</th>"
        "<th>Evidence at the decision</th><th>Entry</th></tr></thead><tbody>{}</tbody></table>",
        rows,
    )


def _evidence(decision: ReportedDecision) -> SafeString | str:
    if not decision.verdict:
        return "none kept" if decision.is_on_evidence else ""
    lines = format_html_join("", "<li>{}</li>", ((line,) for line in (*decision.facts, *decision.keys)))
    return format_html("{}<ul>{}</ul>", decision.verdict, lines)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
