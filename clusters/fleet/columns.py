"""The columns of the cluster list: which there are, and which of them a person wants to see.

A claim is a column too, written ``claim:NAME``. Called by the views of the list and by its exports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusters.claims import ClaimFilter
from clusters.models import ListChoice

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

CLAIM = "claim:"
MOST_CLAIMS = 6  # columns of claims that fit beside the others
LONGEST_NAME = 253  # characters of a claim's name, a DNS subdomain


@dataclass(frozen=True, slots=True)
class ListColumn:
    """``order`` names what it sorts by; ``yields`` is the class by which it gives way on smaller screens."""

    id: str
    label: str
    order: str = ""
    yields: str = ""


COLUMNS = {
    column.id: column
    for column in (
        ListColumn("status", "Status", "status"),
        ListColumn("since", "In state", "since"),
        ListColumn("heard", "Last heard", "heard"),
        ListColumn("sets", "Set"),
        ListColumn("version", "Version", "version", "oc-hide-m"),
        ListColumn("certificate", "Certificate", "certificate", "oc-hide-m"),
        ListColumn("taints", "Taints", "", "oc-hide-l"),
        ListColumn("accepted", "Accepted"),
        ListColumn("age", "Age", "age", "oc-hide-l"),
    )
}
DEFAULT = ("status", "since", "heard", "sets", "version", "certificate", "taints")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one person looks at; the name is always there."""

    ids: tuple[str, ...] = DEFAULT
    is_comfortable: bool = False

    @property
    def columns(self) -> list[ListColumn]:
        return [COLUMNS.get(each) or ListColumn(each, _label(each), yields="oc-hide-l") for each in self.ids]

    @property
    def claims(self) -> list[str]:
        return [each.removeprefix(CLAIM) for each in self.ids if each.startswith(CLAIM)]


def chosen_by(user: AbstractBaseUser | Any) -> Chosen:
    choice = ListChoice.objects.filter(user=user.pk).first()
    return Chosen(_known(choice.columns), choice.is_comfortable) if choice is not None else Chosen()


def save_columns(user: AbstractBaseUser | Any, ids: Iterable[str], *, is_comfortable: bool) -> None:
    """Remember what a person wants; what is no column is left out."""
    kept = {"columns": list(_known(ids)), "is_comfortable": is_comfortable}
    ListChoice.objects.update_or_create(user_id=user.pk, defaults=kept)


def _known(ids: Iterable[str]) -> tuple[str, ...]:
    """In the order of ``COLUMNS``; claims stand before the taints, as they come."""
    asked = list(dict.fromkeys(str(each) for each in ids))
    claims = [each for each in asked if each.startswith(CLAIM) and _is_claim(each.removeprefix(CLAIM))][:MOST_CLAIMS]
    plain = [each for each in COLUMNS if each in asked]
    before = next((place for place, each in enumerate(plain) if each in {"taints", "accepted", "age"}), len(plain))
    return (*plain[:before], *claims, *plain[before:])


def _is_claim(name: str) -> bool:
    return ClaimFilter(name).is_possible and len(name) <= LONGEST_NAME


def _label(id_: str) -> str:
    """The last part of a claim's name, as people call it: ``region``, ``platform``."""
    name = id_.removeprefix(CLAIM)
    return name.partition(".")[0].capitalize()
