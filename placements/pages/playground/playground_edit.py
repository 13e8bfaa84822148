"""What a person typed into the form of the playground: a draft, or texts beside the fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters import queries as clusters
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi import errors
from placements.playground import draft_forms, drafts, pretending
from placements.playground.draft_forms import PretenceForm
from placements.playground.drafts import Draft, Pretence

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.errors import Doc
    from placements.pages.playground.playground_try import Try


def edited(request: HttpRequest, tried: Try) -> tuple[dict[str, Any] | None, Doc | None]:
    """The forms, for the page that shows what is wrong, and the specification; None where a field cannot be read."""
    data = request.POST
    if tried.is_yaml or "yaml" in data:
        return _from_yaml(data, tried)
    if "w-mode" not in data:  # no form at all
        return None, tried.draft.spec
    forms = draft_forms.bound_forms(data)
    sets = data.getlist("set") + [name for name in data.get("more_sets", "").replace(",", " ").split() if name]
    found = draft_forms.rows_in(forms, sets, data.get("remove", ""))
    if found is None:
        return forms, None
    rows, kept = found
    spec = rows.spec(tried.draft.spec)
    tried.check(spec)
    _place_problems(tried, kept)
    return forms, spec


def _place_problems(tried: Try, kept: dict[str, list[draft_forms.RowForm]]) -> None:
    """Beside the row that each is about; a predicate is about the first row of its number."""
    for (kind, index), causes in tried.row_problems.items():
        forms = kept.get(kind, [])
        if kind == "predicates":
            numbers = sorted({each.cleaned_data.get("number") or 1 for each in forms})
            wanted = numbers[index] if index < len(numbers) else 0
            form = next((each for each in forms if (each.cleaned_data.get("number") or 1) == wanted), None)
        else:
            form = forms[index] if index < len(forms) else None
        if form is None:
            tried.problems.setdefault("", []).extend(map(str, causes))
        else:
            form.flaws += [f"{each.field.rpartition('.')[2]}: {each.message}" for each in causes]


def _from_yaml(data: Any, tried: Try) -> tuple[dict[str, Any], Doc | None]:
    tried.is_yaml = True
    text = data.get("yaml", "")
    forms: dict[str, Any] = {"yaml": text, "pretence": PretenceForm(data, prefix="x")}
    try:
        spec = drafts.parsed(text)
    except errors.ApiError as error:
        tried.problems = {"yaml": [plain(error.message)]}
        return forms, None
    tried.check(spec)
    return forms, spec


def pretend(tried: Try, forms: dict[str, Any] | None) -> bool:
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
