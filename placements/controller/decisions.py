"""What a scheduled Placement writes: names, labels and content of its PlacementDecisions, and its status. Pure.

``safe_order`` puts the writes into an order in which no cluster that is chosen before and after is missing in between
(K16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusters.kinds import label_of
from ocmconsole.kubeapi.errors import Doc
from placements.kinds import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT, PLACEMENT_LABEL
from placements.scheduler.groups import DecisionGroup

Names = tuple[str, ...]
Group = tuple[str, str]  # name and index of a decision group, as labels


@dataclass(frozen=True, slots=True)
class WantedDecision:
    """A PlacementDecision as it should be. ``clusters`` in the order in which they stand in it."""

    name: str
    labels: Mapping[str, str]
    clusters: Names


def decisions_of(placement: str, groups: Sequence[DecisionGroup]) -> list[WantedDecision]:
    """P23, P24: ``<placement>-decision-<n>``, n counting from 1 across all groups."""
    found: list[WantedDecision] = []
    for group in groups:
        for clusters in group.decisions or ((),):
            name = f"{placement}-decision-{len(found) + 1}"
            found.append(WantedDecision(name, _labels(placement, group.name, str(group.index)), clusters))
    return found


def kept_decisions(placement: str, present: Mapping[str, Doc], allowed: frozenset[str]) -> list[WantedDecision]:
    """D14: the PlacementDecisions that stand, without clusters that the namespace may no longer choose from."""
    return [
        WantedDecision(
            name,
            _labels(placement, label_of(doc, GROUP_NAME_LABEL), label_of(doc, GROUP_INDEX_LABEL) or "0"),
            tuple(cluster for cluster in names_in(doc) if cluster in allowed),
        )
        for name, doc in present.items()
    ]


def _labels(placement: str, group: str, index: str) -> dict[str, str]:
    return {PLACEMENT_LABEL: placement, GROUP_NAME_LABEL: group, GROUP_INDEX_LABEL: index}


def owner_of(placement: Doc) -> Doc:
    """P24: the owner reference of its PlacementDecisions."""
    return {
        "apiVersion": PLACEMENT.storage.api_version,
        "kind": PLACEMENT.kind,
        "name": placement["metadata"]["name"],
        "uid": placement["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def entries_of(doc: Doc) -> list[Doc]:
    return list((doc.get("status") or {}).get("decisions") or ())


def names_in(doc: Doc) -> Names:
    """Clusters that a PlacementDecision names."""
    return tuple(str(entry["clusterName"]) for entry in entries_of(doc))


def groups_in(docs: Iterable[Doc]) -> dict[str, Group]:
    """Of each cluster that stored PlacementDecisions name, the group in which it stands."""
    return {
        name: (label_of(doc, GROUP_NAME_LABEL), label_of(doc, GROUP_INDEX_LABEL))
        for doc in docs
        for name in names_in(doc)
    }


def groups_of(wanted: Iterable[WantedDecision]) -> dict[str, Group]:
    """The same of PlacementDecisions as they should be."""
    return {
        name: (each.labels[GROUP_NAME_LABEL], each.labels[GROUP_INDEX_LABEL])
        for each in wanted
        for name in each.clusters
    }


def entries(clusters: Sequence[str], scores: Mapping[str, int] | None) -> list[Doc]:
    """P24: the reason is written, and empty. ``scores`` for a Placement that sorts by them."""
    known = scores or {}
    return [
        {"clusterName": name, "reason": ""} | ({"score": known[name]} if name in known else {}) for name in clusters
    ]


def scores_in(docs: Iterable[Doc]) -> dict[str, int]:
    """Scores that PlacementDecisions give, by cluster."""
    return {entry["clusterName"]: entry["score"] for doc in docs for entry in entries_of(doc) if "score" in entry}


def group_statuses(placement: str, groups: Sequence[DecisionGroup]) -> list[Doc]:
    """P27: ``status.decisionGroups``."""
    found: list[Doc] = []
    number = 0
    for group in groups:
        count = max(len(group.decisions), 1)
        names = [f"{placement}-decision-{number + each}" for each in range(1, count + 1)]
        number += count
        found.append(
            {
                "decisionGroupIndex": group.index,
                "decisionGroupName": group.name,
                "decisions": names,
                "clusterCount": group.count,
            }
        )
    return found


def safe_order(present: Mapping[str, Names], wanted: Mapping[str, Names]) -> Iterator[tuple[str, Names]]:
    """K16: the content of each PlacementDecision that changes, in the order in which it is written.

    After each step every cluster stands somewhere that ``present`` and ``wanted`` both name. Within one group there is
    always such an order, as both lists are sorted; between groups there may be none: then a PlacementDecision is
    written twice, first with what it had and what it gets. Those that only ``present`` names are to be deleted after
    the last step.
    """
    remaining = {name: Counter(present.get(name, ())) for name in wanted if present.get(name, ()) != wanted[name]}
    standing = Counter(cluster for clusters in present.values() for cluster in clusters)
    stays = {cluster for clusters in wanted.values() for cluster in clusters} & standing.keys()
    is_forward = True
    while remaining:
        before = len(remaining)
        for name in list(remaining) if is_forward else list(reversed(remaining)):
            lost = remaining[name] - Counter(wanted[name])
            if all(standing[cluster] > count for cluster, count in lost.items() if cluster in stays):
                standing.subtract(lost)
                standing.update(Counter(wanted[name]) - remaining.pop(name))
                yield name, wanted[name]
        is_forward = not is_forward
        if len(remaining) == before:
            # Each waits for another. The first that is to get a cluster that waits gets it now; none does so twice.
            name = next(name for name, has in remaining.items() if stays & (set(wanted[name]) - has.keys()))
            both = tuple(sorted({*remaining[name], *wanted[name]}))
            standing.update(Counter(both) - remaining[name])
            remaining[name] = Counter(both)
            yield name, both
