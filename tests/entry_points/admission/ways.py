"""Every way that can carry a row of the table of admission in, and what it answers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

import yaml
from django.contrib.messages import ERROR, get_messages
from django.core.management import CommandError, call_command
from django.test import Client

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components.document_display import as_yaml
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from tests.api.entry import APPLY, JSON, JSON_PATCH, MERGE, Answer
from tests.entry_points.admission import scene
from tests.entry_points.admission.row import ACCEPTS, DISCONNECTS, Act, Doc, Row, Sort
from tests.entry_points.admission.scene import Caller


@dataclass(frozen=True)
class Said:
    """``text`` is empty when it is done. The other fields are what only the API gives."""

    text: str = ""
    code: int = 0
    reason: str = ""
    warning: str = ""
    doc: Doc | None = None
    details: Doc | None = None


@dataclass(frozen=True)
class Way:
    """``act`` does what the row says. ``verb`` is what authorisation is asked for; ``place`` is the audit's word."""

    act: Callable[[Row, Caller], Said]
    acts: tuple[Act, ...]
    sorts: tuple[Sort, ...] = (Sort.PERSON,)
    place: str = "api"
    verb: str = "patch"
    changes: tuple[Doc, ...] = field(default=())
    is_service: bool = False

    def fits(self, row: Row) -> bool:
        return (
            row.act in self.acts
            and row.who.sort in self.sorts
            and (not self.changes or (row.kind is MANAGED_CLUSTER and row.new in self.changes))
        )


# ---------------------------------------------------------------- the API


def post(row: Row, by: Caller) -> Said:
    return _sent(row, by, "POST", _collection(row), _raw(row, scene.identified(row, row.new)), JSON)


def put(row: Row, by: Caller) -> Said:
    return _sent(row, by, "PUT", _url(row), _raw(row, merged(_stored(row), row.new)), JSON)


def merge(row: Row, by: Caller) -> Said:
    return _sent(row, by, "PATCH", _url(row), _raw(row, row.new), MERGE)


def json_patch(row: Row, by: Caller) -> Said:
    body = json.dumps(list(operations(_stored(row), row.new))).encode()
    return _sent(row, by, "PATCH", _url(row), body, JSON_PATCH)


def apply(row: Row, by: Caller) -> Said:
    """By the manager that owns what is stored, so that leaving out is taking away."""
    body = _raw(row, scene.identified(row, merged(row.old or {}, row.new)))
    return _sent(row, by, "PATCH", f"{_url(row)}?force=true&fieldManager={scene.MANAGER}", body, APPLY)


def delete(row: Row, by: Caller) -> Said:
    return _sent(row, by, "DELETE", _url(row), b"", JSON)


def _sent(row: Row, by: Caller, method: str, path: str, body: bytes, as_: str) -> Said:
    strict = f"{'&' if '?' in path else '?'}fieldValidation=Strict" if row.strict else ""
    answer = by.entry.send(method, path + strict, body, as_)
    warning = answer.headers.get("Warning", "")
    if answer.code < 300:
        return Said(warning=warning, doc=answer.doc)
    return _refused(answer, warning)


def _refused(answer: Answer, warning: str) -> Said:
    code, reason = answer.said
    return Said(answer.message, code, reason, warning, details=answer.doc.get("details"))


def _collection(row: Row) -> str:
    place = f"namespaces/{row.namespace}/" if row.namespace else ""
    return f"/apis/{row.kind.storage.api_version}/{place}{row.kind.plural}"


def _url(row: Row) -> str:
    return f"{_collection(row)}/{quote(row.name, safe='')}"


def _raw(row: Row, doc: Doc) -> bytes:
    """One field of the text may stand in it twice."""
    text = json.dumps(doc)
    return (
        text.replace(f'"{row.twice}"', f'"{row.twice}": null, "{row.twice}"').encode() if row.twice else text.encode()
    )


def _stored(row: Row) -> Doc:
    found = scene.stored(row)
    assert found is not None
    return found


# ---------------------------------------------------------------- Django admin


def admin_form(row: Row, by: Caller) -> Said:
    """The document as the form shows it, edited, and saved."""
    if row.act is Act.CREATE:
        return _submitted(by, f"{_admin(row)}add/", scene.identified(row, row.new))
    pk = row.kind.model._default_manager.get(name=row.name, namespace=row.namespace).pk
    shown = yaml.safe_load(as_yaml(_stored(row)))
    return _submitted(by, f"{_admin(row)}{pk}/change/", merged(shown, row.new))


def _submitted(by: Caller, path: str, doc: Doc) -> Said:
    response = _browser(by).post(path, {"document": yaml.safe_dump(doc, allow_unicode=True), "_save": "Save"})
    if response.status_code == 302:
        return Said("; ".join(_errors_in(response)))
    assert response.status_code == 200, response.status_code
    return Said("; ".join(response.context["adminform"].form.errors["document"]))


def admin_deletion(row: Row, by: Caller) -> Said:
    pk = row.kind.model._default_manager.get(name=row.name, namespace=row.namespace).pk
    response = _browser(by).post(f"{_admin(row)}{pk}/delete/", {"post": "yes"})
    return Said("; ".join(_errors_in(response)) or ("" if response.status_code == 302 else "refused"))


def admin_action(row: Row, by: Caller) -> Said:
    """Tick the cluster, choose the action, go, confirm what the page says of the cluster."""
    pk = row.kind.model._default_manager.get(name=row.name).pk
    chosen = {"action": "accept" if row.new == ACCEPTS else "disconnect", "_selected_action": pk}
    asked = _browser(by).post(_admin(row), chosen)
    shown = asked.context["rows"] if asked.context and "rows" in asked.context else ()
    seen = {each["field"]: each["version"] for each in shown if each["field"]}
    response = _browser(by).post(_admin(row), {**chosen, **seen, "confirmed": "yes"})
    return Said("; ".join(text.removeprefix(f"Managed cluster {row.name}: ") for text in _errors_in(response)))


def _admin(row: Row) -> str:
    return f"/admin/{row.kind.model._meta.app_label}/{row.kind.model._meta.model_name}/"


# ---------------------------------------------------------------- pages, commands, the hub's own hand


def page(row: Row, by: Caller) -> Said:
    """The buttons; who does not see them may still send what they send."""
    if row.new == DISCONNECTS:
        return Said("; ".join(_errors_in(_browser(by).post(f"/clusters/{row.name}/disconnect/"))))
    seen = {"cluster_rv": _stored(row)["metadata"]["resourceVersion"]}
    return Said("; ".join(_errors_in(_browser(by).post(f"/approvals/{row.name}/accept/", seen))))


@cache
def _client() -> Client:
    """One for all: loading the middleware takes longer than most requests."""
    return Client()


def _browser(by: Caller) -> Client:
    client = _client()
    client.cookies.clear()
    client.force_login(by.user, "django.contrib.auth.backends.ModelBackend")
    return client


def _errors_in(response: Any) -> list[str]:
    assert response.status_code != 404
    return [message.message for message in get_messages(response.wsgi_request) if message.level == ERROR]


def command(row: Row, by: Caller) -> Said:
    try:
        call_command("accept", row.name, "--as", by.name, stdout=io.StringIO())
    except CommandError as error:
        return Said(str(error))
    return Said()


def controller(row: Row, by: Caller) -> Said:
    """A reconciler, which calls the verbs."""
    actor, key = Actor.controller(by.name.rpartition(":")[2]), Key(row.namespace, row.name)
    try:
        if row.act is Act.CREATE:
            verbs.create(actor, row.kind, scene.identified(row, row.new), namespace=row.namespace)
        else:
            verbs.patch(actor, row.kind, key, lambda old: merged(old or {}, row.new))
    except errors.ApiError as error:
        return Said(error.message)
    return Said()


# ---------------------------------------------------------------- documents


def merged(old: Doc, change: Doc) -> Doc:
    """As a merge patch does (RFC 7386)."""
    found = {key: value for key, value in old.items() if key not in change}
    for key, value in change.items():
        if isinstance(value, dict):
            before = old.get(key)
            found[key] = merged(before if isinstance(before, dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def operations(old: Doc, change: Doc, at: str = "") -> Iterator[Doc]:
    """The same change as a JSON patch."""
    for key, value in change.items():
        path = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            yield from operations(old[key], value, path)
        elif value is None:
            yield from [{"op": "remove", "path": path}] if key in old else []
        else:
            yield {"op": "add", "path": path, "value": merged({}, value) if isinstance(value, dict) else value}


ANYBODY = (Sort.PERSON, Sort.AGENT, Sort.BOOTSTRAP)
BOTH = (ACCEPTS, DISCONNECTS)

WAYS: dict[str, Way] = {
    "post": Way(post, (Act.CREATE,), ANYBODY, verb="create"),
    "put": Way(put, (Act.UPDATE,), ANYBODY, verb="update"),
    "merge-patch": Way(merge, (Act.UPDATE,), ANYBODY),
    "json-patch": Way(json_patch, (Act.UPDATE,), ANYBODY),
    "apply": Way(apply, (Act.CREATE, Act.UPDATE), ANYBODY),
    "delete": Way(delete, (Act.DELETE,), ANYBODY, verb="delete"),
    "admin-form": Way(admin_form, (Act.CREATE, Act.UPDATE), place="admin"),
    "admin-deletion": Way(admin_deletion, (Act.DELETE,), place="admin", verb="delete"),
    "admin-action": Way(admin_action, (Act.UPDATE,), place="admin", changes=BOTH, is_service=True),
    "page": Way(page, (Act.UPDATE,), place="web", changes=BOTH, is_service=True),
    "command": Way(command, (Act.UPDATE,), place="cli", changes=(ACCEPTS,), is_service=True),
    "controller": Way(controller, (Act.CREATE, Act.UPDATE), (Sort.HUB,), place="controller"),
}
API = ("post", "put", "merge-patch", "json-patch", "apply", "delete")
