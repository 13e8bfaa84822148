"""The page of Django admin that shows who holds permissions on one object, and changes them through ``permissions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path
from guardian.utils import get_group_obj_perms_model, get_user_obj_perms_model

from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import PeoplePermission, PermissionAct
from ocmconsole.djangoadmin.resources import ResourceAdmin
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.models import Resource


class PermissionField(forms.ModelChoiceField):  # type: ignore[type-arg] # of permissions
    def label_from_instance(self, obj: Any) -> str:
        return str(obj.name)


class GrantForm(forms.Form):
    """One permission for one person or one group."""

    permission = PermissionField(Permission.objects.none(), to_field_name="codename", empty_label=None)
    user = forms.ModelChoiceField(User.objects.order_by("username"), to_field_name="username", required=False)
    group = forms.ModelChoiceField(Group.objects.order_by("name"), to_field_name="name", required=False)
    act = forms.ChoiceField(choices=[(act.value, act.value) for act in PermissionAct], widget=forms.HiddenInput)

    def __init__(self, obj: Resource, data: Any = None) -> None:
        super().__init__(data, initial={"act": PermissionAct.GRANT})
        choice = self.fields["permission"]
        assert isinstance(choice, PermissionField)
        choice.queryset = _offered(obj)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors and bool(cleaned.get("user")) == bool(cleaned.get("group")):
            raise forms.ValidationError("Choose a person or a group.")
        return cleaned


class GrantsAdmin(ResourceAdmin):
    """For kinds whose objects have permissions of their own."""

    change_form_template = "admin/resource_change_form.html"

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_permissions"
        page = path("<path:object_id>/permissions/", self.admin_site.admin_view(self.permissions_view), name=name)
        return [page, *super().get_urls()]

    def permissions_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Who holds what on this object; POST gives or takes one."""
        obj = self.get_object(request, unquote(object_id))
        if obj is None:
            raise Http404(f"There is no such {self.kind.kind}, or you may not see it.")
        if not authorization.permitted(actor_of(request, EntryPoint.ADMIN), PeoplePermission.CHANGE_PERMISSION).allowed:
            raise PermissionDenied
        form = GrantForm(obj, request.POST or None)
        if request.method == "POST" and form.is_valid():
            self._change(request, obj, form.cleaned_data)
            return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Permissions on {obj.name}",
            "opts": self.opts,
            "original": obj,
            "form": form,
            "held": _held(obj),
        }
        return TemplateResponse(request, "admin/object_permissions.html", context)

    def _change(self, request: HttpRequest, obj: Resource, wanted: dict[str, Any]) -> None:
        act, permission, holder = PermissionAct(wanted["act"]), wanted["permission"], wanted["user"] or wanted["group"]
        change = permissions.PermissionChange(act, permission, holder, obj)
        try:
            made = permissions.change_permissions(actor_of(request, EntryPoint.ADMIN), [change])
        except errors.ApiError as error:
            messages.error(request, f"Nothing was changed: {error.message}")
            return
        done = {PermissionAct.GRANT: "granted to", PermissionAct.REVOKE: "revoked from"}[act]
        message = f"Permission {change.label} {done} {change.whom}" if made else "Nothing had to be changed"
        messages.success(request, f"{message}.")


def _offered(obj: Resource) -> QuerySet[Permission]:
    """To add is no permission on something that is there."""
    about = ContentType.objects.get_for_model(obj)
    return about.permission_set.exclude(codename__startswith="add_").order_by("codename")


def _held(obj: Resource) -> list[dict[str, Any]]:
    models: tuple[tuple[str, Any], ...] = (
        ("user", get_user_obj_perms_model(obj)),
        ("group", get_group_obj_perms_model(obj)),
    )
    links = [(role, model.objects.select_related(role, "permission")) for role, model in models]
    return [
        {"role": role, "name": str(getattr(link, role)), "permission": link.permission}
        for role, rows in links
        for link in rows.filter(content_object=obj).order_by("permission__codename", "pk")
    ]
