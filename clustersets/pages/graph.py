"""How namespaces, sets and clusters hang together: three columns of nodes with edges between neighbours. Pure.

Nodes of a column share its height evenly, so an edge is drawn from fractions of the height and never needs pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clusters.health.status import Word
from clusters.health.status_sql import WORST_FIRST

# Above it the least connected nodes of a column share one.
MOST_NODES = 40
MOST_SETS = 14  # nodes of sets; the rest is one node
MOST_NAMESPACES = MOST_NODES - MOST_SETS - len(WORST_FIRST)
HEIGHT = 1_000  # of the drawing, in its own units, which the page scales
REST = "…"
WORDS = {f"word:{word}": word for word in WORST_FIRST}


@dataclass(frozen=True, slots=True)
class Node:
    """``key`` is what a filter names it by: ``set:web``. ``merged`` is how many a group stands for; it has no count."""

    key: str
    label: str
    count: int = 0
    word: Word | None = None
    merged: int = 0
    y: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """From left to right."""

    start: str
    end: str
    count: int
    is_broken: bool = False
    path: str = ""
    width: int = 1


@dataclass(frozen=True, slots=True)
class Graph:
    namespaces: tuple[Node, ...]
    sets: tuple[Node, ...]
    words: tuple[Node, ...]
    bindings: tuple[Edge, ...]
    members: tuple[Edge, ...]

    @property
    def total(self) -> int:
        """Clusters in the sets that are drawn, each counted once."""
        return sum(node.count for node in self.words)

    @property
    def is_empty(self) -> bool:
        return not self.sets


def binding_graph(
    bindings: Iterable[tuple[str, str, bool]],
    members: Mapping[str, Mapping[Word, int]],
    clusters: Mapping[Word, int],
    chosen: str = "",
) -> Graph:
    """``bindings`` are (namespace, set, is bound), ``members`` counts by set and word; ``chosen`` is a node's key.

    ``clusters`` counts by word the clusters of the sets that are drawn, each once however many of the sets it is in.
    """
    ties = [Edge(f"namespace:{namespace}", f"set:{name}", 1, not bound) for namespace, name, bound in bindings]
    counts = [
        Edge(f"set:{name}", f"word:{word}", count) for name, words in members.items() for word, count in words.items()
    ]
    names = {f"set:{name}" for name in members} | {edge.end for edge in ties}
    if chosen:
        ties, counts, names = _around(chosen, ties, counts, names)
    weight = dict.fromkeys(names, 0)
    for edge in counts:
        weight[edge.start] = weight.get(edge.start, 0) + edge.count
    namespaces = dict.fromkeys((edge.start for edge in ties), 0)
    for edge in ties:
        namespaces[edge.start] += 1
    words = {key: clusters.get(WORDS[key], 0) for key in WORDS if any(edge.end == key for edge in counts)}
    shown_words = [key for key, count in words.items() if count]
    room = len(names) + len(namespaces) + len(shown_words) <= MOST_NODES
    kept_sets = _kept(weight, len(weight) if room else MOST_SETS)
    kept_namespaces = _kept(namespaces, len(namespaces) if room else MOST_NAMESPACES)
    ties = _merged(ties, "namespace", kept_namespaces, "set", kept_sets)
    counts = _merged(counts, "set", kept_sets, "word", set(shown_words))
    left = _column("namespace", namespaces, kept_namespaces)
    middle = _column("set", weight, kept_sets)
    right = tuple(_placed([Node(key, WORDS[key].label, words[key], WORDS[key]) for key in shown_words]))
    y = {node.key: node.y for node in (*left, *middle, *right)}
    return Graph(left, middle, right, _drawn(ties, y), _drawn(counts, y))


def _around(
    chosen: str, ties: list[Edge], counts: list[Edge], names: set[str]
) -> tuple[list[Edge], list[Edge], set[str]]:
    """What is connected with one node; with a namespace or a word, through their sets."""
    if chosen.startswith("set:"):
        near = {chosen} & names
    elif chosen.startswith("namespace:"):
        near = {edge.end for edge in ties if edge.start == chosen}
        ties = [edge for edge in ties if edge.start == chosen]
    else:
        near = {edge.start for edge in counts if edge.end == chosen}
        counts = [edge for edge in counts if edge.end == chosen]
    return [edge for edge in ties if edge.end in near], [edge for edge in counts if edge.start in near], near


def _kept(weights: Mapping[str, int], most: int) -> set[str]:
    """The heaviest; one place less when the rest needs it."""
    ordered = sorted(weights, key=lambda key: (-weights[key], key))
    return set(ordered) if len(ordered) <= most else set(ordered[: most - 1])


def _merged(edges: Iterable[Edge], start: str, starts: set[str], end: str, ends: set[str]) -> list[Edge]:
    """Edges of what was grouped lead to the group, once."""
    found: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        key = (
            edge.start if edge.start in starts else f"{start}:{REST}",
            edge.end if edge.end in ends else f"{end}:{REST}",
        )
        present = found.get(key, Edge(*key, 0))
        found[key] = replace(present, count=present.count + edge.count, is_broken=present.is_broken or edge.is_broken)
    return list(found.values())


def _column(kind: str, weights: Mapping[str, int], kept: set[str]) -> tuple[Node, ...]:
    nodes = [Node(key, key.partition(":")[2], weights[key]) for key in sorted(kept)]
    if rest := [key for key in weights if key not in kept]:
        label = f"{len(rest)} more {kind}s"
        nodes.append(Node(f"{kind}:{REST}", label, merged=len(rest)))
    return tuple(_placed(nodes))


def _placed(nodes: list[Node]) -> list[Node]:
    return [replace(node, y=round(HEIGHT * (2 * index + 1) / (2 * len(nodes)))) for index, node in enumerate(nodes)]


def _drawn(edges: Sequence[Edge], y: Mapping[str, int]) -> tuple[Edge, ...]:
    most = max((edge.count for edge in edges), default=1)
    return tuple(
        replace(
            edge,
            path=f"M0 {y[edge.start]} C50 {y[edge.start]} 50 {y[edge.end]} 100 {y[edge.end]}",
            width=1 + round(4 * edge.count / most) if most > 1 else 1,
        )
        for edge in edges
    )
