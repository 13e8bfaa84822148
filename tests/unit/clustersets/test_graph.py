"""The map of sets: nodes in three columns, edges by fractions, at most forty nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusters.health.status import Word
from clustersets.pages import graph
from clustersets.pages.graph import HEIGHT, MOST_NODES, Graph

NAMES = st.integers(0, 40).map(lambda number: f"n{number}")
TIES = st.lists(st.tuples(NAMES, NAMES, st.booleans()), max_size=60)
MEMBERS = st.dictionaries(NAMES, st.dictionaries(st.sampled_from(list(Word)), st.integers(1, 9_999)), max_size=45)
CHOSEN = st.one_of(st.just(""), NAMES.map(lambda name: f"set:{name}"), NAMES.map(lambda name: f"namespace:{name}"))


def once(members: dict[str, dict[Word, int]]) -> dict[Word, int]:
    """As if the smaller sets were parts of the largest."""
    return {word: max(words.get(word, 0) for words in members.values()) for word in Word if members}


def nodes(drawn: Graph) -> list[graph.Node]:
    return [*drawn.namespaces, *drawn.sets, *drawn.words]


@given(TIES, MEMBERS, CHOSEN)
def test_every_edge_ends_at_nodes_and_there_are_at_most_forty(
    ties: list[tuple[str, str, bool]], members: dict[str, dict[Word, int]], chosen: str
) -> None:
    drawn = graph.binding_graph(ties, members, once(members), chosen)
    keys = [node.key for node in nodes(drawn)]
    assert len(keys) == len(set(keys)) <= MOST_NODES
    for edge in (*drawn.bindings, *drawn.members):
        assert {edge.start, edge.end} <= set(keys)
    assert all(0 < node.y < HEIGHT for node in nodes(drawn))


@given(TIES, MEMBERS)
def test_grouping_loses_no_cluster(ties: list[tuple[str, str, bool]], members: dict[str, dict[Word, int]]) -> None:
    drawn = graph.binding_graph(ties, members, once(members))
    counted = sum(count for words in members.values() for count in words.values())
    assert sum(edge.count for edge in drawn.members) == counted
    assert sum(node.count for node in drawn.words) == drawn.total == sum(once(members).values())


def test_nodes_stand_evenly_in_their_column() -> None:
    drawn = graph.binding_graph([], {"a": {Word.LATE: 1}, "b": {Word.LATE: 2}}, {Word.LATE: 2})
    assert [node.y for node in drawn.sets] == [250, 750]
    assert [(node.y, node.count) for node in drawn.words] == [(500, 2)]


def test_the_least_connected_share_a_node() -> None:
    drawn = graph.binding_graph(
        [], {f"set-{number:02}": {Word.HEALTHY: number + 1} for number in range(50)}, {Word.HEALTHY: 50}
    )
    rest = drawn.sets[-1]
    assert (rest.label, rest.merged, rest.count) == ("37 more sets", 37, 0)
    assert {node.key for node in drawn.sets[:-1]} == {f"set:set-{number}" for number in range(37, 50)}


def test_a_binding_that_is_not_in_force_is_a_broken_line() -> None:
    drawn = graph.binding_graph([("shop", "web", False), ("shop", "db", True)], {"web": {}, "db": {}}, {})
    assert {edge.end: edge.is_broken for edge in drawn.bindings} == {"set:web": True, "set:db": False}
