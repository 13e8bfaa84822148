"""The playground: a Placement tried on the whole fleet before it is stored, worked out by the scheduler's own pipeline.

Nothing is written here: a draft is stored by its review page. What is asked stands in the address: namespace, the
Placement that it starts from, the draft with what is pretended.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import yaml
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clustersets.rights import visible_bindings
from ocmconsole.components.links import explain_url
from ocmconsole.components.whole_numbers import whole_number
from placements.kinds import PLACEMENT
from placements.pages.playground import playground_edit, review_page
from placements.pages.playground.playground_answer import answer
from placements.pages.playground.playground_try import YAML, Try, namespaces_of
from placements.playground import draft_forms, drafts, rows
from placements.playground.drafts import Draft
from placements.playground.rows import Rows
from placements.scheduler import prioritizers

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

# Fields of the specification with a place of their own in the form.
SECTIONS = frozenset({
    "clusterSets", "predicates", "tolerations", "prioritizerPolicy", "numberOfClusters", "decisionStrategy",
    "spreadPolicy", "sortBy",
})  # fmt: skip
BUILT_IN = (prioritizers.BALANCE, prioritizers.STEADY, *prioritizers.RESOURCES)


@login_required
@require_http_methods(["GET", "POST"])
def playground(request: HttpRequest) -> HttpResponse:
    """The draft of the address, and what it would choose; a POST leads to the address of the edited draft."""
    tried = Try.opened(request)
    if request.method == "GET":
        return _page(request, tried)
    data = request.POST
    if "drop" in data:
        kept = [each for number, each in enumerate(tried.draft.pretences) if str(number) != data["drop"]]
        tried.draft = Draft(tried.draft.spec, tuple(kept))
        return redirect(tried.address())
    forms, spec = playground_edit.edited(request, tried)
    if spec is not None and not tried.problems and not tried.row_problems:
        tried.draft = Draft(spec, tried.draft.pretences)
        if "review" in data:
            return review_page.lead_to(request, tried)
        if "pretend" not in data or playground_edit.pretend(tried, forms):
            return _lead_to_draft(request, tried)
    return _page(request, tried, forms=forms, code=400)


def _lead_to_draft(request: HttpRequest, tried: Try) -> HttpResponse:
    """Its address; one that is too long for an address is shown at once."""
    show, tried.added = request.POST.get("show", ""), request.POST.get("add", "")
    tried.is_yaml = show == YAML if show else tried.is_yaml
    address = tried.address(add=tried.added) + ("#added" if tried.added else "")
    return redirect(address) if len(address) <= drafts.LONGEST else _page(request, tried)


def _page(request: HttpRequest, tried: Try, *, forms: dict[str, Any] | None = None, code: int = 200) -> HttpResponse:
    spec = tried.draft.spec
    if code == 200 and not tried.problems:  # noqa: PLR2004 - the draft of an address is not checked yet
        tried.check(spec)
    fits = rows.fits(spec)
    as_rows = fits and not tried.is_yaml and (forms is None or "yaml" not in forms)
    is_unbound = forms is None or "pretence" not in forms
    context: dict[str, Any] = {
        "tried": tried,
        "may_try": tried.may_try,
        "create_explain": explain_url("create", PLACEMENT.resource, namespace=tried.namespace),
        "namespaces": namespaces_of(tried.actor),
        "as_rows": as_rows,
        "fits": fits,
        "yaml": forms["yaml"] if forms and "yaml" in forms else _as_yaml(spec),
        "kept_parts": _kept_parts(spec) if fits else [],
        "set_choices": _set_choices(tried),
        "draft": tried.draft.encoded(),
        "pretences": list(enumerate(map(str, tried.draft.pretences))),
        "built_in": BUILT_IN,
    }
    if context["may_try"] and not tried.problems and not tried.row_problems:
        context |= answer(request, tried)
    if forms is None or is_unbound:
        forms = draft_forms.forms_of(Rows.of(spec) if fits else Rows(), tried.added)
        _mark(forms, context.get("marks", {}))
    context |= {"forms": forms, "predicate_groups": _by_number(forms), "other_problems": _others(tried, code)}
    return render(request, "placements/pages/playground/playground.html", context, status=code)


def _others(tried: Try, code: int) -> list[str]:
    """What is about no field that the form shows; of a draft that was only opened, what is about rows too."""
    found = [text for name, texts in tried.problems.items() if name not in {*SECTIONS, YAML} for text in texts]
    rows_too = tried.row_problems if code == 200 else {}  # noqa: PLR2004 - else they stand beside their rows
    return found + [str(cause) for causes in rows_too.values() for cause in causes]


def _mark(forms: dict[str, Any], marks: dict[str, Any]) -> None:
    for kind, found in marks.items():
        for form, mark in zip(forms[kind].forms if kind in forms else (), found, strict=False):
            form.mark = mark
            form.flaws += [mark.flaw] if mark.flaw else []


def _by_number(forms: dict[str, Any]) -> list[tuple[int, list[Any]]]:
    """Conditions by the predicate that they belong to."""
    if "predicates" not in forms:
        return []

    def number(form: Any) -> int:
        return whole_number(str(form["number"].value()), 9) or 1

    found = sorted(forms["predicates"].forms, key=number)
    return [(key, list(group)) for key, group in groupby(found, key=number)]


def _kept_parts(spec: Doc) -> list[str]:
    """What the form has no field for, but for defaults, which every stored Placement has."""
    defaults = drafts.checked({})
    return [name for name in rows.kept_parts(spec) if spec[name] != defaults.get(name)]


def _as_yaml(spec: Doc) -> str:
    return yaml.safe_dump(spec, sort_keys=False, allow_unicode=True) if spec else ""


def _set_choices(tried: Try) -> list[dict[str, Any]]:
    """Sets that are bound or named, as far as the user sees them or their bindings; then others that they see."""
    found = tried.draft.spec.get("clusterSets")
    named = [str(name) for name in found] if isinstance(found, list) else []
    bindings = visible_bindings.bindings_for(tried.actor).filter(namespace=tried.namespace)
    bound = set(bindings.values_list("cluster_set", flat=True))
    names = dict.fromkeys([*named, *sorted(bound)])
    return [{"name": name, "is_named": name in named, "is_bound": name in bound} for name in names]
