"""The tab of YAML: to read, fold and copy; to edit as server-side apply, with the difference before it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django.contrib import messages
from django.shortcuts import redirect, render

from clusters.cluster import page_frame
from clusters.cluster.page_frame import Opened, frame, opens_cluster, tab, tab_url
from clusters.forms import DocumentForm
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components import yaml_editing
from ocmconsole.components.document_display import as_yaml
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc

YAML = "yaml"


@tab(YAML, "YAML", "clusters/cluster/yaml.html")
def document(request: HttpRequest, cluster: Opened) -> dict[str, Any]:
    """``?fields=1`` shows who owns which field."""
    shows_fields = bool(request.GET.get("fields"))
    return {
        "whole": as_yaml(cluster.doc),
        "parts": _parts(cluster.doc, with_fields=shows_fields),
        "shows_fields": shows_fields,
        "resource_version": cluster.row.resource_version,
        "commands": [f"kubectl get managedcluster {cluster.name} -o yaml"],
    }


def _parts(doc: Doc, *, with_fields: bool) -> list[dict[str, Any]]:
    """One a top-level field, so that each can be folded."""
    shown: Doc = {**doc, "metadata": {name: part for name, part in doc["metadata"].items() if name != "managedFields"}}
    parts: list[tuple[str, Doc]] = [
        (name, {name: shown[name]}) for name in ("metadata", "spec", "status") if name in shown
    ]
    head = {name: shown[name] for name in ("apiVersion", "kind")}
    parts.insert(0, ("apiVersion, kind", head))
    if with_fields:
        parts.append(("managedFields", {"managedFields": doc["metadata"].get("managedFields") or []}))
    return [{"name": name, "text": _text(part)} for name, part in parts]


def _text(part: Doc) -> str:
    return yaml.safe_dump(part, sort_keys=False, allow_unicode=True)


@opens_cluster
def edit_document(request: HttpRequest, cluster: Opened) -> HttpResponse:
    """Three steps on one page: edit, see the difference, apply."""
    if request.method != "POST":
        initial = {"document": yaml_editing.as_text(cluster.doc), "seen": yaml_editing.version_of(cluster.doc)}
        return _page(request, cluster, DocumentForm(initial=initial))
    form = DocumentForm(request.POST)
    if not form.is_valid():
        return _page(request, cluster, form, code=400)
    try:
        return _answer(request, cluster, form)
    except errors.ApiError as error:
        return _refused(request, cluster, form, error)


def _answer(request: HttpRequest, cluster: Opened, form: DocumentForm) -> HttpResponse:
    key, data = Key("", cluster.name), form.cleaned_data
    edited = yaml_editing.parse_edit(MANAGED_CLUSTER, key, data["document"])
    how = {"seen": data["seen"], "force": data["force"]}
    if "apply" in request.POST:
        yaml_editing.save_edit(cluster.actor, MANAGED_CLUSTER, key, edited, **how)
        messages.success(request, f"{cluster.name} is applied as {yaml_editing.MANAGER}.")
        return redirect(tab_url(cluster.name, YAML))
    found = yaml_editing.preview_edit(cluster.actor, MANAGED_CLUSTER, key, edited, **how)
    return _page(request, cluster, form, preview=found)


def _refused(request: HttpRequest, cluster: Opened, form: DocumentForm, error: errors.ApiError) -> HttpResponse:
    """Conflicts with other managers name their fields and can be forced; a document that moved on is shown anew."""
    owned = [cause for cause in error.causes if cause.reason == "FieldManagerConflict"]
    if owned:
        return _page(request, cluster, form, code=error.code, conflicts=owned)
    moved = isinstance(error, errors.Conflict)
    if not moved:
        form.add_error("document", page_frame.refusal_text(error))
        return _page(request, cluster, form, code=error.code)
    since = list(yaml_editing.difference(form.cleaned_data["document"], yaml_editing.as_text(cluster.doc)))
    return _page(request, cluster, form, code=error.code, stale=page_frame.refusal_text(error), since=since)


def _page(request: HttpRequest, cluster: Opened, form: DocumentForm, *, code: int = 200, **more: Any) -> HttpResponse:
    context = {
        **frame(cluster, YAML),
        "form": form,
        "manager": yaml_editing.MANAGER,
        "commands": [f"kubectl apply --server-side --field-manager={yaml_editing.MANAGER} -f {cluster.name}.yaml"],
        **more,
    }
    return render(request, "clusters/cluster/edit.html", context, status=code)
