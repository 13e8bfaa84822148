"""Rules of RBAC as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.core.rbac.policy_rules import EVERYTHING, PolicyRule, covers, uncovered_rules
from ocmconsole.kubeapi.access.authorization import Attributes

WORDS = st.lists(st.sampled_from(["*", "a", "b", "a/s", "*/s"]), max_size=3).map(tuple)
NAMES = st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple)
RULES = st.builds(PolicyRule, verbs=WORDS, groups=WORDS, resources=WORDS, names=NAMES)
ASKED = st.builds(
    Attributes,
    verb=st.sampled_from(["a", "b", "c"]),
    group=st.sampled_from(["a", "b", "c"]),
    resource=st.sampled_from(["a", "b", "c"]),
    subresource=st.sampled_from(["", "s", "t"]),
    name=st.sampled_from(["", "x", "y", "z"]),
)


def asked(verb: str, resource: str, *, group: str = "", name: str = "") -> Attributes:
    head, _, below = resource.partition("/")
    return Attributes(verb, group, head, below, name=name)


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    ("resources", "resource", "allowed"),
    [
        (["pods"], "pods", True),
        (["pods"], "pods/log", False),
        (["pods/log"], "pods/log", True),
        (["pods/log"], "pods", False),
        (["*"], "pods/log", True),
        (["*/log"], "pods/log", True),
        (["*/log"], "pods", False),
        (["pods/*"], "pods/log", False),
    ],
)
def test_a_resource_does_not_include_its_subresources(resources: list[str], resource: str, allowed: bool) -> None:
    rule = PolicyRule.read({"verbs": ["get"], "apiGroups": [""], "resources": resources})
    assert rule.allows(asked("get", resource)) is allowed


@pytest.mark.contract("W13", "W22")
def test_a_named_rule_never_matches_a_request_without_a_name() -> None:
    rule = PolicyRule.read({"verbs": ["*"], "apiGroups": ["*"], "resources": ["things"], "resourceNames": ["c1"]})
    assert rule.allows(asked("watch", "things", name="c1"))
    assert not rule.allows(asked("watch", "things", name="c2"))
    assert not rule.allows(asked("create", "things"))


@pytest.mark.contract("W22")
@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("*", "/metrics", True),
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("/api", "/api", True),
        ("/a*i", "/api", False),
    ],
)
def test_paths_match_exactly_or_by_a_trailing_star(pattern: str, path: str, allowed: bool) -> None:
    rule = PolicyRule.read({"verbs": ["get"], "nonResourceURLs": [pattern]})
    assert rule.allows(Attributes("get", path=path)) is allowed


def test_a_right_on_resources_is_no_right_on_paths() -> None:
    assert not EVERYTHING[0].allows(Attributes("get", path="/metrics"))
    assert not EVERYTHING[1].allows(asked("get", "pods"))


@pytest.mark.contract("W22")
@given(RULES, RULES, ASKED)
def test_what_a_covered_rule_allows_the_covering_one_allows(
    owned: PolicyRule, wanted: PolicyRule, question: Attributes
) -> None:
    if covers([owned], wanted) and wanted.allows(question):
        assert owned.allows(question)


@given(st.lists(RULES, max_size=3), RULES)
def test_everything_covers_all_and_a_rule_covers_itself(owned: list[PolicyRule], rule: PolicyRule) -> None:
    assert not uncovered_rules(EVERYTHING, [rule])
    assert not uncovered_rules([*owned, rule], [rule])


def test_several_rules_may_cover_one_together() -> None:
    owned = [
        PolicyRule(("get", "list"), ("",), ("pods",)),
        PolicyRule(("get", "list"), ("",), ("secrets",), names=("a",)),
    ]
    assert covers(owned, PolicyRule(("get",), ("",), ("pods", "secrets"), names=("a",)))
    assert not covers(owned, PolicyRule(("get",), ("",), ("pods", "secrets")))


def test_what_is_missing_is_shown_by_place_with_its_verbs_together() -> None:
    owned = [PolicyRule(("list",), ("",), ("secrets",))]
    lacking = uncovered_rules(owned, [PolicyRule(("get", "list", "delete"), ("",), ("secrets",))])
    assert [str(rule) for rule in lacking] == ['{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}']


def test_a_rule_too_large_to_compare_counts_as_not_held() -> None:
    words = tuple(f"w{number}" for number in range(100))
    rule = PolicyRule(words, words, words)
    assert uncovered_rules([], [rule]) == [rule]
    assert not uncovered_rules([rule], [rule])


@pytest.mark.parametrize("doc", [None, 7, "rule", {"verbs": "get"}, {"verbs": [1]}, {"verbs": {"get": 1}}])
def test_what_is_no_rule_is_refused(doc: object) -> None:
    with pytest.raises(TypeError):
        PolicyRule.read(doc)  # type: ignore[arg-type] # that is the test
