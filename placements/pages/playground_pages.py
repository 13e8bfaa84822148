"""The playground: a Placement tried on the whole fleet before it is stored, worked out by the scheduler's own pipeline.

Nothing is written but by *Save*, which is an ordinary write. What is asked stands in the address: namespace, the
Placement that it starts from, the draft with what is pretended. It answers nothing that a person could not learn by
creating the Placement, so it takes that right, or to see every cluster and the bindings of the namespace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from clusters import queries as clusters
from clusters.kinds import spec_of
from clustersets import queries as clustersets
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from clustersets.rights import set_rights, visible_bindings
from clustersets.rights.set_rights import may_access
from ocmconsole.components import yaml_editing
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.kinds import Key
from placements import queries
from placements.controller import preview, scheduling
from placements.kinds import PLACEMENT
from placements.pages.breakdown import Breakdown, BreakdownQuery
from placements.playground import draft_forms, drafts, pretending
from placements.playground.draft_forms import PredicateRows, PretenceForm, TolerationRows, WeightRows, WholeForm
from placements.playground.drafts import Draft, Pretence
from placements.playground.pretending import WhatIf
from placements.scheduler.pipeline import Unfinished

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from clustersets.membership import Membership
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.preview import PlacementPreview
    from placements.models import Placement

SUGGESTED = 100  # namespaces and sets that fields offer
YAML = "yaml"
# Fields of the specification with a place of their own in the form.
SECTIONS = ("clusterSets", "predicates", "tolerations", "prioritizerPolicy", "numberOfClusters")


@dataclass
class Try:
    """One visit. ``stored``: the Placement that it starts from; ``problems``: texts by section of the form."""

    actor: Actor
    now: datetime
    namespace: str
    stored: Placement | None
    draft: Draft
    is_yaml: bool
    sets: list[Membership]
    problems: dict[str, list[str]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"{self.stored.namespace}/{self.stored.name}" if self.stored else ""

    def address(self, draft: Draft | None = None, **more: str) -> str:
        found = {"namespace": self.namespace, "from": self.origin, "d": (draft or self.draft).encoded(), **more}
        if self.is_yaml:
            found.setdefault("as", YAML)
        return f"{reverse('placements:playground')}?{urlencode({name: each for name, each in found.items() if each})}"


@login_required
@require_http_methods(["GET", "POST"])
def playground(request: HttpRequest) -> HttpResponse:
    """The draft of the address, and what it would choose; a POST leads to the address of the edited draft."""
    tried = _opened(request)
    if request.method == "GET":
        return _page(request, tried)
    data = request.POST
    if "drop" in data:
        kept = [each for number, each in enumerate(tried.draft.pretences) if str(number) != data["drop"]]
        tried.draft = Draft(tried.draft.spec, tuple(kept))
        return redirect(tried.address())
    forms, spec = _edited(request, tried)
    if spec is not None and not tried.problems:
        tried.draft = Draft(spec, tried.draft.pretences)
        if "save" in data:
            return _save(request, tried, forms)
        if "pretend" not in data or _pretend(tried, forms):
            show = data.get("show", "")
            tried.is_yaml = show == YAML if show else tried.is_yaml
            address = tried.address()
            return redirect(address) if len(address) <= drafts.LONGEST else _page(request, tried)
    return _page(request, tried, forms=forms, code=400)


def _opened(request: HttpRequest) -> Try:
    """From the address, or the fields of the form. What is no draft is an empty one, and said to be none."""
    actor, now = actor_of(request), clock.now()
    data = request.POST if request.method == "POST" else request.GET
    origin = _plain(data, "from")
    namespace, _, name = origin.partition("/")
    stored = queries.placements_for(actor).filter(namespace=namespace, name=name).first() if name else None
    problems: dict[str, list[str]] = {}
    draft = Draft(dict(spec_of(stored.doc)) if stored is not None else {})
    if text := data.get("d", ""):
        try:
            draft = Draft.read(text)
        except ValueError as error:
            problems[""] = [f"{str(error).capitalize()}: this begins anew."]
    wanted = _plain(data, "namespace") or (stored.namespace if stored else "") or _first_namespace(actor)
    is_yaml = data.get("as") == YAML
    return Try(actor, now, wanted, stored, draft, is_yaml, clustersets.memberships_for(actor), problems)


def _plain(data: Any, name: str) -> str:
    """A field without NUL, which no database takes."""
    return str(data.get(name, "")).replace("\0", "").strip()


def _first_namespace(actor: Actor) -> str:
    """The first in which a set is bound, as the user sees bindings."""
    for namespace in visible_bindings.bindings_for(actor).values_list("namespace", flat=True)[:SUGGESTED]:
        if _may_try(actor, namespace):
            return str(namespace)
    return next((name for name in _namespaces(actor) if _may_try(actor, name)), "")


def _namespaces(actor: Actor) -> list[str]:
    """Those that the user sees or has a role in."""
    found = visible_bindings.namespaces_for(actor).exclude(visible_bindings.of_clusters())
    mine = {
        each for each in rule_index.index.namespaces_of(actor) if may_access(actor, "create", PLACEMENT, namespace=each)
    }
    return sorted({*found.values_list("name", flat=True)[:SUGGESTED], *mine})[:SUGGESTED]


def _may_try(actor: Actor, namespace: str) -> bool:
    if may_access(actor, "create", PLACEMENT, namespace=namespace):
        return True
    sees = may_access(actor, "list", MANAGED_CLUSTER_SET_BINDING, namespace=namespace)
    return sees and clusters.sees_all(actor)


# ---------------------------------------------------------------- forms


def _forms(spec: Doc, data: Any = None) -> dict[str, Any]:
    _, whole, predicates, tolerations, weights = draft_forms.rows_of(spec) if data is None else ([], {}, [], [], [])
    return {
        "whole": WholeForm(data, initial=whole, prefix="w"),
        "predicates": PredicateRows(data, initial=predicates, prefix="p"),
        "tolerations": TolerationRows(data, initial=tolerations, prefix="t"),
        "weights": WeightRows(data, initial=weights, prefix="s"),
        "pretence": PretenceForm(data, prefix="x"),
    }


def _edited(request: HttpRequest, tried: Try) -> tuple[dict[str, Any] | None, Doc | None]:
    """The forms, for the page that shows what is wrong, and the specification; None where a field cannot be read."""
    data = request.POST
    if tried.is_yaml or "yaml" in data:
        return _from_yaml(data, tried)
    if "w-mode" not in data:  # no form at all
        return None, tried.draft.spec
    forms = _forms({}, data)
    if not all(forms[name].is_valid() for name in ("whole", "predicates", "tolerations", "weights")):
        return forms, None
    rows = {
        name: [each.cleaned_data for each in forms[name] if each.cleaned_data and not each.is_empty]
        for name in ("predicates", "tolerations", "weights")
    }
    sets = data.getlist("set") + [name for name in data.get("more_sets", "").replace(",", " ").split() if name]
    spec = draft_forms.of_rows(
        tried.draft.spec,
        list(dict.fromkeys(sets)),
        forms["whole"].cleaned_data,
        rows["predicates"],
        rows["tolerations"],
        rows["weights"],
    )
    _check(tried, spec)
    return forms, spec


def _from_yaml(data: Any, tried: Try) -> tuple[dict[str, Any], Doc | None]:
    text = data.get("yaml", "")
    forms: dict[str, Any] = {"yaml": text, "pretence": PretenceForm(data, prefix="x")}
    try:
        spec = drafts.parsed(text)
    except errors.ApiError as error:
        tried.problems = {"yaml": [plain(error.message)]}
        return forms, None
    _check(tried, spec)
    return forms, spec


def _check(tried: Try, spec: Doc) -> None:
    try:
        drafts.checked(spec)
    except errors.ApiError as error:
        tried.problems = drafts.by_section(error.causes) or {"": [plain(error.message)]}


def _pretend(tried: Try, forms: dict[str, Any] | None) -> bool:
    """Adds what the form says; whether it could."""
    form = forms["pretence"] if forms else None
    if form is None or not form.is_valid():
        return False
    found = form.cleaned_data
    pretence = Pretence(found["what"] or pretending.LABEL, found["where"], found["value"])
    flaw = _flaw(tried, pretence)
    if flaw:
        form.add_error("where" if "name" in flaw else "value", flaw)
        return False
    tried.draft = Draft(tried.draft.spec, (*tried.draft.pretences, pretence))
    return True


def _flaw(tried: Try, pretence: Pretence) -> str:
    """Why it cannot be pretended; empty where it can."""
    if len(tried.draft.pretences) >= drafts.MOST_PRETENCES:
        return f"no more than {drafts.MOST_PRETENCES} things can be pretended"
    try:
        pretending.check(pretence, tried.sets)
    except ValueError as error:
        return str(error)
    is_of_cluster = pretence.what not in {pretending.BINDING, pretending.TIME}
    return "you see no cluster or set of this name" if is_of_cluster and not _is_seen(tried, pretence.where) else ""


def _is_seen(tried: Try, where: str) -> bool:
    known = {pretending.EVERYTHING, *(each.name for each in tried.sets)}
    return where in known or clusters.clusters_for(tried.actor).filter(name=where).exists()


# ---------------------------------------------------------------- saving


def _save(request: HttpRequest, tried: Try, forms: dict[str, Any] | None) -> HttpResponse:
    """Creates the Placement, or changes the specification of the one that it starts from."""
    namespace, name = _plain(request.POST, "save_namespace"), _plain(request.POST, "save_name")
    spec, options = tried.draft.spec, verbs.Options(unknown="strict", manager=yaml_editing.MANAGER)
    try:
        if f"{namespace}/{name}" == tried.origin:
            verbs.edit(tried.actor, PLACEMENT, Key(namespace, name), _respec(request, name, spec), options=options)
        else:
            doc = drafts.document(namespace, name, spec)
            verbs.create(tried.actor, PLACEMENT, doc, namespace=namespace, options=options)
    except errors.ApiError as error:
        tried.problems = drafts.by_section([each for each in error.causes if each.field.startswith("spec")])
        tried.problems["save"] = [plain(error.message)]
        return _page(request, tried, forms=forms, code=error.code, saving=(namespace, name))
    messages.success(request, f"Placement {name} is saved. The scheduler decides within moments.")
    return redirect("placements:placement", namespace=namespace, name=name)


def _respec(request: HttpRequest, name: str, spec: Doc) -> verbs.Edit:
    seen = request.POST.get("seen", "")

    def change(doc: Doc) -> None:
        if yaml_editing.version_of(doc) != seen:
            text = "somebody has changed it since you opened it; nothing was saved"
            raise errors.conflict(PLACEMENT.group, PLACEMENT.plural, name, text)
        doc["spec"] = spec

    return change


# ---------------------------------------------------------------- the page


def _page(
    request: HttpRequest,
    tried: Try,
    *,
    forms: dict[str, Any] | None = None,
    code: int = 200,
    saving: tuple[str, str] | None = None,
) -> HttpResponse:
    spec = tried.draft.spec
    if code == 200 and not tried.problems:  # noqa: PLR2004 - the draft of an address is not checked yet
        _check(tried, spec)
    fits = draft_forms.fits(spec)
    as_rows = fits and not tried.is_yaml and (forms is None or "yaml" not in forms)
    context: dict[str, Any] = {
        "tried": tried,
        "may_try": bool(tried.namespace) and _may_try(tried.actor, tried.namespace),
        "create_explain": explain_url("create", PLACEMENT.resource, namespace=tried.namespace),
        "namespaces": _namespaces(tried.actor),
        "as_rows": as_rows,
        "fits": fits,
        "forms": forms if forms is not None and "pretence" in forms else _forms(spec if fits else {}),
        "yaml": forms["yaml"] if forms and "yaml" in forms else _as_yaml(spec),
        "kept_parts": [name for name in spec if name not in draft_forms.EDITED],
        "set_choices": _set_choices(tried),
        "draft": tried.draft.encoded(),
        "pretences": list(enumerate(map(str, tried.draft.pretences))),
        "other_problems": [
            text for name, texts in tried.problems.items() if name not in {*SECTIONS, "save", YAML} for text in texts
        ],
        "saving": saving or ((tried.stored.namespace, tried.stored.name) if tried.stored else (tried.namespace, "")),
        "seen": yaml_editing.version_of(tried.stored.doc) if tried.stored else "",
        "may_save": may_access(
            tried.actor, "update" if tried.stored else "create", PLACEMENT,
            namespace=tried.namespace, name=tried.stored.name if tried.stored else "",
        ),
    }  # fmt: skip
    if context["may_try"] and not tried.problems.keys() - {"save"}:
        context |= _answer(request, tried)
    return render(request, "placements/pages/playground.html", context, status=code)


def _as_yaml(spec: Doc) -> str:
    return yaml.safe_dump(spec, sort_keys=False, allow_unicode=True) if spec else ""


def _set_choices(tried: Try) -> list[dict[str, Any]]:
    """Sets that are bound or named, as far as the user sees them or their bindings; then others that they see."""
    found = tried.draft.spec.get("clusterSets")
    named = [str(name) for name in found] if isinstance(found, list) else []
    rows = visible_bindings.bindings_for(tried.actor).filter(namespace=tried.namespace)
    bound = set(rows.values_list("cluster_set", flat=True))
    names = dict.fromkeys([*named, *sorted(bound)])
    return [{"name": name, "is_named": name in named, "is_bound": name in bound} for name in names]


def _answer(request: HttpRequest, tried: Try) -> dict[str, Any]:
    address = tried.address()
    share = request.build_absolute_uri(address) if len(address) <= drafts.LONGEST else ""
    name = tried.stored.name if tried.stored else "NAME"
    doc = drafts.document(tried.namespace, name, tried.draft.spec)
    found: dict[str, Any] = {"share": share, "command": f"kubectl apply -f - <<'EOF'\n{as_yaml(doc)}EOF"}
    try:
        whole = _work_out(tried, tried.draft.pretences)
        plainly = _work_out(tried, ()) if tried.draft.pretences else whole
        missing = _missing(tried, whole)
    except Unfinished:
        return found | {"is_unfinished": True}
    except ValueError as error:
        return found | {"pretence_problem": str(error)}
    result = whole.result
    shown = Breakdown(tried.actor, whole, BreakdownQuery.read(request), address).context()
    hidden = {
        "namespace": tried.namespace,
        "from": tried.origin,
        "d": tried.draft.encoded(),
        "as": YAML * tried.is_yaml,
    }
    shown["kept_query"] = [*((name, each) for name, each in hidden.items() if each), *shown["kept_query"]]
    return found | shown | {
        "has_answer": True,
        "result": result,
        "chosen_count": len(result.chosen),
        "everyone_count": len(whole.explanation.everyone),
        "satisfied": result.conditions[0],
        "missing": missing,
        "plainly": {"enter": len(plainly.chosen - plainly.present), "leave": len(plainly.present - plainly.chosen)},
    }  # fmt: skip


def _work_out(tried: Try, pretences: tuple[Pretence, ...], also: tuple[str, ...] = ()) -> PlacementPreview:
    """Raises Unfinished; ValueError for what cannot be pretended."""
    what_if = WhatIf.of(pretences, tried.sets, tried.now)
    bound = {*what_if.bound, *also}
    spec = drafts.checked(tried.draft.spec)
    stored = tried.stored if tried.stored is not None and tried.stored.namespace == tried.namespace else None
    rows = queries.decisions_of(stored.namespace, stored.name) if stored is not None else []
    return preview.preview(
        tried.actor,
        tried.namespace,
        spec,
        present=scheduling.decided_in(rows),
        key=stored.key if stored is not None else None,
        now=tried.now + what_if.later,
        also_bound=[each for each in tried.sets if each.name in bound],
        pretend=what_if.clusters if what_if.changes else None,
    )


def _missing(tried: Try, found: PlacementPreview) -> dict[str, Any] | None:
    """Sets that the draft names and that are not bound, or that nothing is bound at all."""
    result = found.result
    named = [name for name in result.plan.sets if name not in result.bound]
    if result.bound and not named:
        return None
    seen = {each.name for each in tried.sets}
    could = [name for name in named if name in seen]
    more = _work_out(tried, tried.draft.pretences, tuple(could)) if could else None
    bindable = set_rights.bindable(tried.actor, could)
    asked = {"set": could[0] if could else "", "namespace": tried.namespace}
    return {
        "names": named,
        "nothing_bound": not result.bound,
        "could": could,
        "invisible": len(more.result.available) - len(result.available) if more else 0,
        "pass": len(more.result.feasible) - len(result.feasible) if more else 0,
        "chosen": len(more.result.chosen) if more else 0,
        "bind_url": f"{reverse('clustersets:bind')}?{urlencode(asked)}",
        "may_bind": bool(bindable) and set_rights.may_bind_into(tried.actor, tried.namespace),
        "pretend_url": _with_binding(tried, could[0]) if could else "",
    }


def _with_binding(tried: Try, name: str) -> str:
    pretence = Pretence(pretending.BINDING, name, "")
    return tried.address(Draft(tried.draft.spec, (*tried.draft.pretences, pretence)[: drafts.MOST_PRETENCES]))
