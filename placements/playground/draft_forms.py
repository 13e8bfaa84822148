"""The form of a draft: a specification as rows to fill in, and the rows as a specification again.

What the form has no field for (groups, spread, sorting) stays as it is; it is written in YAML.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms

from clusters.kinds import UNREACHABLE_TAINT, TaintEffect
from placements.playground import pretending

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

MOST_ROWS = 100  # of one kind; more is written in YAML
LABEL, CLAIM, CEL = "label", "claim", "cel"
PARTS = ((LABEL, "Label"), (CLAIM, "Claim"), (CEL, "CEL"))
IS = "="
OPERATORS = (
    (IS, "is"),
    ("In", "is one of"),
    ("NotIn", "is none of"),
    ("Exists", "is set"),
    ("DoesNotExist", "is not set"),
)
WITHOUT_VALUES = frozenset({"Exists", "DoesNotExist"})
EFFECTS = (("", "Any effect"), *((each.value, each.value) for each in TaintEffect))
ADD_ON = "AddOn"
EDITED = ("clusterSets", "numberOfClusters", "predicates", "tolerations", "prioritizerPolicy")


def _text(label: str, placeholder: str = "", longest: int = 2_000) -> forms.CharField:
    attrs = {"placeholder": placeholder, "autocomplete": "off", "spellcheck": "false"}
    return forms.CharField(label=label, required=False, max_length=longest, widget=forms.TextInput(attrs=attrs))


class WholeForm(forms.Form):
    """What stands once."""

    number = forms.IntegerField(
        label="Number of clusters",
        required=False,
        help_text="Empty: all that pass.",
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )
    mode = forms.ChoiceField(
        label="Prioritizers beside those below",
        required=False,
        choices=(
            ("", "Balance and Steady count too"),
            ("Additive", "Additive: the same, written out"),
            ("Exact", "Exact: none"),
        ),
    )


class PredicateForm(forms.Form):
    """One condition. Rows with the same number must all hold; another number is an alternative."""

    number = forms.IntegerField(
        label="Predicate",
        required=False,
        min_value=1,
        max_value=MOST_ROWS,
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )
    part = forms.ChoiceField(label="What", required=False, choices=PARTS)
    key = _text("Key", "env")
    operator = forms.ChoiceField(label="Condition", required=False, choices=OPERATORS)
    values = _text("Values, or the CEL expression", "prod, stage", 20_000)

    @property
    def is_empty(self) -> bool:
        found = self.cleaned_data
        return not (found.get("values") if found.get("part") == CEL else found.get("key"))


class TolerationForm(forms.Form):
    key = _text("Key", UNREACHABLE_TAINT["key"])
    operator = forms.ChoiceField(
        label="Condition",
        required=False,
        choices=(("", "Equal"), ("Equal", "Equal, written out"), ("Exists", "Exists")),
    )
    value = _text("Value")
    effect = forms.ChoiceField(label="Effect", required=False, choices=EFFECTS)
    seconds = forms.IntegerField(
        label="Seconds",
        required=False,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "placeholder": "for ever"}),
    )

    @property
    def is_empty(self) -> bool:
        return not any(value not in {None, ""} for value in self.cleaned_data.values())


class WeightForm(forms.Form):
    """A prioritizer, or with a slash the score of an add-on: AddOnPlacementScore and score."""

    name = _text("Prioritizer, or resource/score of an add-on", "ResourceAllocatableMemory")
    weight = forms.IntegerField(
        label="Weight", required=False, widget=forms.TextInput(attrs={"inputmode": "numeric", "placeholder": "1"})
    )

    @property
    def is_empty(self) -> bool:
        return not self.cleaned_data.get("name")


class PretenceForm(forms.Form):
    """One thing to pretend."""

    what = forms.ChoiceField(label="What", choices=pretending.KINDS, required=False)
    where = _text("Cluster, set or * for all", "cluster, set or *", 253)
    value = _text("Value", "env=prod", 500)


def _rows(form: type[forms.Form]) -> Any:
    return forms.formset_factory(form, extra=1, max_num=MOST_ROWS, absolute_max=MOST_ROWS)


PredicateRows, TolerationRows, WeightRows = _rows(PredicateForm), _rows(TolerationForm), _rows(WeightForm)


# ---------------------------------------------------------------- a specification as rows


def fits(spec: Doc) -> bool:
    """Whether the form says the same as the specification, so that nothing is lost by it."""
    try:
        return of_rows(spec, *rows_of(spec)) == spec
    except (KeyError, TypeError, AttributeError, ValueError):
        return False


Row = dict[str, Any]


def rows_of(spec: Doc) -> tuple[list[str], Row, list[Row], list[Row], list[Row]]:
    """Sets, what stands once, predicates, tolerations, weights."""
    policy = spec.get("prioritizerPolicy") or {}
    whole = {"number": spec.get("numberOfClusters"), "mode": policy.get("mode", "")}
    predicates = [
        row | {"number": number}
        for number, each in enumerate(spec.get("predicates") or (), start=1)
        for row in _conditions(each["requiredClusterSelector"])
    ]
    tolerations = [
        {
            "key": each.get("key", ""),
            "operator": each.get("operator", ""),
            "value": each.get("value", ""),
            "effect": each.get("effect", ""),
            "seconds": each.get("tolerationSeconds"),
        }
        for each in spec.get("tolerations") or ()
    ]
    weights = [
        {"name": _named(each["scoreCoordinate"]), "weight": each.get("weight")}
        for each in policy.get("configurations") or ()
    ]
    return list(spec.get("clusterSets") or ()), whole, predicates, tolerations, weights


def _conditions(selector: Doc) -> Iterable[dict[str, Any]]:
    labels = selector.get("labelSelector") or {}
    for key, value in (labels.get("matchLabels") or {}).items():
        yield {"part": LABEL, "key": key, "operator": IS, "values": value}
    for part, found in ((LABEL, labels), (CLAIM, selector.get("claimSelector") or {})):
        for each in found.get("matchExpressions") or ():
            yield {
                "part": part,
                "key": each["key"],
                "operator": each["operator"],
                "values": ", ".join(each.get("values") or ()),
            }
    for text in (selector.get("celSelector") or {}).get("celExpressions") or ():
        yield {"part": CEL, "key": "", "operator": IS, "values": text}


def _named(coordinate: Doc) -> str:
    add_on = coordinate.get("addOn")
    return f"{add_on['resourceName']}/{add_on['scoreName']}" if add_on is not None else str(coordinate["builtIn"])


def of_rows(
    base: Doc,
    sets: list[str],
    whole: Row,
    predicates: Iterable[Row],
    tolerations: Iterable[Row],
    weights: Iterable[Row],
) -> Doc:
    """``base``: where the parts come from that the form has no field for."""
    policy = _without_nothing({"mode": whole.get("mode"), "configurations": [_configuration(each) for each in weights]})
    made = {
        "clusterSets": sets,
        "numberOfClusters": whole.get("number"),
        "predicates": _predicates(predicates),
        "tolerations": [_toleration(each) for each in tolerations],
        "prioritizerPolicy": policy,
    }
    return {name: part for name, part in base.items() if name not in EDITED} | _without_nothing(made)


def _without_nothing(found: Doc) -> Doc:
    return {name: part for name, part in found.items() if part not in (None, "", [], {})}


def _predicates(rows: Iterable[Row]) -> list[Doc]:
    by_number: dict[int, list[Row]] = {}
    for row in rows:
        by_number.setdefault(row.get("number") or 1, []).append(row)
    return [{"requiredClusterSelector": _selector(by_number[number])} for number in sorted(by_number)]


def _selector(rows: list[Row]) -> Doc:
    exact = {row["key"]: row["values"] for row in rows if row["part"] == LABEL and row["operator"] == IS}
    labels = {"matchLabels": exact, "matchExpressions": _expressions(rows, LABEL)}
    found = {
        "labelSelector": _without_nothing(labels),
        "claimSelector": _without_nothing({"matchExpressions": _expressions(rows, CLAIM)}),
        "celSelector": _without_nothing({"celExpressions": [row["values"] for row in rows if row["part"] == CEL]}),
    }
    return _without_nothing(found)


def _expressions(rows: list[Row], part: str) -> list[Doc]:
    found = []
    for row in rows:
        operator = row["operator"]
        if row["part"] == part and not (part == LABEL and operator == IS):
            each: Doc = {"key": row["key"], "operator": "In" if operator == IS else operator}
            values = [value.strip() for value in row["values"].split(",") if value.strip()]
            found.append(each if operator in WITHOUT_VALUES and not values else each | {"values": values})
    return found


def _toleration(row: Row) -> Doc:
    names = ("key", "operator", "value", "effect")
    return _without_nothing({**{name: row[name] for name in names}, "tolerationSeconds": row["seconds"]})


def _configuration(row: Row) -> Doc:
    resource, mark, score = row["name"].partition("/")
    coordinate: Doc = {"type": "BuiltIn", "builtIn": row["name"]}
    if mark:
        coordinate = {"type": ADD_ON, "addOn": {"resourceName": resource, "scoreName": score}}
    return {"scoreCoordinate": coordinate, **({} if row["weight"] is None else {"weight": row["weight"]})}
