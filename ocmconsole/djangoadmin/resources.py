"""Django admin for resources: an entry point like the others. It edits the document and saves it through the verbs.

Rights come from the same evaluator as the API's; the audit is the history, so Django's own log is not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.http import HttpResponseRedirect

from ocmconsole.components.document_display import as_yaml, shown_over
from ocmconsole.djangoadmin.acts import Acting
from ocmconsole.djangoadmin.lists import Fast
from ocmconsole.kubeapi import errors, kinds, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.formats import negotiation

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind
    from ocmconsole.kubeapi.models import Resource


class ResourceForm(forms.ModelForm):  # type: ignore[type-arg] # one form for every kind
    """The document as YAML. A dry run through the verbs is its validation."""

    document = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 32, "cols": 100, "spellcheck": "false"}),
        help_text="The object as kubectl shows it. Status is written by controllers and agents, not here.",
    )
    resource_admin: ResourceAdmin
    request: HttpRequest

    class Meta:
        fields: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.wire:
            self.initial["document"] = as_yaml(self.instance.doc)

    def clean_document(self) -> Doc:
        text = self.cleaned_data["document"]
        try:
            doc, _ = negotiation.read_body(text.encode(), "application/yaml", protobuf=None, find_duplicates=False)
            self.resource_admin.write(self.request, self.instance, doc, dry_run=True)
        except (errors.ApiError, UnicodeEncodeError) as error:
            raise forms.ValidationError(str(error)) from error
        return doc


class Audited(Acting, Fast):
    """What services write: outside Django's transaction, so that a refusal is kept; theirs is durable or nothing."""

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        try:
            return self._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[attr-defined] # Django's own, inside its atomic
        except errors.ApiError as error:
            return self.refused(request, error)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        try:
            return self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined] # as above
        except errors.ApiError as error:
            return self.refused(request, error)

    def refused(self, request: HttpRequest, error: errors.ApiError) -> HttpResponse:
        messages.error(request, f"Nothing was changed: {error.message}")
        return HttpResponseRedirect(request.path)

    # The audit is the history.
    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any: ...

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any: ...

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any: ...

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:  # noqa: ARG002 - Django's signature
        query = self.audit_query(self.get_object(request, unquote(object_id)))
        return HttpResponseRedirect(f"../../../../kubeapi/auditevent/{query}")

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        return super().render_change_form(request, {**context, "is_audited": True}, *args, **kwargs)

    def audit_query(self, obj: Any) -> str:
        """Which entries of the audit are about the object, if it is there."""
        return f"?resource={self.opts.verbose_name_plural}&name={quote(str(obj))}" if obj else ""


class ResourceAdmin(Audited):
    """Shared by all kinds; an app registers its models with a ``kind``."""

    kind: Kind
    form: Any = ResourceForm
    search_fields: ClassVar[tuple[str, ...]] = ("name__contains",)
    search_help_text = "Part of a name"
    ordering: ClassVar[tuple[str, ...]] = ("namespace", "name")
    lookups: ClassVar[tuple[str, ...]] = ("namespace", "name")
    unread: ClassVar[tuple[str, ...]] = ("wire", "labels")  # columns that the list does not need

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("namespace", "name", "created") if self.kind.namespaced else ("name", "created")

    # rights -------------------------------------------------------------

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "get", obj) if obj else self.has_module_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "create", None)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "patch", obj) if obj else self.has_module_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, "delete", obj)

    def _may(self, request: HttpRequest, verb: str, obj: Any) -> bool:
        key = obj.key if obj else kinds.Key("", "")
        return authorization.authorize(
            actor_of(request, EntryPoint.ADMIN), verbs.attributes(self.kind, verb, key)
        ).allowed

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Everything for who may list the kind; the others see what their object permissions show."""
        rows: QuerySet[Any] = self.model._default_manager.defer(*self.unread)  # noqa: SLF001 - Django's documented name
        return rows if self._may(request, "list", None) else self.visible(request, rows)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - for kinds with object permissions
        return rows.none()

    # writes -------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        kwargs["fields"] = []
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"resource_admin": self, "request": request})

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002 - Django's signature
        return ["document"]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001 - Django's signature
        result = self.write(request, obj, form.cleaned_data["document"])
        written = result.doc or result.gone or {}
        obj.pk = written["metadata"]["uid"]
        obj.name, obj.namespace = written["metadata"]["name"], written["metadata"].get("namespace", "")

    def write(self, request: HttpRequest, obj: Resource, doc: Doc, *, dry_run: bool = False) -> verbs.Result:
        """Create or change through the verbs. Raises ApiError."""
        actor = actor_of(request, EntryPoint.ADMIN)
        options = verbs.Options(dry_run=dry_run, manager="django-admin", unknown="strict")
        if not obj.wire:
            metadata = doc.get("metadata")
            namespace = metadata.get("namespace", "") if isinstance(metadata, dict) else ""
            return verbs.create(
                actor, self.kind, doc, namespace=namespace if self.kind.namespaced else "", options=options
            )
        return verbs.patch(actor, self.kind, obj.key, lambda _: shown_over(obj.doc, doc), options=options)

    def delete_model(self, request: HttpRequest, obj: Resource) -> None:
        verbs.delete(actor_of(request, EntryPoint.ADMIN), self.kind, obj.key)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """What the verbs will do, not what Django's cascade would."""
        denied = [] if all(self.has_delete_permission(request, obj) for obj in objs) else [self.kind.kind]
        return [str(obj) for obj in objs], {self.kind.kind: len(objs)}, set(denied), []

    def audit_query(self, obj: Any) -> str:
        if obj is None:
            return f"?resource={self.kind.resource}"
        return f"?resource={self.kind.resource}&namespace={obj.namespace}&name={quote(obj.name)}"


def register(*registered: Kind) -> None:
    """Put kinds without an admin of their own into Django admin."""
    for kind in registered:
        admin.site.register(kind.model, type(f"{kind.kind}Admin", (ResourceAdmin,), {"kind": kind}))


class ReadOnlyAdmin(Acting, Fast):
    """For rows that something else writes.

    Who holds the model's view permission sees all rows; others see those that ``visible`` gives, and no table that
    gives none.
    """

    is_for_all_staff = False  # ``visible`` gives rows to people without the permission

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if super().has_view_permission(request):
            return True
        if not self.is_for_all_staff:
            return False
        return obj is None or self.get_queryset(request).filter(pk=obj.pk).exists()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.all()  # noqa: SLF001 - Django's documented name
        return rows if super().has_view_permission(request) else self.visible(request, rows)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - for tables of clusters
        return rows.none()

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False
