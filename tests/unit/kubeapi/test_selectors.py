"""Label and field selectors: what they select and how they refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import BadRequest
from ocmconsole.kubeapi.storage.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    FieldTerm,
    LabelSelector,
    Operator,
    Requirement,
)

FLEET = {
    "c1": {"env": "prod", "region": "eu", "size": "5"},
    "c2": {"env": "prod", "region": "us", "size": "10"},
    "c3": {"env": "dev", "region": "eu"},
    "c4": {"env": ""},
    "c5": {"size": "many"},
    "c6": {},
}


REFUSED = "unable to parse requirement: "
NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


def selected(text: str) -> list[str]:
    selector = LabelSelector.parse(text)
    return [name for name, labels in FLEET.items() if selector.matches(labels)]


@pytest.mark.contract("W10", "W151")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["c1", "c2", "c3", "c4", "c5", "c6"]),
        ("  ", ["c1", "c2", "c3", "c4", "c5", "c6"]),
        ("env", ["c1", "c2", "c3", "c4"]),
        ("!env", ["c5", "c6"]),
        ("! env", ["c5", "c6"]),
        ("env=prod", ["c1", "c2"]),
        ("env==prod", ["c1", "c2"]),
        ("env = prod", ["c1", "c2"]),
        ("\tenv\n=\rprod ", ["c1", "c2"]),
        ("env!=prod", ["c3", "c4", "c5", "c6"]),
        ("env=", ["c4"]),
        ("env=,region", []),
        ("env!=", ["c1", "c2", "c3", "c5", "c6"]),
        ("env in (prod,dev)", ["c1", "c2", "c3"]),
        ("env in ( prod , )", ["c1", "c2", "c4"]),
        ("env in (,)", ["c4"]),
        ("env in ()", ["c4"]),
        ("env notin (prod)", ["c3", "c4", "c5", "c6"]),
        ("env=prod,region!=us", ["c1"]),
        ("size>5", ["c2"]),
        ("size<10", ["c1"]),
        ("size < 11, env", ["c1", "c2"]),
        ("in in (in,notin)", []),
        ("notin", []),
    ],
)
def test_label_selectors_select(text: str, names: list[str]) -> None:
    assert selected(text) == names


@pytest.mark.contract("W10", "W123")
def test_the_selector_of_clusteradm_with_blanks_is_understood() -> None:
    selector = LabelSelector.parse("open-cluster-management.io/cluster-name = c1")
    assert selector.requirements == (Requirement("open-cluster-management.io/cluster-name", Operator.EQUALS, ("c1",)),)


@pytest.mark.contract("W151")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("! = a", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        (
            "a>x",
            f'{REFUSED}values[0]: Invalid value: "x": {NO_INTEGER}',
        ),
        (
            "a>99999999999999999999",
            f'{REFUSED}values[0]: Invalid value: "99999999999999999999": {NO_INTEGER}',
        ),
    ],
)
def test_a_malformed_label_selector_is_refused_in_the_words_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        LabelSelector.parse(text)
    assert refused.value.message == message


@pytest.mark.contract("W151")
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("/a", 'key: Invalid value: "/a": prefix part must be non-empty'),
        ("x/", "name part must be non-empty"),
        ("a/b/c=d", "must consist of alphanumeric characters"),
        ("Upper.Case/x", "a lowercase RFC 1123 subdomain must consist of"),
        ("-a=b", "name part must consist of alphanumeric characters, '-', '_' or '.'"),
        ("a=-b", 'values[0][a]: Invalid value: "-b": a valid label must be an empty string or consist of'),
        (f"a={'b' * 64}", "must be no more than 63 bytes"),
        (f"{'a' * 64}", "name part must be no more than 63 bytes"),
        ("a\u00e9=b", "name part must consist of"),
        ("a\0", "name part must consist of"),
    ],
)
def test_keys_and_values_have_the_syntax_of_labels(text: str, part: str) -> None:
    with pytest.raises(BadRequest) as refused:
        LabelSelector.parse(text)
    assert refused.value.message.startswith("unable to parse requirement: ")
    assert part in refused.value.message


@pytest.mark.contract("T6")
def test_no_selector_document_selects_nothing_and_an_empty_one_everything() -> None:
    assert LabelSelector.from_wire(None) == NOTHING
    assert not NOTHING.is_empty
    assert not NOTHING.matches({})
    assert not NOTHING.matches({"": ""})
    assert LabelSelector.from_wire({}) == EVERYTHING
    assert LabelSelector.from_wire({"matchLabels": None, "matchExpressions": []}) == EVERYTHING
    assert EVERYTHING.is_empty
    assert EVERYTHING.matches({})


@pytest.mark.contract("T3")
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ({"key": "env", "operator": "In", "values": ["prod", "dev"]}, ["c1", "c2", "c3"]),
        ({"key": "env", "operator": "NotIn", "values": ["prod"]}, ["c3", "c4", "c5", "c6"]),
        ({"key": "env", "operator": "Exists"}, ["c1", "c2", "c3", "c4"]),
        ({"key": "env", "operator": "DoesNotExist", "values": None}, ["c5", "c6"]),
    ],
)
def test_match_expressions_select(expression: dict[str, Any], names: list[str]) -> None:
    selector = LabelSelector.from_wire({"matchExpressions": [expression]})
    assert [name for name, labels in FLEET.items() if selector.matches(labels)] == names


@pytest.mark.contract("T3")
def test_match_labels_and_expressions_must_all_hold() -> None:
    doc = {"matchLabels": {"env": "prod"}, "matchExpressions": [{"key": "region", "operator": "In", "values": ["us"]}]}
    selector = LabelSelector.from_wire(doc)
    assert [name for name, labels in FLEET.items() if selector.matches(labels)] == ["c2"]


@pytest.mark.contract("T3", "K24")
@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, '"Gt" is not a valid label selector'),
        ({"matchExpressions": [{"key": "a"}]}, '"" is not a valid label selector operator'),
        ({"matchExpressions": [{"operator": "Exists"}]}, "name part must be non-empty"),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "values set must be empty"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, "1 is not a string"),
        ({"matchExpressions": ["a"]}, "every element must be an object"),
        ({"matchExpressions": {"a": "b"}}, "matchExpressions must be a list"),
        ({"matchLabels": ["a"]}, "matchLabels must be an object"),
        ({"matchLabels": {"a": True}}, "true is not a string"),
        ({"matchLabels": {"a b": "c"}}, 'key: Invalid value: "a b"'),
        ([], "a label selector must be an object"),
    ],
)
def test_a_broken_selector_document_is_a_value_error_with_a_clear_text(doc: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LabelSelector.from_wire(doc)


names = st.from_regex(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,20}[a-zA-Z0-9])?", fullmatch=True)
keys = st.one_of(names, st.builds("{}/{}".format, st.from_regex(r"[a-z]{1,5}\.[a-z]{1,5}", fullmatch=True), names))
values = st.one_of(st.just(""), names)
integers = st.integers(0, 2**63 - 1).map(str)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(Operator))
    if operator in (Operator.EXISTS, Operator.NOT_EXISTS):
        found: list[str] = []
    elif operator in (Operator.IN, Operator.NOT_IN):
        found = draw(st.lists(values, min_size=1, max_size=4))
    else:
        found = [draw(integers if operator in (Operator.GREATER, Operator.LESS) else values)]
    return Requirement.checked(draw(keys), operator, found)


@pytest.mark.contract("W10")
@given(st.lists(requirements(), max_size=4))
def test_a_label_selector_survives_being_written_and_parsed(found: list[Requirement]) -> None:
    selector = LabelSelector(tuple(found))
    assert LabelSelector.parse(str(selector)) == selector


@pytest.mark.contract("W10")
@given(requirements(), st.dictionaries(keys, values))
def test_a_requirement_and_its_negation_split_the_world(requirement: Requirement, labels: dict[str, str]) -> None:
    opposite = {
        Operator.EQUALS: Operator.NOT_EQUALS,
        Operator.IN: Operator.NOT_IN,
        Operator.EXISTS: Operator.NOT_EXISTS,
    }.get(requirement.operator)
    if opposite:
        negation = Requirement(requirement.key, opposite, requirement.values)
        assert requirement.matches(labels) is not negation.matches(labels)


hostile = st.one_of(st.text(), st.text(alphabet="ab!=<>(), \t\\in/\0"))


@given(hostile, st.dictionaries(st.text(max_size=3), st.text(max_size=3)))
def test_any_text_is_a_label_selector_or_a_bad_request(text: str, labels: dict[str, str]) -> None:
    try:
        selector = LabelSelector.parse(text)
    except BadRequest as refused:
        assert refused.message  # noqa: PT017 - both outcomes are fine, a crash is not
    else:
        selector.matches(labels)
        assert LabelSelector.parse(str(selector)) == selector


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["matchLabels", "matchExpressions", "key", "operator", "values", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=10,
)


@pytest.mark.contract("K24")
@given(json_values)
def test_any_document_is_a_label_selector_or_a_value_error(doc: Any) -> None:
    try:
        selector = LabelSelector.from_wire(doc)
    except ValueError as refused:
        assert str(refused)  # noqa: PT017 - both outcomes are fine, a crash is not
    else:
        selector.matches({"x": "y"})


# ---- Field selectors


@pytest.mark.contract("W10", "W152")
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", ()),
        ("=", ()),
        (",,", ()),
        ("metadata.name=c1", (FieldTerm("metadata.name", "=", "c1"),)),
        ("metadata.name==c1", (FieldTerm("metadata.name", "=", "c1"),)),
        ("status.phase!=Active", (FieldTerm("status.phase", "!=", "Active"),)),
        ("a=1,b=2", (FieldTerm("a", "=", "1"), FieldTerm("b", "=", "2"))),
        ("involvedObject.namespace=", (FieldTerm("involvedObject.namespace", "=", ""),)),
        (r"a=x\,y\=z\\", (FieldTerm("a", "=", "x,y=z\\"),)),
        ("a=\nb", (FieldTerm("a", "=", "\nb"),)),
    ],
)
def test_field_selectors_are_parsed(text: str, terms: tuple[FieldTerm, ...]) -> None:
    assert FieldSelector.parse(text).terms == terms


@pytest.mark.contract("W152")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bad", "invalid selector: 'bad'; can't understand 'bad'"),
        ("a=1,bad", "invalid selector: 'a=1,bad'; can't understand 'bad'"),
        ("a=b=c", "invalid field selector: unescaped character in value: ="),
        (r"a=\n", r"invalid field selector: invalid escape sequence: \n"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_malformed_field_selector_is_refused_in_the_words_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        FieldSelector.parse(text)
    assert refused.value.message == message


@pytest.mark.contract("W152")
def test_an_unsupported_field_is_refused_by_name() -> None:
    selector = FieldSelector.parse("metadata.name=c1,spec.hubAcceptsClient=true")
    selector.check_supported({"metadata.name", "spec.hubAcceptsClient"})
    with pytest.raises(BadRequest, match=r"^field label not supported: spec\.hubAcceptsClient$"):
        selector.check_supported(["metadata.name"])


@pytest.mark.contract("W13")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("metadata.name=c1", "c1"),
        ("metadata.name==c1,a=b", "c1"),
        ("metadata.name=c1,metadata.name=c1", "c1"),
        ("metadata.name=", ""),
        ("metadata.name!=c1", None),
        ("metadata.name=c1,metadata.name=c2", None),
        ("metadata.namespace=c1", None),
        ("", None),
    ],
)
def test_only_one_equality_pins_a_name(text: str, value: str | None) -> None:
    assert FieldSelector.parse(text).pinned("metadata.name") == value


@pytest.mark.contract("W10")
def test_a_field_that_is_not_there_counts_as_empty() -> None:
    assert FieldSelector.parse("involvedObject.namespace=").matches({})
    assert not FieldSelector.parse("type!=").matches({})
    assert FieldSelector.parse("type=Warning,reason!=X").matches({"type": "Warning"})


terms = st.builds(
    FieldTerm, st.from_regex(r"[a-z]{1,5}(\.[a-zA-Z]{1,5})?", fullmatch=True), st.sampled_from(["=", "!="]), st.text()
)


@pytest.mark.contract("W10")
@given(st.lists(terms, max_size=4))
def test_a_field_selector_survives_being_written_and_parsed(found: list[FieldTerm]) -> None:
    selector = FieldSelector(tuple(found))
    assert FieldSelector.parse(str(selector)) == selector


@given(hostile)
def test_any_text_is_a_field_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except BadRequest as refused:
        assert refused.message  # noqa: PT017 - both outcomes are fine, a crash is not
    else:
        selector.matches({"a": "b"})
