"""Forms of the access pages. What may be given is decided by the services; these only read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import password_validators_help_texts

from ocmconsole.access.presets import PRESETS, GrantRequest, PresetScope
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.rbac.known_rights import Question
from ocmconsole.core.rbac.rule_index import Subject
from ocmconsole.kubeapi import errors

PLAIN = {"autocomplete": "off", "spellcheck": "false"}
MOST_NAMES = 100  # objects of one grant; a set names more
SCOPES = {
    PresetScope.ALL: "All, also those to come",
    PresetScope.SET: "One set",
    PresetScope.CLUSTER: "One cluster",
    PresetScope.NAMES: "Clusters by name, also before they exist",
    PresetScope.NAMESPACE: "One set, in one namespace",
    PresetScope.NAMESPACE_ALONE: "One namespace",
}

IN_NAMESPACE = {PresetScope.NAMESPACE, PresetScope.NAMESPACE_ALONE}


def text_input(suggestions: str = "", **attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs=PLAIN | ({"list": suggestions} if suggestions else {}) | attributes)


class QuestionForm(forms.Form):
    """Who, what, on which. Sent with GET: a question is an address."""

    user = forms.CharField(label="Who", required=False, max_length=320, widget=text_input("people"))
    groups = forms.CharField(
        label="Groups",
        required=False,
        max_length=1_000,
        widget=text_input(placeholder="their own, or a, b"),
    )
    verb = forms.CharField(
        max_length=20, widget=text_input("verbs"), error_messages={"required": "Say what is to be done."}
    )
    resource = forms.CharField(
        max_length=253,
        widget=text_input("resources", placeholder="plural.group/subresource"),
        error_messages={"required": "Say to what."},
    )
    name = forms.CharField(required=False, max_length=253, widget=text_input(placeholder="all of them"))
    namespace = forms.CharField(required=False, max_length=253, widget=text_input())

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if not self.errors:
            try:
                given["question"] = known_rights.question(
                    given["verb"], given["resource"], name=given["name"], namespace=given["namespace"]
                )
            except errors.BadRequest as error:
                self.add_error("verb" if "verb" in error.message else "resource", error.message)
        return given

    @property
    def question(self) -> Question:
        asked: Question = self.cleaned_data["question"]
        return asked

    @property
    def named_groups(self) -> tuple[str, ...]:
        return tuple(group for each in self.cleaned_data["groups"].split(",") if (group := each.strip()))


class AccessReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say why: the one who answers reads it, and the audit keeps it."},
    )


class HolderField(forms.CharField):
    """``ana`` is a person, ``group:web-ops`` a group."""

    def to_python(self, value: Any) -> Any:
        written = super().to_python(value) or ""
        kind, mark, name = written.partition(":")
        if mark and kind in {"user", "group"}:
            return Subject(kind.capitalize(), name.strip())
        return Subject("User", written) if written else written


class GiveForm(forms.Form):
    """A preset for somebody, and what it is to be about."""

    preset = forms.ChoiceField(
        label="Role",
        choices=[(preset.key, preset.title) for preset in PRESETS.values()],
        error_messages={"required": "Choose a role."},
    )
    holder = HolderField(
        label="Person or group",
        max_length=330,
        widget=text_input("holders", placeholder="ana, or group:web-ops"),
        error_messages={"required": "Say who."},
    )
    scope = forms.ChoiceField(label="On", choices=[(scope.value, label) for scope, label in SCOPES.items()])
    set = forms.CharField(label="Set", required=False, max_length=253, widget=text_input("sets"))
    names = forms.CharField(
        label="Clusters",
        required=False,
        max_length=5_000,
        help_text="Separated by commas. RBAC takes each as it is: eu-* would be a name, not a pattern.",
        widget=text_input("clusters"),
    )
    namespace = forms.CharField(required=False, max_length=63, widget=text_input("namespaces"))

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if self.errors:
            return given
        preset, scope = PRESETS[given["preset"]], PresetScope(given["scope"])
        if scope not in preset.scopes:
            fitting = ", ".join(SCOPES[each] for each in preset.scopes)
            self.add_error("scope", f"{preset.title} is given on: {fitting}.")
        self._check_names(scope)
        return given

    def _check_names(self, scope: PresetScope) -> None:
        given = self.cleaned_data
        if scope in {PresetScope.SET, PresetScope.NAMESPACE} and not given["set"]:
            self.add_error("set", "Name the set.")
        if scope in IN_NAMESPACE and not given["namespace"]:
            self.add_error("namespace", "Name the namespace.")
        if scope in {PresetScope.CLUSTER, PresetScope.NAMES} and not self._listed():
            self.add_error("names", "Name the cluster.")
        if scope is PresetScope.CLUSTER and len(self._listed()) > 1:
            self.add_error("names", "Name one cluster, or choose clusters by name.")
        if any("*" in name for name in self._listed()):
            self.add_error("names", "RBAC knows no patterns: list the names, or give it on a set or on all.")
        if len(self._listed()) > MOST_NAMES:
            self.add_error("names", f"At most {MOST_NAMES} names; a set says it better.")

    def _listed(self) -> tuple[str, ...]:
        names = (each.strip() for each in self.cleaned_data.get("names", "").split(","))
        return tuple(dict.fromkeys(name for name in names if name))

    def wish(self) -> GrantRequest:
        given = self.cleaned_data
        scope = PresetScope(given["scope"])
        names = (given["set"],) if scope in {PresetScope.SET, PresetScope.NAMESPACE} else self._listed()
        about = () if scope in {PresetScope.ALL, PresetScope.NAMESPACE_ALONE} else names
        namespace = given["namespace"] if scope in IN_NAMESPACE else ""
        return GrantRequest(PRESETS[given["preset"]], given["holder"], scope, about, namespace)


class PersonForm(BaseUserCreationForm[User]):
    """A new person. Django's own rules for names and passwords hold."""

    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"), required=False, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = User
        fields = ("username", "first_name", "last_name", "email")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["password1"].help_text = " ".join(password_validators_help_texts())
        self.fields["password1"].label = "First password"
        self.fields["password2"].label = "The same again"
        self.fields["password2"].help_text = "The person changes it after signing in."


class GroupForm(forms.ModelForm[Group]):
    class Meta:
        model = Group
        fields = ("name",)


class MembershipForm(forms.Form):
    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"), required=False, widget=forms.CheckboxSelectMultiple
    )
