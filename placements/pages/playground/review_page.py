"""Before a draft is stored: what it does without what is pretended, its difference to what is stored, and *Save*.

The only page of the playground that writes, by an ordinary write with the rights of the user. A dry run says
before what the rules would refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from clusters.kinds import spec_of
from clustersets.rights.set_rights import may_access
from ocmconsole.components import yaml_editing
from ocmconsole.components.document_display import as_yaml
from ocmconsole.components.links import explain_url
from ocmconsole.components.refusals import plain
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from placements.kinds import PLACEMENT
from placements.pages.playground.playground_answer import changes
from placements.pages.playground.playground_try import Try, without_nul
from placements.playground import drafts
from placements.scheduler.pipeline import Unfinished

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.components.yaml_editing import DiffLine
    from ocmconsole.kubeapi.errors import Doc
    from placements.controller.preview import PlacementPreview

MOST_NAMED = 12  # clusters that enter or leave


def lead_to(request: HttpRequest, tried: Try) -> HttpResponse:
    """To the address of the review; a draft that is too long for one is reviewed at once."""
    target = _target(request, tried)
    address = tried.address(to="placements:review", into=target.namespace, name=target.name)
    return redirect(address) if len(address) <= drafts.LONGEST else _page(request, tried)


@login_required
@require_http_methods(["GET", "POST"])
def review(request: HttpRequest) -> HttpResponse:
    """What the draft would do, and a button; a POST stores it and leads to the Placement."""
    tried = Try.opened(request)
    if request.method == "GET":
        return _page(request, tried)
    target, options = _target(request, tried), verbs.Options(unknown="strict", manager=yaml_editing.MANAGER)
    try:
        _store(request, tried, target, options)
    except errors.ApiError as error:
        return _page(request, tried, refusal=error)
    messages.success(request, f"Placement {target.name} is saved. The scheduler decides within moments.")
    return redirect("placements:placement", namespace=target.namespace, name=target.name)


def _target(request: HttpRequest, tried: Try) -> Key:
    """Where it is stored: as the fields say, else where it comes from."""
    data = request.POST if request.method == "POST" else request.GET
    stored = tried.stored
    namespace = without_nul(data, "into") or (stored.namespace if stored else tried.namespace)
    return Key(namespace, without_nul(data, "name") or (stored.name if stored and "name" not in data else ""))


def _store(request: HttpRequest, tried: Try, target: Key, options: verbs.Options) -> None:
    """Creates the Placement, or changes the specification of the one that it starts from."""
    spec = tried.draft.spec
    if f"{target.namespace}/{target.name}" == tried.origin:
        seen = request.POST.get("seen", "") if request.method == "POST" else ""
        verbs.edit(tried.actor, PLACEMENT, target, _respecified(seen, target.name, spec), options=options)
    else:
        doc = drafts.document(target.namespace, target.name, spec)
        verbs.create(tried.actor, PLACEMENT, doc, namespace=target.namespace, options=options)


def _respecified(seen: str, name: str, spec: Doc) -> verbs.Edit:
    """``seen``: the version that the page has shown; empty for a dry run."""

    def change(doc: Doc) -> None:
        if seen and yaml_editing.version_of(doc) != seen:
            text = "somebody has changed it since you opened it; nothing was saved"
            raise errors.conflict(PLACEMENT.group, PLACEMENT.plural, name, text)
        doc["spec"] = spec

    return change


# ---------------------------------------------------------------- the page


def _page(request: HttpRequest, tried: Try, *, refusal: errors.ApiError | None = None) -> HttpResponse:
    target = _target(request, tried)
    is_edit = f"{target.namespace}/{target.name}" == tried.origin
    if refusal is None and target.name:
        refusal = _refusal(request, tried, target)
    stored = tried.stored
    before = dict(spec_of(stored.doc)) if stored is not None and is_edit else {}
    after = _as_stored(tried.draft.spec) if is_edit else tried.draft.spec
    context: dict[str, Any] = {
        "tried": tried,
        "target": target,
        "is_edit": is_edit,
        "draft": tried.draft.encoded(),
        "seen": yaml_editing.version_of(stored.doc) if stored is not None else "",
        "back": tried.address(),
        "lines": difference_of(before, after),
        "pretences": list(map(str, tried.draft.pretences)),
        "refusal": plain(refusal.message) if refusal is not None else "",
        "may_save": may_access(
            tried.actor, "update" if is_edit else "create", PLACEMENT,
            namespace=target.namespace, name=target.name if is_edit else "",
        ),
        "explain_url": explain_url("update" if is_edit else "create", PLACEMENT.resource, namespace=target.namespace),
        "command": f"kubectl apply -f - <<'EOF'\n{_manifest(tried, target)}EOF",
        **_effects(tried, target),
    }  # fmt: skip
    code = refusal.code if refusal is not None and request.method == "POST" else 200
    return render(request, "placements/pages/playground/review.html", context, status=code)


def _refusal(request: HttpRequest, tried: Try, target: Key) -> errors.ApiError | None:
    try:
        _store(request, tried, target, verbs.Options(dry_run=True, unknown="strict", manager=yaml_editing.MANAGER))
    except errors.Forbidden:  # said beside the button, with the way to the right
        return None
    except errors.ApiError as error:
        return error
    return None


def _effects(tried: Try, target: Key) -> dict[str, Any]:
    """Of the draft alone, where it is stored: nothing of what is pretended."""
    tried.namespace = target.namespace
    tried.check(tried.draft.spec)
    if not tried.may_try or tried.problems or tried.row_problems:
        return {}
    try:
        found = tried.work_out(())
    except Unfinished:
        return {"is_unfinished": True}
    result = found.result
    enter, leave = found.chosen - found.present, found.present - found.chosen
    return {
        "has_effects": True,
        "changes": changes(found),
        "enter": _named(enter, found),
        "leave": _named(leave, found),
        "chosen_count": len(found.chosen),
        "result": result,
        "satisfied": result.conditions[0],
    }


def _named(names: frozenset[str], found: PlacementPreview) -> dict[str, Any]:
    """Those that the user sees, the first of them by name; the others are counted."""
    seen = sorted(name for name in names if name in found.seen)
    return {"names": seen[:MOST_NAMED], "more": len(names) - len(seen[:MOST_NAMED])}


def _as_stored(spec: Doc) -> Doc:
    """With defaults, so that nothing differs that is the same; as it is where it does not fit the schema."""
    try:
        return drafts.checked(spec)
    except errors.ApiError:
        return spec


def difference_of(before: Doc, after: Doc) -> list[DiffLine]:
    """Of two specifications, in lines of YAML."""
    return list(yaml_editing.difference(_as_yaml(before), _as_yaml(after)))


def _as_yaml(spec: Doc) -> str:
    return yaml.safe_dump(spec, sort_keys=True, allow_unicode=True) if spec else ""


def _manifest(tried: Try, target: Key) -> str:
    return as_yaml(drafts.document(target.namespace, target.name or "NAME", tried.draft.spec))
