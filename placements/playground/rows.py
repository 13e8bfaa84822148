"""A specification as rows that a form shows, and the rows as a specification again. Pure.

Parts that the form has no field for stay as they are in ``base``; ``None``: a part that says more than rows can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

LABEL, CLAIM, CEL = "label", "claim", "cel"
IS = "="
WITHOUT_VALUES = frozenset({"Exists", "DoesNotExist"})
ADD_ON = "AddOn"
EDITED = frozenset({"clusterSets", "numberOfClusters", "predicates", "tolerations", "prioritizerPolicy", "sortBy"})
GROUPS, SPREAD = "decisionStrategy", "spreadPolicy"

Row = dict[str, Any]


@dataclass(slots=True)
class Rows:
    """``whole``: what stands once: number, mode of the prioritizers, size of a group, order of the decisions."""

    sets: list[str] = field(default_factory=list)
    whole: Row = field(default_factory=dict)
    predicates: list[Row] = field(default_factory=list)
    tolerations: list[Row] = field(default_factory=list)
    weights: list[Row] = field(default_factory=list)
    groups: list[Row] | None = None
    spread: list[Row] | None = None

    @classmethod
    def of(cls, spec: Doc) -> Rows:
        """Raises KeyError, TypeError, AttributeError or ValueError for what does not fit the schema."""
        policy = spec.get("prioritizerPolicy") or {}
        size, groups = _groups_of(spec)
        whole = {
            "number": spec.get("numberOfClusters"),
            "mode": policy.get("mode", ""),
            "sort": spec.get("sortBy", ""),
            "size": size,
        }
        return cls(
            list(spec.get("clusterSets") or ()),
            whole,
            [
                row | {"number": number}
                for number, each in enumerate(spec.get("predicates") or (), start=1)
                for row in _conditions(each["requiredClusterSelector"])
            ],
            [
                {
                    "key": each.get("key", ""),
                    "operator": each.get("operator", ""),
                    "value": each.get("value", ""),
                    "effect": each.get("effect", ""),
                    "seconds": each.get("tolerationSeconds"),
                }
                for each in spec.get("tolerations") or ()
            ],
            [
                {"name": _named(each["scoreCoordinate"]), "weight": each.get("weight")}
                for each in policy.get("configurations") or ()
            ],
            groups,
            _spread_of(spec),
        )

    def spec(self, base: Doc) -> Doc:
        """``base``: where the parts come from that the rows do not hold."""
        policy = {"mode": self.whole.get("mode"), "configurations": [_configuration(each) for each in self.weights]}
        made: Doc = {
            "clusterSets": self.sets,
            "numberOfClusters": self.whole.get("number"),
            "predicates": _predicates(self.predicates),
            "tolerations": [_toleration(each) for each in self.tolerations],
            "prioritizerPolicy": _without_nothing(policy),
            "sortBy": self.whole.get("sort"),
        }
        if self.groups is not None:
            made[GROUPS] = _strategy(str(self.whole.get("size") or ""), self.groups)
        if self.spread is not None:
            made[SPREAD] = _without_nothing({"spreadConstraints": [_constraint(each) for each in self.spread]})
        return {name: part for name, part in base.items() if name not in made} | _without_nothing(made)


def fits(spec: Doc) -> bool:
    """Whether the rows say the same as the specification, so that nothing is lost by them."""
    try:
        return Rows.of(spec).spec(spec) == spec
    except (KeyError, TypeError, AttributeError, ValueError):
        return False


def kept_parts(spec: Doc) -> list[str]:
    """Parts of a specification that fits, which are edited as YAML."""
    rows = Rows.of(spec)
    shown = EDITED | ({GROUPS} if rows.groups is not None else set()) | ({SPREAD} if rows.spread is not None else set())
    return [name for name in spec if name not in shown]


def _without_nothing(found: Doc) -> Doc:
    return {name: part for name, part in found.items() if part not in (None, "", [], {})}


# ---------------------------------------------------------------- predicates


def _conditions(selector: Doc) -> Iterable[Row]:
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


def _predicates(rows: Iterable[Row]) -> list[Doc]:
    by_number: dict[int, list[Row]] = {}
    for row in rows:
        by_number.setdefault(row.get("number") or 1, []).append(row)
    return [{"requiredClusterSelector": selector_of(by_number[number])} for number in sorted(by_number)]


def selector_of(rows: list[Row]) -> Doc:
    """The ClusterSelector of rows that must all hold."""
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


# ---------------------------------------------------------------- tolerations, weights


def _toleration(row: Row) -> Doc:
    names = ("key", "operator", "value", "effect")
    return _without_nothing({**{name: row[name] for name in names}, "tolerationSeconds": row["seconds"]})


def _named(coordinate: Doc) -> str:
    add_on = coordinate.get("addOn")
    return f"{add_on['resourceName']}/{add_on['scoreName']}" if add_on is not None else str(coordinate["builtIn"])


def _configuration(row: Row) -> Doc:
    resource, mark, score = row["name"].partition("/")
    coordinate: Doc = {"type": "BuiltIn", "builtIn": row["name"]}
    if mark:
        coordinate = {"type": ADD_ON, "addOn": {"resourceName": resource, "scoreName": score}}
    return {"scoreCoordinate": coordinate, **({} if row["weight"] is None else {"weight": row["weight"]})}


# ---------------------------------------------------------------- groups, spread


def _groups_of(spec: Doc) -> tuple[str, list[Row] | None]:
    """The size of a group as it is written, and the named groups; None where these say more than labels."""
    strategy = (spec.get(GROUPS) or {}).get("groupStrategy") or {}
    size = strategy.get("clustersPerDecisionGroup")
    rows = []
    for each in strategy.get("decisionGroups") or ():
        labels = (each["groupClusterSelector"].get("labelSelector") or {}).get("matchLabels") or {}
        rows.append({"name": each["groupName"], "labels": ", ".join(f"{key}={value}" for key, value in labels.items())})
    text = "" if size is None else str(size)
    return text, rows if _strategy(text, rows) == (spec.get(GROUPS) or {}) else None


def _strategy(size: str, rows: list[Row]) -> Doc:
    groups = [
        {"groupName": row["name"], "groupClusterSelector": _labelled(row["labels"])}
        for row in rows
    ]  # fmt: skip
    count: int | str = int(size) if size.isascii() and size.isdigit() and len(size) < 10 else size  # noqa: PLR2004 - int32
    found = _without_nothing({"clustersPerDecisionGroup": count, "decisionGroups": groups})
    return {"groupStrategy": found} if found else {}


def _labelled(text: str) -> Doc:
    """``rollout=canary, tier=1``; a part without a value stands for the empty one."""
    parts = (each.strip().partition("=") for each in text.split(",") if each.strip())
    labels = {key.strip(): value.strip() for key, _, value in parts}
    return {"labelSelector": {"matchLabels": labels}} if labels else {}


def _spread_of(spec: Doc) -> list[Row] | None:
    rows = [
        {
            "part": str(each["topologyKeyType"]),
            "key": each["topologyKey"],
            "most": each.get("maxSkew"),
            "must": each.get("whenUnsatisfiable", ""),
        }
        for each in (spec.get(SPREAD) or {}).get("spreadConstraints") or ()
    ]
    made = _without_nothing({"spreadConstraints": [_constraint(each) for each in rows]})
    return rows if made == (spec.get(SPREAD) or {}) else None


def _constraint(row: Row) -> Doc:
    parts = {"maxSkew": row.get("most"), "whenUnsatisfiable": row.get("must")}
    return {"topologyKey": row["key"], "topologyKeyType": row.get("part") or "Label"} | _without_nothing(parts)
