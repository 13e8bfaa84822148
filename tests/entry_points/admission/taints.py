"""Who may say when a taint was added (A1, K3). Texts about keys are quoted as Go's %q does."""

from __future__ import annotations

from tests.entry_points.admission.row import Allowed, Doc, Row, Stamp, changes, cluster, creates, time_refused
from tests.entry_points.admission.scene import LONG_AGO

ZERO, OTHER = "0001-01-01T00:00:00Z", "2001-02-03T04:05:06Z"
NOW = Stamp.NOW


def taint(key: str = "a", value: str | None = "v", effect: str = "NoSelect", **more: object) -> Doc:
    return {"key": key, **({} if value is None else {"value": value}), "effect": effect, **more}


def spec(*taints: Doc) -> Doc:
    return {"spec": {"taints": list(taints)}}


def stored(*taints: Doc) -> Doc:
    return cluster(taints=list(taints))


SENT: dict[str, Doc] = {"nothing": {}, "null": {"timeAdded": None}, "zero": {"timeAdded": ZERO}}
SET: dict[str, Doc] = {"its time": {"timeAdded": LONG_AGO}, "another": {"timeAdded": OTHER}}
ONE = taint(timeAdded=LONG_AGO)
CHANGED: dict[str, Doc] = {
    "key": taint("b"),
    "case of the key": taint("A"),
    "value": taint(value="w"),
    "no value": taint(value=None),
    "effect": taint(effect="PreferNoSelect"),
}
TWO = (taint(timeAdded=LONG_AGO), taint(effect="NoSelectIfNew", timeAdded=OTHER))

CREATED: list[Row] = [
    creates(
        f"a new cluster's taint with {how} is stamped", spec(taint(**sent)), Allowed(spec(taint(timeAdded=NOW))), "A1"
    )
    for how, sent in {
        **SENT,
        **SET,
        "a time to come": {"timeAdded": "2099-01-01T00:00:00Z"},
        "a fraction and a zone": {"timeAdded": "2026-01-02T03:04:05.678+01:00"},
    }.items()
] + [
    creates(
        "every taint of a new cluster is stamped, twins as well",
        spec(taint(timeAdded=OTHER), taint(), taint("b", None)),
        Allowed(spec(taint(timeAdded=NOW), taint(timeAdded=NOW), taint("b", None, timeAdded=NOW))),
        "A1",
    ),
]

STAMPED: list[Row] = [
    changes(
        f"a taint of another {what} with {how} is stamped",
        stored(ONE),
        spec({**new, **sent}),
        Allowed(spec({**new, "timeAdded": NOW})),
        "A1",
    )
    for what, new in CHANGED.items()
    for how, sent in SENT.items()
]

NOT_SET: list[Row] = [
    changes(
        f"a taint of another {what} may not bring {how}",
        stored(ONE),
        spec({**new, **sent}),
        time_refused(f'"{new["key"]}"'),
        "A1",
    )
    for what, new in CHANGED.items()
    for how, sent in SET.items()
]

KEPT: list[Row] = [
    changes("an unchanged taint keeps its time", stored(ONE), spec(ONE), Allowed(spec(ONE)), "A1"),
    changes(
        "the same time in another zone is the same time",
        stored(ONE),
        spec(taint(timeAdded="2026-01-02T04:04:05+01:00")),
        Allowed(spec(ONE)),
        "A1",
    ),
    changes(
        "no value and an empty one are the same value",
        stored(taint(value=None, timeAdded=LONG_AGO)),
        spec(taint(value="", timeAdded=LONG_AGO)),
        Allowed(spec(taint(value="", timeAdded=LONG_AGO))),
        "A1",
    ),
    changes(
        "a stored taint without time stays without",
        stored(taint()),
        {**spec(taint()), "metadata": {"labels": {"seen": "yes"}}},
        Allowed(spec(taint(timeAdded=None))),
        "A1",
    ),
    changes(
        "who writes something else need not speak of taints",
        stored(ONE),
        {"spec": {"leaseDurationSeconds": 5}},
        Allowed(spec(ONE)),
        "A1",
    ),
    changes("a taint is added beside another", stored(ONE), spec(ONE, taint("b")),
            Allowed(spec(ONE, taint("b", timeAdded=NOW))), "A1", "K3"),
    changes("taints are put into another order", stored(ONE, taint("b", timeAdded=OTHER)),
            spec(taint("b", timeAdded=OTHER), ONE), Allowed(spec(taint("b", timeAdded=OTHER), ONE)), "A1"),
    changes("one of two taints is taken away", stored(ONE, taint("b", timeAdded=OTHER)), spec(ONE),
            Allowed(spec(ONE)), "A1"),
    changes("all taints are taken away with an empty list", stored(ONE), spec(), Allowed({"spec": {"taints": []}}), "A1"),
    changes("all taints are taken away", stored(ONE), {"spec": {"taints": None}}, Allowed({"spec": {"taints": None}}), "A1"),
]  # fmt: skip

REFUSED: list[Row] = [
    changes(
        f"an unchanged taint may not be sent with {how}", stored(ONE), spec(taint(**sent)), time_refused('"a"'), "A1"
    )
    for how, sent in {
        **SENT,
        "another time": {"timeAdded": OTHER},
        "a part of a second": {"timeAdded": "2026-01-02T03:04:05.5Z"},
    }.items()
] + [
    changes(
        "who adds a taint must send the time of the one that stays",
        stored(ONE),
        spec(taint(), taint("b")),
        time_refused('"a"'),
        "A1",
        "K3",
    ),
    changes(
        "every offending key is named, in the order of the list",
        stored(ONE),
        spec(taint("z", timeAdded=OTHER), ONE, taint("b", timeAdded=OTHER)),
        time_refused('"z,b"'),
        "A1",
    ),
    changes(
        "a key that offends twice is named twice",
        stored(ONE),
        spec(taint("b", timeAdded=OTHER), taint("b", timeAdded=OTHER)),
        time_refused('"b,b"'),
        "A1",
    ),
]

# Mutating admission runs before the schema has looked at the key.
QUOTED: list[Row] = [
    changes(
        f"an offending key with {what} is quoted",
        stored(),
        spec(taint(key, timeAdded=OTHER)),
        time_refused(quoted),
        "A1",
        "A0",
    )
    for what, key, quoted in (
        ("a quote", 'a"b', r'"a\"b"'),
        ("a backslash", "a\\b", r'"a\\b"'),
        ("a tabulator", "a\tb", r'"a\tb"'),
        ("a control character", "a\x01b", r'"a\x01b"'),
        ("an invisible character", "a\u200bb", r'"a\u200bb"'),
        ("an umlaut", "aüb", '"aüb"'),
        ("a character beyond 16 bits that is not shown", "a\U000e0001b", r'"a\U000e0001b"'),
        ("nothing", "", '""'),
    )
]

TWINS: list[Row] = [
    changes("two taints of one key keep a time each", stored(*TWO), spec(*TWO), Allowed(spec(*TWO)), "K3"),
    changes("two taints of one key change places", stored(*TWO), spec(*TWO[::-1]), Allowed(spec(*TWO[::-1])), "K3"),
    changes("the first of two taints of one key goes", stored(*TWO), spec(TWO[1]), Allowed(spec(TWO[1])), "K3"),
    changes("the second of two taints of one key goes", stored(*TWO), spec(TWO[0]), Allowed(spec(TWO[0])), "K3"),
    changes(
        "a taint is added beside two of one key",
        stored(*TWO),
        spec(*TWO, taint("b")),
        Allowed(spec(*TWO, taint("b", timeAdded=NOW))),
        "K3",
    ),
    changes(
        "a third effect of one key is stamped",
        stored(*TWO),
        spec(*TWO, taint(effect="PreferNoSelect")),
        Allowed(spec(*TWO, taint(effect="PreferNoSelect", timeAdded=NOW))),
        "K3",
    ),
    changes(
        "a third effect of one key brings no time",
        stored(*TWO),
        spec(*TWO, taint(effect="PreferNoSelect", timeAdded=LONG_AGO)),
        time_refused('"a"'),
        "K3",
    ),
    changes(
        "two taints of one key do not swap their times",
        stored(*TWO),
        spec({**TWO[0], "timeAdded": OTHER}, {**TWO[1], "timeAdded": LONG_AGO}),
        time_refused('"a,a"'),
        "K3",
        "A1",
    ),
]

ROWS = [*CREATED, *STAMPED, *NOT_SET, *KEPT, *REFUSED, *QUOTED, *TWINS]
