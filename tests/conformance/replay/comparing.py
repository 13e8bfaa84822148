"""Two answers side by side: what is alike by nature is made alike, what remains is a finding or a listed difference.

Invariant: everything that `plain` leaves is compared, names and values. What changes with every run (uids, versions,
times, certificates, generated names) is replaced by a word that says what kind of value stands there, so its presence
and its form are compared and its value is not. The recordings beside this file are stored in this plain form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Doc = dict[str, Any]

FOLDER = Path(__file__).resolve().parent

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
VOLATILE = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "caBundle": "<PEM in base64>",
    "certificate": "<PEM in base64>",
    "request": "<PEM in base64>",
    "token": "<token>",
    "storageVersionHash": "<hash>",
    # The hub's own writes of taints count as well, and when they come differs from run to run, in the recording too.
    "generation": "<number>",
}
# The names under which members of a list are known; lists without one are compared in their order.
IDENTITIES = ("type", "key", "name", "resource")
UNORDERED = {"finalizers", "verbs", "shortNames", "categories", "required", "enum"}
CREDENTIAL = "authentication.kubernetes.io/credential-id"
ABSENT = "(absent)"


class Finding(NamedTuple):
    """One place where the hub answered otherwise. ``exchange`` is the name of the recorded exchange."""

    exchange: str
    path: str
    recorded: Any
    ours: Any

    def fits(self, difference: Doc) -> bool:
        values = ((self.recorded, difference.get("recorded", "*")), (self.ours, difference.get("ours", "*")))
        return (
            any(fnmatchcase(self.exchange, pattern) for pattern in difference["exchanges"])
            and any(fnmatchcase(self.path, pattern) for pattern in difference["paths"])
            and all(fnmatchcase(str(value), str(pattern)) for value, pattern in values)
        )


def plain(value: Any, name: str = "") -> Any:
    """A document without what changes with every run."""
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [plain(each, name) for each in value]
    if value in {None, ""}:
        return value
    if name in VOLATILE:
        return VOLATILE[name]
    if isinstance(value, str) and (found := TIME.fullmatch(value)):
        return "<micro time>" if found[1] else "<time>"
    return value


def _plain_object(value: Doc) -> Doc:
    doc = {name: plain(member, name) for name, member in value.items() if name != "managedFields"}
    if prefix := doc.get("generateName"):
        doc["name"] = f"{prefix}<generated>"
    if CREDENTIAL in doc:
        doc[CREDENTIAL] = ["<credential>"]
    return doc


def compare(exchange: str, recorded: Any, ours: Any) -> list[Finding]:
    """Both in plain form."""
    left, right = dict(leaves(recorded)), dict(leaves(ours))
    paths = [*left, *(path for path in right if path not in left)]
    pairs = ((path, left.get(path, ABSENT), right.get(path, ABSENT)) for path in paths)
    return [Finding(exchange, *pair) for pair in pairs if not _same(pair[1], pair[2])]


def _same(recorded: Any, ours: Any) -> bool:
    return type(recorded) is type(ours) and bool(recorded == ours)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no object and no list, and those of them that are empty, by its path."""
    members = list(_members(value, path)) if isinstance(value, (dict, list)) else []
    if not members:
        yield path, value
    for name, member in members:
        yield from leaves(member, f"{path}.{name}" if path else name)


def _members(value: Doc | list[Any], path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    if path.rpartition(".")[2] in UNORDERED:
        return ((f"[{member}]", member) for member in value)
    return ((_identity(member) or str(number), member) for number, member in enumerate(value))


def _identity(member: Any) -> str:
    if not isinstance(member, dict):
        return ""
    named = member.get("metadata", member)
    found = next((named[name] for name in IDENTITIES if isinstance(named.get(name), str)), "")
    return f"[{found}]" if found else ""


def listed_differences() -> list[Doc]:
    """Those that are meant, each with its reason; differences.yaml says what its fields are."""
    listed: list[Doc] = yaml.safe_load((FOLDER / "differences.yaml").read_text())
    return listed


def kept_answers() -> list[Doc]:
    """Answers that are meant to be other than a kube-apiserver's, beyond the recordings; kept.yaml says what they are."""
    listed: list[Doc] = yaml.safe_load((FOLDER / "kept.yaml").read_text())
    return listed


def scheduler_answers() -> list[Doc]:
    """What is decided otherwise than by OCM's placement controller on purpose; scheduler.yaml says what it is."""
    listed: list[Doc] = yaml.safe_load((FOLDER / "scheduler.yaml").read_text())
    return listed
