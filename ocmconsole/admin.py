"""Django admin of people and groups: Django's own forms, saved through ``people``, which has the rules."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from allauth.account.admin import EmailAddress
from allauth.mfa.admin import Authenticator
from allauth.socialaccount.admin import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm
from django.contrib.auth.models import Group, User
from django.urls import reverse

from ocmconsole import admin_records  # noqa: F401 - registers the hub's own records
from ocmconsole.accounts import people
from ocmconsole.djangoadmin.resources import Audited
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.access.actor import Actor

# Credentials belong to their users, or go through services: none of them is edited here.
admin.site.unregister([User, Group, EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken])


class SubjectAdmin(Audited):
    """A person, or a group of them."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        """Groups and rights were saved with the rest."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        people.delete_account(actor_of(request, EntryPoint.ADMIN), obj)


class AdminPasswordForm(AdminPasswordChangeForm):  # type: ignore[type-arg] # one model of users
    """Another person's password."""

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actor = actor

    def save(self, commit: bool = True) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        user = super().save(commit=False)
        if commit:
            people.save_user(self.actor, user)
        return user


@admin.register(User)
class PersonAdmin(SubjectAdmin, UserAdmin):  # type: ignore[type-arg] # as above
    list_display = (
        "username",
        "first_name",
        "last_name",
        "email",
        "is_active",
        "is_staff",
        "is_superuser",
        "last_login",
    )
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    search_fields = ("username", "first_name", "last_name", "email")
    lookups = ("username",)

    def view_on_site(self, user: User) -> str:
        return reverse("access:user", args=[user.get_username()])

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001 - Django's signature
        given = form.cleaned_data
        actor = actor_of(request, EntryPoint.ADMIN)
        people.save_user(actor, obj, groups=given.get("groups"), rights=given.get("user_permissions"))

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:  # noqa: A002 - Django's signature
        """As Django's, with a form that knows who asks."""
        view: Any = copy(self)
        view.change_password_form = partial(AdminPasswordForm, actor=actor_of(request, EntryPoint.ADMIN))
        try:
            return super(PersonAdmin, view).user_change_password(request, id, form_url)
        except errors.ApiError as error:
            return self.refused(request, error)


@admin.register(Group)
class PeopleAdmin(SubjectAdmin, GroupAdmin):
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: ARG002, FBT001 - Django's signature
        people.save_group(actor_of(request, EntryPoint.ADMIN), obj, rights=form.cleaned_data.get("permissions"))
