"""Who is listed on the access pages, and what each holds: people, groups, names that only RBAC knows. Reads only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User

from ocmconsole.access import who_can
from ocmconsole.access.who_can import Source
from ocmconsole.core.rbac.rule_index import Subject

PAGE = 25  # rows


@dataclass(frozen=True, slots=True)
class SubjectLine:
    """A person or a group. ``row`` is its account here, None for a name that only RBAC knows.

    ``sources`` are all of a user's, also those of the user's groups.
    """

    subject: Subject
    row: Any
    sources: list[Source]
    groups: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def sentences(self) -> list[str]:
        return who_can.sentences(self.sources)


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """``total`` counts those that fit, ``everybody`` all people and groups."""

    lines: list[SubjectLine]
    total: int
    number: int
    everybody: int

    @property
    def first(self) -> int:
        return (self.number - 1) * PAGE + 1

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def has_next(self) -> bool:
        return self.last < self.total


def people_page(number: int, *, kind: str = "", query: str = "") -> PeoplePage:
    """One page of everybody, people first, in the order of their names."""
    held = who_can.held_by()
    subjects = {Subject("User", name) for name in User.objects.values_list("username", flat=True)}
    subjects |= {Subject("Group", name) for name in Group.objects.values_list("name", flat=True)}
    wanted = [
        subject
        for subject in subjects | set(held)
        if kind in {"", subject.kind.lower()} and query.lower() in subject.name.lower()
    ]
    wanted.sort(key=lambda subject: (subject.kind != "User", subject.name.lower(), subject.name))
    number = max(1, min(number, -(-len(wanted) // PAGE)))
    shown = wanted[(number - 1) * PAGE : number * PAGE]
    return PeoplePage(lines(shown, held), len(wanted), number, len(subjects | set(held)))


def lines(subjects: list[Subject], held: dict[Subject, list[Source]]) -> list[SubjectLine]:
    people = [subject.name for subject in subjects if subject.kind == "User"]
    groups = [subject.name for subject in subjects if subject.kind == "Group"]
    rows: dict[Subject, Any] = {
        Subject("User", row.username): row
        for row in User.objects.filter(username__in=people).prefetch_related("groups")
    }
    rows |= {
        Subject("Group", row.name): row for row in Group.objects.filter(name__in=groups).prefetch_related("user_set")
    }
    return [_line(subject, rows.get(subject), held) for subject in subjects]


def _line(subject: Subject, row: Any, held: dict[Subject, list[Source]]) -> SubjectLine:
    sources = held.get(subject, [])
    if isinstance(row, User):
        groups = sorted(group.name for group in row.groups.all())
        inherited = [source for group in groups for source in held.get(Subject("Group", group), [])]
        return SubjectLine(subject, row, [*sources, *inherited], groups=groups)
    return SubjectLine(subject, row, sources, size=len(row.user_set.all()) if row else 0)


def groups_by_person() -> dict[str, list[str]]:
    """Groups of each person."""
    found: dict[str, list[str]] = {}
    for name, group in User.groups.through.objects.values_list("user__username", "group__name"):
        found.setdefault(name, []).append(group)
    return found
