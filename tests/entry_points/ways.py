"""The ways through which a person lets a cluster in, each as the person meets it: requests, forms as rendered, a command.

A way returns when it did what was asked and raises Refused with the text that the person reads when it did not.
"""

from __future__ import annotations

import base64
import html
import json
from dataclasses import dataclass, field
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any, Protocol

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.contrib.messages import ERROR
from django.core.management import CommandError, call_command
from django.test import Client

from clusters.models import ManagedCluster
from ocmconsole.kubeapi.access.actor import MASTERS
from registration.pki import kubeconfigs
from tests.actors import ROOT
from tests.entry_points.scene import Waiting

CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CHANGELIST = "/admin/clusters/managedcluster/"
MERGE = "application/merge-patch+json"
Doc = dict[str, Any]


class Refused(Exception):
    """Its text is what the person reads."""


class Way(Protocol):
    def accept(self, user: Any, waiting: Waiting) -> None: ...


# ---------------------------------------------------------------- the API


class Api:
    """What kubectl sends, with a client certificate of the hub's own CA, in the order of the page's commands."""

    def accept(self, user: Any, waiting: Waiting) -> None:
        self.decide(user, waiting.request, "Approved")
        self.patch(user, waiting, {"spec": {"hubAcceptsClient": True}})

    def disconnect(self, user: Any, waiting: Waiting) -> None:
        self.patch(user, waiting, {"spec": {"hubAcceptsClient": False}})

    def decide(self, user: Any, request: str, decision: str) -> None:
        """``kubectl certificate approve`` or ``deny``."""
        client = signed(user)
        doc = answer(client.get(f"{REQUESTS}/{request}"))
        text = "This CSR was decided by kubectl certificate."
        condition = {"type": decision, "status": "True", "reason": "Kubectl", "message": text}
        doc.setdefault("status", {}).setdefault("conditions", []).append(condition)
        answer(client.put(f"{REQUESTS}/{request}/approval", json.dumps(doc), content_type="application/json"))

    def patch(self, user: Any, waiting: Waiting, change: Doc) -> Doc:
        client = signed(user)
        answer(client.get(f"{CLUSTERS}/{waiting.name}"))
        return answer(client.patch(f"{CLUSTERS}/{waiting.name}", json.dumps(change), content_type=MERGE))


def signed(user: Any) -> Client:
    """A client of the API listener that shows the certificate of the person's kubeconfig."""
    groups = (*(group.name for group in user.groups.all()), *([MASTERS] if user.is_superuser else []))
    lifetime = timedelta(hours=1)
    kubeconfig = yaml.safe_load(kubeconfigs.of_user(ROOT, user.username, groups=groups, lifetime=lifetime))
    chain = base64.b64decode(kubeconfig["users"][0]["user"]["client-certificate-data"])
    der = x509.load_pem_x509_certificate(chain).public_bytes(Encoding.DER)
    environ: Doc = {"ocmconsole.listener": "api", "ocmconsole.peer_certificate": der}
    return Client(**environ)


def answer(response: Any) -> Doc:
    doc: Doc = json.loads(response.content)
    if response.status_code >= 400:
        raise Refused(html.unescape(doc["message"]))
    return doc


# ---------------------------------------------------------------- the console's pages


class Page:
    def accept(self, user: Any, waiting: Waiting) -> None:
        browser = Browser(user)
        shown = browser.open(f"/approvals/{waiting.name}/")
        browser.send(shown.form(f"/approvals/{waiting.name}/accept/"))

    def decline(self, user: Any, waiting: Waiting, reason: str) -> None:
        browser = Browser(user)
        shown = browser.open(f"/approvals/{waiting.name}/")
        browser.send(shown.form(f"/approvals/{waiting.name}/decline/"), reason=reason)

    def disconnect(self, user: Any, waiting: Waiting) -> None:
        browser = Browser(user)
        shown = browser.open(f"/clusters/{waiting.name}/disconnect/")
        browser.send(shown.form(f"/clusters/{waiting.name}/disconnect/"))


# ---------------------------------------------------------------- Django admin


class AdminAction:
    """Tick the cluster in the list, choose the action, press Go, confirm what the page says."""

    def accept(self, user: Any, waiting: Waiting) -> None:
        browser, form = self.asked(user, waiting, "accept")
        browser.send(form)

    def disconnect(self, user: Any, waiting: Waiting) -> None:
        browser, form = self.asked(user, waiting, "disconnect")
        browser.send(form)

    def asked(self, user: Any, waiting: Waiting, action: str) -> tuple[Browser, Form]:
        """The form of the page that confirms."""
        browser = Browser(user)
        shown = browser.open(CHANGELIST)
        row = next((row for row in shown.response.context["cl"].result_list if row.name == waiting.name), None)
        if row is None:
            raise Refused("the list does not show the cluster")
        form = next(form for form in shown.forms if "select_across" in form.fields)
        asked = browser.send(form, action=action, _selected_action=row.pk)
        return browser, next(form for form in asked.forms if "confirmed" in form.fields)


class AdminForm:
    """Edit the document of the cluster and save. It holds no certificate request."""

    def accept(self, user: Any, waiting: Waiting) -> None:
        self.edit(user, waiting, lambda doc: doc["spec"].update(hubAcceptsClient=True))

    def disconnect(self, user: Any, waiting: Waiting) -> None:
        self.edit(user, waiting, lambda doc: doc["spec"].update(hubAcceptsClient=False))

    def edit(self, user: Any, waiting: Waiting, change: Any) -> None:
        browser = Browser(user)
        form = self.opened(browser, waiting)
        doc = yaml.safe_load(form.fields["document"])
        change(doc)
        browser.send(form, document=yaml.safe_dump(doc), _save="Save")

    def opened(self, browser: Browser, waiting: Waiting) -> Form:
        shown = browser.open(f"{CHANGELIST}{ManagedCluster.objects.get(name=waiting.name).pk}/change/")
        return next(form for form in shown.forms if "document" in form.fields)


# ---------------------------------------------------------------- the command line


class Command:
    def accept(self, user: Any, waiting: Waiting) -> None:
        self._call("accept", waiting.name, "--as", user.username)

    def decline(self, user: Any, waiting: Waiting, reason: str) -> None:
        self._call("decline", waiting.name, "--reason", reason, "--as", user.username)

    def _call(self, *arguments: str) -> None:
        try:
            call_command(*arguments)
        except CommandError as error:
            raise Refused(str(error)) from error


# By one call they accept a cluster with its request, as kubectl does by two.
COMPLETE_WAYS: dict[str, Way] = {"page": Page(), "admin": AdminAction(), "command": Command()}
WAYS: dict[str, Way] = {"api": Api(), **COMPLETE_WAYS, "admin-form": AdminForm()}


# ---------------------------------------------------------------- a browser


@dataclass
class Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)


class Forms(HTMLParser):
    """The POST forms of a page with the values that a browser would send back."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self.open: Form | None = None
        self.area = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method") == "post":
            self.open = Form(given.get("action", ""))
            self.found.append(self.open)
        elif given.get("type") in {"radio", "checkbox"} and "checked" not in given:
            return  # a browser sends only what is chosen
        elif self.open and given.get("name") and tag in {"input", "textarea"} and given.get("type") != "submit":
            self.open.fields[given["name"]] = given.get("value", "on" if given.get("type") == "checkbox" else "")
            self.area = given["name"] if tag == "textarea" else ""

    def handle_endtag(self, tag: str) -> None:
        self.area = "" if tag == "textarea" else self.area
        self.open = None if tag == "form" else self.open

    def handle_data(self, data: str) -> None:
        if self.open and self.area:
            self.open.fields[self.area] += data


@dataclass
class Shown:
    response: Any

    @property
    def text(self) -> str:
        return html.unescape(self.response.content.decode())

    @property
    def forms(self) -> list[Form]:
        return Forms(self.response.content.decode()).found

    def form(self, action: str) -> Form:
        """Refused when the page offers no such form; its text says why."""
        found = next((form for form in self.forms if form.action == action), None)
        if found is None:
            raise Refused(self.text)
        return found


class Browser:
    """Signed in, with cookies; a POST without the page's token is refused, as in a real one."""

    def __init__(self, user: Any) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.client.force_login(user, "django.contrib.auth.backends.ModelBackend")
        self.at = ""

    def open(self, path: str) -> Shown:
        shown = Shown(self.client.get(path))
        self.at = path
        if shown.response.status_code != 200:
            raise Refused(shown.text)
        return shown

    def send(self, form: Form, **values: str) -> Shown:
        """Submit and follow. Refused when the answer is an error, says one, or shows the form with one again."""
        done = self.client.post(form.action or self.at, {**form.fields, **values}, follow=True)
        shown = Shown(done)
        told = [message for message in done.context["messages"] if message.level == ERROR] if done.context else []
        if done.status_code != 200 or told or (done.context and "errors" in done.context and done.context["errors"]):
            raise Refused(shown.text)
        return shown
