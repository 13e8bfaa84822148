"""The form of a draft: a row of fields for each condition, toleration, prioritizer, group and spread constraint.

What the fields hold as a specification is in ``rows``. A row that is left empty is dropped.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.safestring import mark_safe

from clusters.kinds import UNREACHABLE_TAINT, TaintEffect
from placements.playground import pretending
from placements.playground.rows import CEL, CLAIM, IS, LABEL, Row, Rows

MOST_ROWS = 100  # of one kind; more is written in YAML
PARTS = ((LABEL, "Label"), (CLAIM, "Claim"), (CEL, "CEL"))
OPERATORS = (
    (IS, "is"),
    ("In", "is one of"),
    ("NotIn", "is none of"),
    ("Exists", "is set"),
    ("DoesNotExist", "is not set"),
)
EFFECTS = (("", "Any effect"), *((each.value, each.value) for each in TaintEffect))


def _text(label: str, placeholder: str = "", longest: int = 2_000, **attrs: str) -> forms.CharField:
    found = {"placeholder": placeholder, "autocomplete": "off", "spellcheck": "false", **attrs}
    return forms.CharField(label=label, required=False, max_length=longest, widget=forms.TextInput(attrs=found))


def _whole_number(label: str, placeholder: str = "", **bounds: Any) -> forms.IntegerField:
    attrs = {"inputmode": "numeric", "autocomplete": "off", "placeholder": placeholder}
    return forms.IntegerField(label=label, required=False, widget=forms.TextInput(attrs=attrs), **bounds)


def _choice(label: str, *choices: tuple[str, str], default: str = "") -> forms.ChoiceField:
    """``default``: the value that means the same as none; the form shows one of both."""
    found = forms.ChoiceField(label=label, required=False, choices=choices)
    found.default = default  # type: ignore[attr-defined]
    return found


class DraftForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, each in self.fields.items():
            if default := getattr(each, "default", ""):
                hidden = default if not self[name].value() else ""
                each.choices = [choice for choice in each.choices if choice[0] != hidden]  # type: ignore[attr-defined]


class WholeForm(DraftForm):
    """What stands once."""

    number = _whole_number("Number of clusters", "all that pass")
    mode = _choice(
        "Mode",
        ("", "Additive: Balance and Steady count too"),
        ("Additive", "Additive: Balance and Steady count too"),
        ("Exact", "Exact: only those below"),
        default="Additive",
    )
    size = _text("Clusters in a group", "100%", 20)
    sort = _choice(
        "Order of the decisions",
        ("", "By name"),
        ("ClusterName", "By name"),
        ("Score", "By score"),
        default="ClusterName",
    )


class RowForm(DraftForm):
    """One row. ``flaws`` and ``mark``: what stands beneath it, of the schema, of the fleet and of what is stored."""

    needed = "key"
    is_added = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.flaws: list[str] = []
        self.mark: Any = None

    @property
    def is_empty(self) -> bool:
        return not self.cleaned_data.get(self.needed)

    @property
    def anchor(self) -> str:
        """The attribute by which the page of a new row opens at it."""
        return mark_safe('id="added"') if self.is_added else ""


class PredicateForm(RowForm):
    """One condition. Rows with the same number must all hold; another number is an alternative."""

    number = forms.IntegerField(required=False, min_value=1, max_value=MOST_ROWS, widget=forms.HiddenInput)
    part = forms.ChoiceField(required=False, choices=PARTS, widget=forms.HiddenInput)
    key = _text("Key", "env")
    operator = forms.ChoiceField(label="Condition", required=False, choices=OPERATORS)
    values = forms.CharField(
        label="Values",
        required=False,
        max_length=20_000,
        widget=forms.TextInput(attrs={"placeholder": "prod, stage", "autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self["part"].value() == CEL:
            attrs = {"rows": 2, "spellcheck": "false", "class": "oc-mono"}
            self.fields["values"].widget = forms.Textarea(attrs=attrs)
            self.fields["values"].label = "CEL expression"

    @property
    def is_empty(self) -> bool:
        found = self.cleaned_data
        return not (found.get("values") if found.get("part") == CEL else found.get("key"))


class TolerationForm(RowForm):
    key = _text("Taint", UNREACHABLE_TAINT["key"])
    operator = _choice("Operator", ("", "Equal"), ("Equal", "Equal"), ("Exists", "Exists"), default="Equal")
    value = _text("Value")
    effect = forms.ChoiceField(label="Effect", required=False, choices=EFFECTS)
    seconds = _whole_number("Seconds", "for ever")

    @property
    def is_empty(self) -> bool:
        return not any(value not in {None, ""} for value in self.cleaned_data.values())


class WeightForm(RowForm):
    """A prioritizer, or with a slash the score of an add-on: AddOnPlacementScore and score."""

    needed = "name"
    name = _text("Prioritizer, or resource/score of an add-on", "ResourceAllocatableMemory", list="prioritizers")
    weight = _whole_number("Weight", "1")


class DecisionGroupForm(RowForm):
    """A named group, and the labels of the chosen clusters that are in it."""

    needed = "name"
    name = _text("Name", "canary", 63)
    labels = _text("Labels", "rollout=canary")


class SpreadForm(RowForm):
    part = forms.ChoiceField(label="Of", required=False, choices=(("Label", "Label"), ("Claim", "Claim")))
    key = _text("Key", "region")
    most = _whole_number("At most ahead", "1")
    must = _choice(
        "Otherwise",
        ("", "ScheduleAnyway: last"),
        ("ScheduleAnyway", "ScheduleAnyway: last"),
        ("DoNotSchedule", "DoNotSchedule: never"),
        default="ScheduleAnyway",
    )


class PretenceForm(forms.Form):
    """One thing to pretend."""

    what = forms.ChoiceField(label="What", choices=pretending.KINDS, required=False)
    where = _text("Cluster, set or * for all", "cluster, set or *", 253)
    value = _text("Value", "env=prod", 500)


# Prefix of the fields of each kind of row, and the form of a row.
ROWS: dict[str, tuple[str, type[RowForm]]] = {
    "predicates": ("p", PredicateForm),
    "tolerations": ("t", TolerationForm),
    "weights": ("s", WeightForm),
    "groups": ("g", DecisionGroupForm),
    "spread": ("c", SpreadForm),
}


def forms_of(rows: Rows, added: str = "") -> dict[str, Any]:
    """Unbound forms. ``added``: a kind of row of which one more is shown, such as ``tolerations`` or ``label-2``."""
    found: dict[str, Any] = {"whole": WholeForm(initial=rows.whole, prefix="w"), "pretence": PretenceForm(prefix="x")}
    for name, (prefix, form) in ROWS.items():
        present: list[Row] | None = getattr(rows, name)
        if present is not None:
            more = _added(name, added)
            made = forms.formset_factory(form, extra=0, max_num=MOST_ROWS, absolute_max=MOST_ROWS)
            found[name] = made(initial=[*present, *more][:MOST_ROWS], prefix=prefix)
            for each in found[name].forms[len(present) :]:
                each.is_added = True
    return found


def _added(name: str, added: str) -> list[Row]:
    part, _, number = added.partition("-")
    if name == "predicates" and part in {LABEL, CLAIM, CEL}:
        is_number = number.isascii() and number.isdigit() and 0 < int(number[:4]) <= MOST_ROWS
        return [{"part": part, "number": int(number[:4]) if is_number else 1, "operator": IS if part == CEL else "In"}]
    return [{}] if added == name else []


def bound_forms(data: Any) -> dict[str, Any]:
    """Of what a browser sent; a kind of rows that it did not send at all is left out."""
    found: dict[str, Any] = {"whole": WholeForm(data, prefix="w"), "pretence": PretenceForm(data, prefix="x")}
    for name, (prefix, form) in ROWS.items():
        if f"{prefix}-TOTAL_FORMS" in data or name in {"predicates", "tolerations", "weights"}:
            made = forms.formset_factory(form, extra=0, max_num=MOST_ROWS, absolute_max=MOST_ROWS)
            found[name] = made(data, prefix=prefix)
    return found


def rows_in(found: dict[str, Any], sets: list[str], removed: str = "") -> tuple[Rows, dict[str, list[RowForm]]] | None:
    """The rows, and the form of each; None where a field cannot be read. ``removed``: prefix and number of a row."""
    kept: dict[str, list[RowForm]] = {
        name: [each for each in found[name].forms if each.prefix != removed] for name in ROWS if name in found
    }
    checked = [found["whole"].is_valid(), *(each.is_valid() for row in kept.values() for each in row)]
    managed = [found[name].management_form.is_valid() for name in kept]
    if not all(checked) or not all(managed):
        return None
    kept = {name: [each for each in row if each.cleaned_data and not each.is_empty] for name, row in kept.items()}
    values = {name: [each.cleaned_data for each in row] for name, row in kept.items()}
    rows = Rows(
        list(dict.fromkeys(sets)),
        found["whole"].cleaned_data,
        values["predicates"],
        values["tolerations"],
        values["weights"],
        values.get("groups"),
        values.get("spread"),
    )
    return rows, kept
