"""Django admin of the kinds that any API server has. Secrets stay out of browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse

from ocmconsole.core import kinds
from ocmconsole.core.models import AccessRequest, Event, Namespace
from ocmconsole.djangoadmin.lists import status_label
from ocmconsole.djangoadmin.resources import ReadOnlyAdmin, ResourceAdmin, register

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.utils.safestring import SafeString

register(
    kinds.CONFIG_MAP,
    kinds.SERVICE_ACCOUNT,
    kinds.ROLE,
    kinds.CLUSTER_ROLE,
    kinds.ROLE_BINDING,
    kinds.CLUSTER_ROLE_BINDING,
    kinds.CLUSTER_MANAGER,
)


@admin.register(Namespace)
class NamespaceAdmin(ResourceAdmin):
    kind = kinds.NAMESPACE
    ordering = ("namespace", "name")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "phase", "created", "deleted_at")

    def view_on_site(self, row: Namespace) -> str:
        return reverse("clustersets:namespace", args=[row.name])


@admin.register(Event)
class EventAdmin(ResourceAdmin):
    kind = kinds.EVENT
    search_fields = ("regarding_name__contains", "name__contains")
    search_help_text = "Part of the name of an event or of its object"
    ordering = ("-last_seen",)
    date_hierarchy = "last_seen"
    lookups = ("namespace", "name", "regarding_kind", "regarding_namespace", "regarding_name")
    unread = ("labels",)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("name", "kind_word", "reason", "regarding_kind", "regarding_name", "namespace", "last_seen", "note")

    @admin.display(description="type")
    def kind_word(self, row: Any) -> SafeString:
        found = str(row.doc.get("type") or "Normal")
        return status_label(found, "caution" if found == "Warning" else "quiet")

    @admin.display
    def reason(self, row: Any) -> str:
        return str(row.doc.get("reason", ""))

    @admin.display
    def note(self, row: Any) -> str:
        return str(row.doc.get("note") or row.doc.get("message") or "")


@admin.register(AccessRequest)
class AccessRequestAdmin(ReadOnlyAdmin):
    """What people asked for who were refused; answered on the page Access."""

    list_display = ("user", "verb", "resource", "namespace", "name", "state", "at", "answered_by", "reason")
    list_filter = ("answer",)
    search_fields = ("user__contains", "name__contains")
    ordering = ("-pk",)

    @admin.display
    def state(self, row: AccessRequest) -> SafeString:
        return status_label(row.get_answer_display() or "Open", "quiet" if row.answer else "accent")

    def view_on_site(self, row: AccessRequest) -> str:  # noqa: ARG002 - all of them are on one page
        return reverse("access:requests")
