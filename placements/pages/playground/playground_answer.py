"""What a draft would choose, for its page: funnel, clusters, scores, marks beside the clauses, and missing bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from clusters.kinds import spec_of
from clustersets.rights import set_rights
from ocmconsole.access import explain
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import explain_url
from ocmconsole.core.rbac import known_rights
from placements.controller import scheduling
from placements.pages.breakdown import Breakdown, BreakdownQuery
from placements.pages.playground.playground_try import YAML
from placements.pages.playground.score_chart import chart_of
from placements.playground import clauses, drafts, pretending, rows
from placements.playground.drafts import Draft, Pretence
from placements.scheduler.pipeline import Unfinished

if TYPE_CHECKING:
    from django.http import HttpRequest

    from placements.controller.preview import PlacementPreview
    from placements.pages.playground.playground_try import Try

LONGEST = 1.0  # CPU seconds for what clauses pass alone: an expression on 10,000 clusters takes one


def answer(request: HttpRequest, tried: Try) -> dict[str, Any]:
    """Context of the page; one of ``has_answer``, ``is_unfinished`` and ``pretence_problem``."""
    address = tried.address()
    share = request.build_absolute_uri(address) if len(address) <= drafts.LONGEST else ""
    name = tried.stored.name if tried.stored else "NAME"
    doc = drafts.document(tried.namespace, name, tried.draft.spec)
    found: dict[str, Any] = {"share": share, "command": f"kubectl apply -f - <<'EOF'\n{as_yaml(doc)}EOF"}
    try:
        whole = tried.work_out(tried.draft.pretences)
        plainly = tried.work_out(()) if tried.draft.pretences else whole
        missing = _missing(tried, whole)
    except Unfinished:
        return found | {"is_unfinished": True}
    except ValueError as error:
        return found | {"pretence_problem": str(error)}
    result = whole.result
    breakdown = Breakdown(
        tried.actor,
        whole,
        BreakdownQuery.read(request),
        address,
        draft=tried.draft,
        open_draft=tried.address,
    )
    shown = breakdown.context()
    hidden = {
        "namespace": tried.namespace,
        "from": tried.origin,
        "d": tried.draft.encoded(),
        "as": YAML * tried.is_yaml,
    }
    shown["kept_query"] = [*((name, each) for name, each in hidden.items() if each), *shown["kept_query"]]
    return found | shown | _marks(tried, whole) | {
        "has_answer": True,
        "result": result,
        "chosen_count": len(result.chosen),
        "everyone_count": len(whole.explanation.everyone),
        "satisfied": result.conditions[0],
        "missing": missing,
        "scores": chart_of(result),
        "counted": [f"{each.name} {each.weight}" for each in result.plan.prioritizers],
        "groups_say": clauses.groups_say(result),
        "plainly": changes(plainly),
    }  # fmt: skip


def changes(found: PlacementPreview) -> dict[str, int]:
    """How many would enter, leave and stay."""
    return {
        "enter": len(found.chosen - found.present),
        "leave": len(found.present - found.chosen),
        "stay": len(found.chosen & found.present),
    }


def _marks(tried: Try, found: PlacementPreview) -> dict[str, Any]:
    """What stands beside the clauses of a draft that the form can show."""
    spec = tried.draft.spec
    if not rows.fits(spec):
        return {}
    present = rows.Rows.of(drafts.checked(spec))  # with defaults, as what is stored has them
    before = dict(spec_of(tried.stored.doc)) if tried.stored is not None else None
    stored = rows.Rows.of(drafts.checked(before)) if before is not None and rows.fits(before) else None
    is_time_up = scheduling.timer(LONGEST)
    problem_of, _, problem = found.result.plan.problem.partition(":")
    return {
        "marks": clauses.marks_of(present, stored, found.result, is_time_up),
        "was": clauses.whole_was(present, stored),
        "removed": clauses.removed(present, stored),
        "change_count": clauses.count_changes(present, stored),
        "stored_sets": stored.sets if stored is not None else None,
        "problem": problem if not problem_of else "",
    }


# ---------------------------------------------------------------- sets that are not bound


def _missing(tried: Try, found: PlacementPreview) -> dict[str, Any] | None:
    """Sets that the draft names and that are not bound, or that nothing is bound at all."""
    result = found.result
    named = [name for name in result.plan.sets if name not in result.bound]
    if result.bound and not named:
        return None
    seen = {each.name for each in tried.sets}
    could = [name for name in named if name in seen]
    more = tried.work_out(tried.draft.pretences, tuple(could)) if could else None
    able = sorted(set_rights.bindable(tried.actor, could or sorted(seen)))
    may_bind = bool(able) and set_rights.may_bind_into(tried.actor, tried.namespace)
    best = next((name for name in could if name in able), "") or (could[0] if could else "")
    return {
        "names": named,
        "nothing_bound": not result.bound,
        "could": could,
        "invisible": len(more.result.available) - len(result.available) if more else 0,
        "pass": len(more.result.feasible) - len(result.feasible) if more else 0,
        "chosen": len(more.result.chosen) if more else 0,
        "set": best,
        "may_bind": may_bind,
        "bind_url": f"{reverse('clustersets:bind')}?{_query(set=best, namespace=tried.namespace)}",
        "pretend_url": tried.address(_with_binding(tried, best)) if best else "",
        **({} if may_bind else _ask(tried, best)),
    }


def _ask(tried: Try, name: str) -> dict[str, Any]:
    """Whom to ask for a binding: the right that is missing, and users who can give it."""
    may_bind_set = bool(set_rights.bindable(tried.actor, [name])) if name else False
    if may_bind_set:
        verb, resource, of = "create", set_rights.BINDING_RESOURCE, {"namespace": tried.namespace}
    else:
        verb, resource, of = "create", set_rights.BIND_RESOURCE, {"name": name}
    asked = known_rights.question(verb, resource, **of)
    return {"ask_url": explain_url(verb, resource, **of), "granters": explain.granters(asked)}


def _query(**parts: str) -> str:
    return urlencode({name: each for name, each in parts.items() if each})


def _with_binding(tried: Try, name: str) -> Draft:
    pretence = Pretence(pretending.BINDING, name, "")
    return Draft(tried.draft.spec, (*tried.draft.pretences, pretence)[: drafts.MOST_PRETENCES])
