"""The shape of a cluster: its name and its addresses (A3, A7d, K1)."""

from __future__ import annotations

from clusters.kinds import MANAGED_CLUSTER
from tests.entry_points.admission.row import (
    ACCEPTS,
    Allowed,
    Doc,
    Row,
    changes,
    cluster,
    creates,
    deletes,
    invalid,
    shape_refused,
)

LONG = "must be no more than 63 characters"
DOTS = "must not contain dots"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def configs(*urls: str, **more: str) -> Doc:
    return {"spec": {"managedClusterClientConfigs": [{"url": url, **more} for url in urls]}}


def bad_url(quoted: str) -> str:
    return f"url {quoted} is invalid in client configs"


def bad_name(*flaws: str) -> str:
    return f"metadata.name format is not correct: {','.join(flaws)}"


NAMES: list[Row] = [
    creates(f"{what} is no name of a cluster", {}, shape_refused(bad_name(*flaws)), "A3", "A7d", "K1", name=name)
    for what, name, flaws in (
        ("a name with a dot", "a.b", (DOTS,)),
        ("a name of 64 characters", "a" * 64, (LONG,)),
        ("a long name with a dot", "a." + "b" * 70, (LONG, DOTS)),
    )
] + [
    creates("a name of 63 characters is fine", {}, Allowed(), "A3", name="a" * 63),
    creates("a name of digits is fine", {}, Allowed(), "A3", name="123"),
    creates(
        "a name is looked at with client configs as well",
        configs("https://a"),
        shape_refused(bad_name(DOTS)),
        "A3",
        name="a.b",
    ),
]

NO_NAMES: list[Row] = [
    creates(
        f"{what} is refused as any object would be",
        configs("http://a"),  # A3 would say so, if it were asked
        invalid(MANAGED_CLUSTER, name, f'metadata.name: Invalid value: "{name}": {SUBDOMAIN}'),
        "A7d",
        "A11",
        name=name,
    )
    for what, name in (
        ("a name in capitals", "Upper"),
        ("a name with an underscore", "a_b"),
        ("a name with a colon", "a:b"),
        ("a name that begins with a dash", "-a"),
        ("a name that ends with a dot", "a."),
        ("a name with an umlaut", "ü"),
    )
] + [
    creates(
        "a name of 254 bytes is refused as any object would be",
        {},
        invalid(
            MANAGED_CLUSTER, "a" * 254, f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 bytes'
        ),
        "A7d",
        "A11",
        name="a" * 254,
    ),
    creates(
        "no name is refused as any object would be",
        {},
        invalid(MANAGED_CLUSTER, "", "metadata.name: Required value: name or generateName is required"),
        "A11",
        name="",
        ways=("post", "admin-form"),
    ),
]

# Older than the rule, and they must stay removable.
BADLY_NAMED: list[Row] = [
    changes("a badly named cluster gets a label", cluster(), {"metadata": {"labels": {"color": "red"}}},
            Allowed({"metadata": {"labels": {"color": "red"}}}), "K1", name="a.b"),
    changes("a badly named cluster loses a finalizer",
            {**cluster(), "metadata": {**cluster()["metadata"], "finalizers": ["example.com/hold"]}},
            {"metadata": {"finalizers": None}}, Allowed({"metadata": {"finalizers": None}}), "K1", name="a.b"),
    changes("a badly named cluster still needs good addresses", cluster(), configs("http://a"),
            shape_refused(bad_url('"http://a"')), "K1", "A3", name="a.b"),
    deletes("a badly named cluster is deleted", cluster(), Allowed(), "K1", name="a.b"),
]  # fmt: skip

GOOD_URLS: list[Row] = [
    creates(f"an address may be {url}", configs(url), Allowed(configs(url)), "A3")
    for url in ("https://a", "https://a:6443/x?y=%zz#z", "https://", "https:", "https://[::1]:6443", "HTTPS://a")
] + [
    creates(
        "nobody looks into a CA bundle",
        configs("https://a", caBundle="bm8gUEVN"),
        Allowed(configs("https://a", caBundle="bm8gUEVN")),
        "A3",
    ),
]

BAD_URLS: list[Row] = [
    creates(f"an address may not be {what}", configs(url), shape_refused(bad_url(quoted)), "A3")
    for what, url, quoted in (
        ("empty", "", '""'),
        ("http", "http://x", '"http://x"'),
        ("ftp", "ftp://x", '"ftp://x"'),
        ("without a scheme", "x.example.com", '"x.example.com"'),
        ("a path", "//x", '"//x"'),
        ("nearly https", "httpss://x", '"httpss://x"'),
        ("without a colon", "https//x", '"https//x"'),
        ("with a blank in its host", "https://a b", '"https://a b"'),
        ("with words for a port", "https://a:port", '"https://a:port"'),
        ("with an open bracket", "https://[::1", '"https://[::1"'),
        ("with a broken escape", "https://a/%zz", '"https://a/%zz"'),
        ("with a tabulator", "https://a\tb", r'"https://a\tb"'),
        ("with quotes", 'http://"x"', r'"http://\"x\""'),
    )
]

SEVERAL: list[Row] = [
    creates(
        "messages are sorted and said as often as they are true",
        configs("http://b", "https://fine", "http://a", "http://b"),
        shape_refused(bad_name(DOTS), bad_url('"http://a"'), bad_url('"http://b"'), bad_url('"http://b"')),
        "A3",
        name="a.b",
    ),
    changes(
        "a change brings a bad address", cluster(), configs("http://x"), shape_refused(bad_url('"http://x"')), "A3"
    ),
    changes(
        "a bad address that is there already is not forgiven",
        cluster(managedClusterClientConfigs=[{"url": "http://x"}]),
        {"metadata": {"labels": {"color": "red"}}},
        shape_refused(bad_url('"http://x"')),
        "A3",
    ),
    creates(
        "an address that is missing is for the schema to refuse",
        {"spec": {"managedClusterClientConfigs": [{}]}},
        invalid(MANAGED_CLUSTER, "c1", "spec.managedClusterClientConfigs[0].url: Required value"),
        "A3",
        "A11",
    ),
    changes(
        "shape is looked at before permission",
        cluster(),
        {"spec": {**ACCEPTS["spec"], **configs("http://x")["spec"]}},
        shape_refused(bad_url('"http://x"')),
        "A7c",
    ),
]

ROWS = [*NAMES, *NO_NAMES, *BADLY_NAMED, *GOOD_URLS, *BAD_URLS, *SEVERAL]
