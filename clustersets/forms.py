"""Forms of the pages of sets, bindings and moves. What may be stored is decided by the verbs; these only read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms

from ocmconsole.kubeapi.schema.names import value_flaws
from ocmconsole.kubeapi.storage.selectors import LabelSelector

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

MOST_ROWS = 20  # requirements of a selector in the form
EXCLUSIVE, BY_LABELS = "exclusive", "labels"
OPERATORS = (
    ("In", "is one of"),
    ("NotIn", "is none of"),
    ("Exists", "is set"),
    ("DoesNotExist", "is not set"),
)


class SetForm(forms.Form):
    """A new set. With labels, the rows of ``RequirementForm`` say which."""

    name = forms.CharField(
        max_length=253,
        strip=True,
        help_text="Lower-case letters, digits and dashes, at most 63 of them. It cannot be changed later.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Give the set a name."},
    )
    kind = forms.ChoiceField(
        label="Who belongs to it",
        choices=(
            (EXCLUSIVE, "Clusters that are put into it, one set at a time"),
            (BY_LABELS, "Every cluster whose labels match"),
        ),
        initial=EXCLUSIVE,
        widget=forms.RadioSelect,
    )


class RequirementForm(forms.Form):
    """One condition on one label; a row without a key says nothing."""

    key = forms.CharField(
        label="Label",
        required=False,
        max_length=317,
        strip=True,
        widget=forms.TextInput(attrs={"placeholder": "env", "autocomplete": "off", "spellcheck": "false"}),
    )
    operator = forms.ChoiceField(label="Condition", required=False, choices=OPERATORS)
    values = forms.CharField(
        label="Values, separated by commas",
        required=False,
        max_length=2_000,
        widget=forms.TextInput(attrs={"placeholder": "prod, stage", "autocomplete": "off", "spellcheck": "false"}),
    )

    def clean(self) -> dict[str, Any]:
        """As a set that cannot be read has no members, it is refused here, where the person can mend it (K24)."""
        if self.requirement is not None:
            try:
                LabelSelector.from_wire({"matchExpressions": [self.requirement]})
            except ValueError as error:
                self.add_error("values" if "values" in str(error).partition(":")[0] else "key", str(error))
        return self.cleaned_data

    @property
    def requirement(self) -> Doc | None:
        """As matchExpressions has it."""
        key, operator = self.cleaned_data.get("key", ""), self.cleaned_data.get("operator") or "In"
        if not key:
            return None
        if operator in {"Exists", "DoesNotExist"}:
            return {"key": key, "operator": operator}
        values = [value.strip() for value in self.cleaned_data.get("values", "").split(",") if value.strip()]
        return {"key": key, "operator": operator, "values": values}


RequirementFormSet = forms.formset_factory(
    RequirementForm, extra=2, max_num=MOST_ROWS, absolute_max=MOST_ROWS, validate_max=True
)


class DeleteForm(forms.Form):
    """The name typed again, because nothing brings a set's permissions back."""

    typed = forms.CharField(
        label="Type the name of the set",
        strip=True,
        max_length=253,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Type the name of the set."},
    )

    def __init__(self, *args: Any, name: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.name = name

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed != self.name:
            raise forms.ValidationError("This is not the name of the set.")
        return typed


class BindForm(forms.Form):
    """Which set, into which namespace."""

    set = forms.ChoiceField(label="Set", error_messages={"required": "Choose a set."})
    namespace = forms.CharField(
        max_length=253,
        strip=True,
        widget=forms.TextInput(attrs={"list": "namespaces", "autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Name a namespace."},
    )

    def __init__(self, *args: Any, sets: Iterable[str], **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["set"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "Choose a set"), *((name, name) for name in sets)]


class MoveForm(forms.Form):
    """Where to, and from where each cluster was seen to come.

    One cluster's page sends ``name=set``; of a selection the hub itself keeps what its page showed: ``previewed``.
    """

    to = forms.ChoiceField(
        label="Move to set",
        error_messages={"required": "Choose a set.", "invalid_choice": "You see no set of that name to move into."},
    )
    seen = forms.CharField(required=False, max_length=100_000, widget=forms.HiddenInput)
    typed = forms.CharField(
        label="Type how many clusters move",
        required=False,
        max_length=10,
        strip=True,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )

    def __init__(
        self, *args: Any, sets: Iterable[str], previewed: dict[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.previewed = previewed
        field = self.fields["to"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "Choose a set"), *((name, name) for name in sets)]

    def clean_seen(self) -> dict[str, str]:
        if self.previewed is not None:
            if not self.previewed:
                raise forms.ValidationError("Look first at what the move does, then confirm it.")
            return self.previewed
        pairs = [part.partition("=") for part in self.cleaned_data["seen"].split(",") if part]
        if not pairs or any(not name or [*value_flaws(name), *value_flaws(before)] for name, _, before in pairs):
            raise forms.ValidationError("This page is damaged; open it again.")
        return {name: before for name, _, before in pairs}
