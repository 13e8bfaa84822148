"""One visit of the playground: namespace, stored Placement and draft as the address or the form names them.

What a draft answers nobody could not learn by creating the Placement, so it takes that right, or to see every cluster
and the bindings of the namespace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from clusters import queries as clusters
from clusters.kinds import spec_of
from clustersets import queries as clustersets
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.rights import visible_bindings
from clustersets.rights.set_rights import may_access
from ocmconsole.components.refusals import plain
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from placements import queries
from placements.controller import preview, scheduling
from placements.kinds import PLACEMENT
from placements.playground import drafts
from placements.playground.drafts import Draft, Pretence
from placements.playground.pretending import WhatIf

if TYPE_CHECKING:
    from django.http import HttpRequest

    from clustersets.membership import Membership
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.preview import PlacementPreview
    from placements.models import Placement

SUGGESTED = 100  # namespaces that a field offers
YAML = "yaml"


@dataclass
class Try:
    """``stored``: the Placement that it starts from. ``problems``: texts by section of the form.

    ``row_problems``: by kind and number of a row. ``added``: a kind of row of which the form shows one more.
    """

    actor: Actor
    now: datetime
    namespace: str
    stored: Placement | None
    draft: Draft
    is_yaml: bool
    sets: list[Membership]
    problems: dict[str, list[str]] = field(default_factory=dict)
    row_problems: dict[tuple[str, int], list[errors.Cause]] = field(default_factory=dict)
    added: str = ""

    @classmethod
    def opened(cls, request: HttpRequest) -> Try:
        """From the address, or the fields of the form. What is no draft is an empty one, and said to be none."""
        actor, now = actor_of(request), clock.now()
        data = request.POST if request.method == "POST" else request.GET
        namespace, _, name = without_nul(data, "from").partition("/")
        stored = queries.placements_for(actor).filter(namespace=namespace, name=name).first() if name else None
        problems: dict[str, list[str]] = {}
        draft = Draft(dict(spec_of(stored.doc)) if stored is not None else {})
        if text := data.get("d", ""):
            try:
                draft = Draft.read(text)
            except ValueError as error:
                problems[""] = [f"{str(error).capitalize()}: this begins anew."]
        wanted = without_nul(data, "namespace") or (stored.namespace if stored else "") or _first_namespace(actor)
        found = cls(actor, now, wanted, stored, draft, data.get("as") == YAML, clustersets.memberships_for(actor))
        found.problems = problems
        found.added = str(data.get("add", ""))
        return found

    @property
    def origin(self) -> str:
        return f"{self.stored.namespace}/{self.stored.name}" if self.stored else ""

    def address(self, draft: Draft | None = None, *, to: str = "placements:playground", **more: str) -> str:
        found = {"namespace": self.namespace, "from": self.origin, "d": (draft or self.draft).encoded(), **more}
        if self.is_yaml:
            found.setdefault("as", YAML)
        return f"{reverse(to)}?{urlencode({name: each for name, each in found.items() if each})}"

    @property
    def may_try(self) -> bool:
        return bool(self.namespace) and may_try(self.actor, self.namespace)

    @property
    def replaced(self) -> Placement | None:
        """The stored Placement whose decisions the draft is compared with."""
        return self.stored if self.stored is not None and self.stored.namespace == self.namespace else None

    def check(self, spec: Doc) -> None:
        """Fills the problems with what the schema finds."""
        try:
            drafts.checked(spec)
        except errors.ApiError as error:
            self.add_problems(error)

    def add_problems(self, error: errors.ApiError) -> None:
        rest = []
        for cause in error.causes:
            row = drafts.row_of(cause)
            if row is None or self.is_yaml:
                rest.append(cause)
            else:
                self.row_problems.setdefault(row, []).append(cause)
        self.problems = drafts.by_section(rest) or ({} if self.row_problems else {"": [plain(error.message)]})

    def work_out(self, pretences: tuple[Pretence, ...], also_bound: tuple[str, ...] = ()) -> PlacementPreview:
        """Raises Unfinished; ValueError for what cannot be pretended."""
        what_if = WhatIf.of(pretences, self.sets, self.now)
        bound = {*what_if.bound, *also_bound}
        stored = self.replaced
        rows = queries.decisions_of(stored.namespace, stored.name) if stored is not None else []
        return preview.preview(
            self.actor,
            self.namespace,
            drafts.checked(self.draft.spec),
            present=scheduling.decided_in(rows),
            key=stored.key if stored is not None else None,
            now=self.now + what_if.later,
            also_bound=[each for each in self.sets if each.name in bound],
            pretend=what_if.clusters if what_if.changes else None,
        )


def without_nul(data: Any, name: str) -> str:
    """A field without NUL, which no database takes."""
    return str(data.get(name, "")).replace("\0", "").strip()


def _first_namespace(actor: Actor) -> str:
    """The first in which a set is bound, as the user sees bindings."""
    for namespace in visible_bindings.bindings_for(actor).values_list("namespace", flat=True)[:SUGGESTED]:
        if may_try(actor, namespace):
            return str(namespace)
    return next((name for name in namespaces_of(actor) if may_try(actor, name)), "")


def namespaces_of(actor: Actor) -> list[str]:
    """Those that the user sees or has a role in."""
    found = visible_bindings.namespaces_for(actor).exclude(visible_bindings.of_clusters())
    mine = {
        each for each in rule_index.index.namespaces_of(actor) if may_access(actor, "create", PLACEMENT, namespace=each)
    }
    return sorted({*found.values_list("name", flat=True)[:SUGGESTED], *mine})[:SUGGESTED]


def may_try(actor: Actor, namespace: str) -> bool:
    if may_access(actor, "create", PLACEMENT, namespace=namespace):
        return True
    sees = may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)
    return sees and clusters.sees_all(actor)
