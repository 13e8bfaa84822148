"""Views of the cluster list: those that everybody has, and those that a person has saved under a name.

A view is a query of the list's URL and nothing more: it shows what its owner may see at the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from clusters.models import SavedView
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

MOST = 20  # views of one person, which fit into the menu


class View(NamedTuple):
    """``counts`` names the figure of the census that stands beside the label."""

    label: str
    query: str
    counts: str = ""
    id: int = 0


EVERYBODYS = (
    View("All", ""),
    View("Latest changes", "sort=since"),
    View("Needs attention", "status=attention", "troubled"),
    View("Ended or ending in 30 days", "certificate=expired&certificate=week&certificate=soon", "expiring"),
)


def views_of(user: AbstractBaseUser | Any) -> list[View]:
    own = SavedView.objects.filter(user=user.pk).order_by("name")
    return [*EVERYBODYS, *(View(view.name, view.query, id=view.pk) for view in own[:MOST])]


def save_view(user: AbstractBaseUser | Any, name: str, query: str) -> None:
    """Under a name of one's own; the same name again means the new query. Raises Conflict when there are too many."""
    others = SavedView.objects.filter(user=user.pk).exclude(name=name)
    if others.count() >= MOST:
        raise errors.Conflict(f"You have {MOST} saved views, which is as many as fit. Forget one first.")
    SavedView.objects.update_or_create(user_id=user.pk, name=name, defaults={"query": query})


def delete_saved_view(user: AbstractBaseUser | Any, id_: int) -> str:
    """The name of what is gone, or nothing where there was none."""
    view = SavedView.objects.filter(user=user.pk, pk=id_).first()
    if view is None:
        return ""
    view.delete()
    return view.name
