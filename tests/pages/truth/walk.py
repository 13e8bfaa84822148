"""Every address of the console as one person: answers that may not be, words that may not stand on a page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.pages.truth.demofleet import WHOLE, Answer, Site, addresses
from tests.pages.truth.rows import Rows

# A page, a redirect, a refusal in the right form: never a failure.
STATUSES = {200, 302, 403, 404, 405}
UNWRITTEN = re.compile(
    r"\{\{|\{%|\[object|Traceback|\bundefined\b|\bNaN\b|\bnan\b|(?<![\w.])None(?=[,)\]}'])|(?<![\w.:/-])-\d+ (?:d|h|min|s)\b"
    r"|(?<!\d)(?<!,)\b0 (?:d|days)\b"
)
PEOPLE = re.compile(r"\b(?:[Hh]e|[Hh]is|[Hh]im|[Ss]he|[Hh]ers?)\b")
# "1 clusters", "2 cluster", "1 end within".
NOUNS = "approval|binding|certificate|change|claim|cluster|entry|gap|grant|item|key|label|member|minute|namespace|person|policy|request|result|set|time|token|use|day"
SINGULARS = re.compile(
    rf"(?<![\d.,\u2013:-])\b1 (?:{NOUNS.replace('entry', 'entrie').replace('policy', 'policie').replace('person', 'peopl')})e?s\b(?! left of)"
)
PLURALS = re.compile(rf"(?<![\d.,:v-])\b(?!1\b)\d+ (?:{NOUNS})\b(?![ -](?:of|requests?|s)\b)(?!/)")
VERBS = re.compile(r"(?<![\d.,])\b1 (?:end|ask|wait|need|say|have|are|were) ")


def contradictions(site: Site, person: str) -> list[tuple[str, str]]:
    hidden = hidden_from(site.rows, person)
    return [(path, flaw) for path in addresses(site, person) for flaw in _flaws(path, site.get(person, path), hidden)]


def hidden_from(rows: Rows, person: str) -> list[str]:
    """Names that no page may show to the person."""
    if person in WHOLE:
        return []
    seen = rows.seen_by(person)
    tokens = [str(token["name"]) for token in rows.tokens if "-" in str(token["name"]) or " " in str(token["name"])]
    return [*(name for name in rows.clusters if name not in seen), *tokens]


def _flaws(path: str, answer: Answer, hidden: list[str]) -> Iterator[str]:
    if answer.status not in STATUSES:
        yield f"answers {answer.status}"
    for name in hidden:
        # What was asked for is said back by a refusal.
        if name in answer.html and (answer.status == 200 and name not in path):
            yield f"shows {name}"
    if answer.status != 200 or "html" not in answer.type:
        return
    text = answer.text
    for pattern in (UNWRITTEN, PEOPLE, SINGULARS, PLURALS, VERBS):
        for found in pattern.finditer(text):
            yield text[max(found.start() - 30, 0) : found.end() + 30]
