"""Selectors and options of lists, watches and collection deletes (W10, W11)."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from tests.fuzz import world
from tests.fuzz.cases import BAD, INVALID, OK, WRONG, Case
from tests.fuzz.texts import LABEL_KEYS, LABEL_VALUES, NAMES, PLAIN, WILD, Draw, mixed

READ = frozenset({200, 400, 410, 422})
PATHS = [site.path for site in world.SITES]
EVERYWHERE = ["/api/v1/configmaps", "/api/v1/events", "/apis/coordination.k8s.io/v1/leases", "/api/v1/secrets"]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
ACCEPTS = [
    "",
    "application/json",
    "application/yaml",
    TABLE,
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
]
SPACES = st.sampled_from(["", " ", "  ", "\t", "\n"])


def _list(draw: Draw, codes: frozenset[int], **options: Any) -> Case:
    """``watch`` of the options makes it a watch."""
    accept = draw(st.sampled_from(ACCEPTS)) if codes == OK else ""
    if accept.startswith("application/yaml") and "watch" in options:
        accept = ""
    return Case(
        method=draw(st.sampled_from(["GET", "GET", "GET", "HEAD"])),
        path=draw(st.sampled_from([*PATHS, *EVERYWHERE])),
        query=urlencode(options, quote_via=quote, errors="surrogatepass"),
        headers=(("Accept", accept),) if accept else (),
        codes=codes,
    )


@st.composite
def label_selectors(draw: Draw) -> str:
    """What the grammar allows, with blanks wherever they may be."""
    return ",".join(_requirement(draw) for _ in range(draw(st.integers(0, 4))))


def _requirement(draw: Draw) -> str:
    key, before, after = draw(LABEL_KEYS.filter(lambda key: key not in {"in", "notin"})), draw(SPACES), draw(SPACES)
    # One empty value would be the empty set.
    values = [*draw(st.lists(LABEL_VALUES.filter(lambda value: value not in {"in", "notin"}), max_size=3)), "x"]
    made: str = draw(
        st.sampled_from(
            [
                key,
                f"!{before}{key}",
                f"{key}{before}={after}{values[0]}",
                f"{key}{before}=={after}{values[0]}",
                f"{key}{before}!={after}{values[0]}",
                f"{key} in{before}({after}{','.join(values)}{before})",
                f"{key} notin{before}({','.join(values)})",
                f"{key}{before}>{after}{draw(st.integers(0, 2**63 - 1))}",
                f"{key}<{draw(st.integers(0, 9))}",
            ]
        )
    )
    return f"{before}{made}{after}"


def _labels(draw: Draw) -> Case:
    return _list(draw, OK, labelSelector=draw(label_selectors()))


def _fields(draw: Draw) -> Case:
    """``metadata.name`` works for every kind; a comma, an equals sign or a backslash in a value is escaped."""
    value = draw(PLAIN).replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    operator = draw(st.sampled_from(["=", "==", "!="]))
    more = draw(st.sampled_from(["", ",", f",metadata.name{operator}{value}", ",metadata.name!=x"]))
    return _list(draw, OK, fieldSelector=f"metadata.name{operator}{value}{more}")


def _own_fields(draw: Draw) -> Case:
    path, field = draw(
        st.sampled_from(
            [
                ("/api/v1/events", "involvedObject.name"),
                ("/api/v1/events", "reason"),
                ("/api/v1/events", "type"),
                ("/apis/events.k8s.io/v1/events", "regarding.name"),
                ("/api/v1/secrets", "type"),
                ("/api/v1/namespaces", "status.phase"),
                ("/api/v1/configmaps", "metadata.namespace"),
                (world.REQUESTS.path, "spec.signerName"),
            ]
        )
    )
    return Case(method="GET", path=path, query=urlencode({"fieldSelector": f"{field}={draw(NAMES)}"}), codes=OK)


def _options(draw: Draw) -> Case:
    options = draw(
        st.sampled_from(
            [
                {"limit": draw(st.integers(-(2**63), 2**63 - 1))},
                {"limit": "1", "resourceVersion": "0"},
                {"resourceVersion": ""},
                {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"},
                {"timeoutSeconds": draw(st.integers(0, 10**6))},
                {"watch": "false"},
                {"watch": "0", "allowWatchBookmarks": "true"},
                {"continue": token([1, world.NAMESPACE, draw(NAMES)]), "limit": "2"},
                {f"unknown{draw(PLAIN)}": draw(PLAIN)},
                {"includeObject": draw(st.sampled_from(["None", "Object", "Metadata", ""]))},
            ]
        )
    )
    return _list(draw, OK, **options)


def _watch(draw: Draw) -> Case:
    options = draw(
        st.sampled_from(
            [
                {},
                {"resourceVersion": "0", "allowWatchBookmarks": "true"},
                {"resourceVersion": "1", "timeoutSeconds": "1"},
                {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
                {"labelSelector": draw(label_selectors())},
                {"fieldSelector": f"metadata.name={draw(NAMES)}"},
            ]
        )
    )
    return _list(draw, OK, watch=draw(st.sampled_from(["true", "1", ""])), **options)


def _own_cluster(draw: Draw) -> Case:
    """W13: the agent may list and watch what its selector pins to its own name."""
    query = {"fieldSelector": f"metadata.name={world.CLUSTER}"} | draw(st.sampled_from([{}, {"watch": "true"}]))
    return Case(actor="agent", method="GET", path=world.CLUSTERS.path, query=urlencode(query), codes=OK)


def _delete_none(draw: Draw) -> Case:
    site = draw(st.sampled_from([site for site in world.SITES if site is not world.NAMESPACES]))
    query = urlencode({"labelSelector": f"nobody-has={draw(NAMES)}"})
    return Case(method="DELETE", path=site.path, query=query, codes=OK)


# ---------------------------------------------------------------- must be refused

WRONG_LABELS = [
    "=", "=a", "a=b=c", "a==b==c", ",", "a,", ",a", "a,,b", "a in", "a in (", "a in b", "a in (b", "a in (b))",
    "!", "!a=b", "a!", "a!b", "a b", "(a)", "a in ((b))", "a>b", "a>", "a>1.5", "a>99999999999999999999", "a/b/c", "/a", "a/", "-a", "a-",
    "a=-", "a=b c", f"a={'x' * 64}", "x" * 64, f"{'x' * 254}/a", "é", "a=é", "a=\u2028", "a in (b,c d)", "a === b", "a=!b", "<", "a<", "a=(b)",
    "A B/c", "a in (é)", "(" * 10_000, "a," * 5_000, "!" * 5_000, "a in (" + "," * 3_000 + "é)", "a=b&c"[:3] + "=d",
]  # fmt: skip
WRONG_FIELDS = [
    "a", "metadata.name", "a=b", "=b", "metadata.name=a=b", "metadata.name=\\", "metadata.name=\\x", "spec.x=1", "metadata.labels=a", "a!b",
    "metadata.name=a,b", "status=x", "metadata.uid=1", "metadata.name>1", "é=1", "METADATA.NAME=a", " metadata.name=a", "a" * 5_000 + "=b",
]  # fmt: skip


def _wrong_labels(draw: Draw) -> Case:
    return _list(draw, BAD, labelSelector=draw(st.sampled_from(WRONG_LABELS)), **_perhaps_watch(draw))


def _wrong_fields(draw: Draw) -> Case:
    return _list(draw, BAD, fieldSelector=draw(st.sampled_from(WRONG_FIELDS)), **_perhaps_watch(draw))


def _perhaps_watch(draw: Draw) -> dict[str, str]:
    found: dict[str, str] = draw(st.sampled_from([{}, {}, {"watch": "true"}]))
    return found


def token(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def _wrong_options(draw: Draw) -> Case:
    options, codes = draw(
        st.sampled_from(
            [
                ({"limit": "x"}, BAD), ({"limit": "1.5"}, BAD), ({"limit": "1_0"}, BAD), ({"limit": " 5"}, BAD), ({"limit": "٣"}, BAD),
                ({"limit": "9" * 30}, BAD), ({"limit": "9" * 5_000}, BAD), ({"limit": "-9223372036854775809"}, BAD), ({"limit": "0x10"}, BAD),
                ({"timeoutSeconds": "x"}, BAD), ({"timeoutSeconds": "1e3"}, BAD), ({"timeoutSeconds": "+"}, BAD),
                ({"resourceVersion": "x"}, BAD), ({"resourceVersion": "-1"}, BAD), ({"resourceVersion": "٣"}, BAD), ({"resourceVersion": "9" * 19}, BAD),
                ({"resourceVersion": "1\n"}, BAD), ({"resourceVersion": "1e3"}, BAD), ({"resourceVersion": "5" * 18}, frozenset({504})),
                ({"resourceVersionMatch": "Exact"}, INVALID), ({"resourceVersionMatch": "x", "resourceVersion": "1"}, INVALID),
                ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, INVALID), ({"sendInitialEvents": "true"}, INVALID),
                ({"sendInitialEvents": "perhaps"}, BAD), ({"allowWatchBookmarks": "2"}, BAD), ({"watch": "true", "resourceVersionMatch": "Exact"}, INVALID),
                ({"watch": "true", "sendInitialEvents": "true"}, INVALID), ({"watch": "true", "resourceVersion": "x"}, BAD),
                ({"continue": "x"}, BAD), ({"continue": "é"}, BAD), ({"continue": "\n"}, BAD), ({"continue": "===="}, BAD), ({"continue": token(5)}, BAD),
                ({"continue": token([])}, BAD), ({"continue": token([1, "a"])}, BAD), ({"continue": token({"a": 1, "b": 2, "c": 3})}, BAD),
                ({"continue": token([None, "a", "b"])}, BAD), ({"continue": token([[], "a", "b"])}, BAD), ({"continue": token([1, "\0", "b"])}, BAD),
                ({"continue": token([1, "a", "\ud800"])}, BAD), ({"continue": token([10**400, "a", "b"])}, BAD), ({"continue": token([2**63, "", "a"])}, BAD),
                ({"continue": token([1, "", "a"]), "resourceVersion": "5"}, BAD), ({"continue": token([-1, "", "a"])}, BAD),
                ({"continue": token([1, 5, {}])}, BAD), ({"continue": token([1.5, "", "a"])}, BAD), ({"continue": token([True, "", "a"])}, BAD),
                ({"labelSelector": "a\0"}, BAD), ({"fieldSelector": "metadata.name=\0"}, BAD), ({"a\0": "b"}, BAD), ({"continue": "\0"}, BAD),
            ]
        )
    )  # fmt: skip
    return _list(draw, codes, **options)


def _raw(draw: Draw) -> Case:
    """Queries that are no text: bytes that are no UTF-8, half escapes."""
    query, codes = draw(
        st.sampled_from(
            [
                ("labelSelector=%ff", BAD), ("labelSelector=%00", BAD), ("fieldSelector=%ed%a0%80", WRONG), ("labelSelector=%", BAD),
                ("labelSelector=%zz", BAD), ("fieldSelector=metadata.name%3D%00", BAD), ("limit=%00", BAD), ("watch=%00", BAD), ("%00", BAD), ("%00=1", BAD),
            ]
        )
    )  # fmt: skip
    return Case(method="GET", path=draw(st.sampled_from(PATHS)), query=query, codes=codes)


def _not_allowed(draw: Draw) -> Case:
    actor = draw(st.sampled_from(["agent", "anonymous", "jane"]))
    query = {
        "labelSelector": draw(PLAIN),
        "fieldSelector": draw(st.sampled_from(["metadata.name!=c1", "a", "metadata.name=standing"])),
    }
    path = draw(st.sampled_from([world.CLUSTERS.path, world.SECRETS.path, "/api/v1/configmaps"]))
    return Case(actor=actor, method="GET", path=path, query=urlencode(query), codes=frozenset({403}))


def _wrong_collection(draw: Draw) -> Case:
    query, codes = draw(
        st.sampled_from(
            [
                ("labelSelector=(", BAD),
                ("fieldSelector=x", BAD),
                ("dryRun=Some&labelSelector=a%3Db", INVALID),
                ("propagationPolicy=x&labelSelector=zz", INVALID),
            ]
        )
    )
    return Case(method="DELETE", path=world.CONFIG_MAPS.path, query=query, codes=codes)


# ---------------------------------------------------------------- nobody knows


def _anything(draw: Draw) -> Case:
    name = draw(
        st.sampled_from(
            [
                "labelSelector",
                "fieldSelector",
                "continue",
                "limit",
                "resourceVersion",
                "resourceVersionMatch",
                "timeoutSeconds",
                "watch",
            ]
        )
    )
    shape = draw(st.sampled_from(["{}", "a={}", "metadata.name={}", "a in ({})", "{},{}", "!{}"]))
    return _list(draw, READ, **{name: shape.replace("{}", draw(WILD))})


def cases() -> st.SearchStrategy[Case]:
    valid = [_labels, _labels, _labels, _fields, _own_fields, _options, _watch, _own_cluster, _delete_none]
    refused = [
        _wrong_labels, _wrong_labels, _wrong_fields, _wrong_options, _wrong_options, _wrong_options, _raw, _not_allowed, _wrong_collection,
        _anything, _anything,
    ]  # fmt: skip
    return mixed(valid, refused)
