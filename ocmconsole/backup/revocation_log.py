"""The file ``revocations.log`` of a home, and its copy at the backup place: lines of JSON, whatever they say.

A line has the uid of its hub, since hubs may share a backup place, and lines of people and groups go by names: what is
another hub's is not read. Lines of earlier versions have none. ``at`` of the newest line is the second up to which a
log is complete. Lines that say only that are dropped when newer ones follow, and all others after
``OCMCONSOLE_REVOCATIONS_RETENTION``: older backups need them no more.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.storage import incarnations

NAME = "revocations.log"
SEEN, BEGUN = "seen", "begun"  # lines that say how far the audit was read, and what was taken away by none
TAIL = 2**16  # bytes at the end of the log in which its last line is
NEEDED = {"at", "what", "audit", "incarnation"}
Line = dict[str, Any]


@dataclass(frozen=True)
class KnownRevocations:
    """``until`` is the second up to which the log is complete; None of an empty one."""

    lines: tuple[Line, ...]
    until: datetime | None


def path() -> Path:
    return Path(settings.OCMCONSOLE_HOME) / NAME


def read() -> KnownRevocations:
    """Of the hub that the database is of."""
    own = incarnations.hub_uid()
    lines = [line for line in parsed(_texts(path())) if line.get("hub", own) == own]
    times = [datetime.fromisoformat(line["at"]) for line in lines]
    return KnownRevocations(tuple(lines), max(times, default=None))


def parsed(texts: Iterable[str]) -> list[Line]:
    """Without what is no line of a log, such as one that was cut off by a crash."""
    found = []
    for text in texts:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and line.keys() >= NEEDED and _is_whole(line):
            found.append(line)
    return found


def _is_whole(line: Line) -> bool:
    """Its times can be compared, and it says what happened; else somebody wrote to the log, or a disk did."""
    try:
        times = [datetime.fromisoformat(line[name]) for name in ("at", "when") if name in line]
    except (TypeError, ValueError):
        return False
    return isinstance(line["what"], str) and all(time.tzinfo is not None for time in times)


def append(lines: Iterable[Line], incarnation: str, at: datetime) -> None:
    """Durably. Once a day what is not needed any more is dropped first."""
    stamp = {"at": at.isoformat(timespec="seconds"), "incarnation": incarnation, "hub": incarnations.hub_uid()}
    text = "".join(f"{json.dumps({**stamp, **line}, sort_keys=True)}\n" for line in lines)
    with files.locked(settings.OCMCONSOLE_HOME):
        if _pruned.get(path()) != at.date():
            _prune()
            _pruned[path()] = at.date()
        _add(path(), text.encode())


_pruned: dict[Path, date] = {}


def last_line() -> Line | None:
    """A line that was cut off by a crash is ended first, and read by nobody."""
    if not path().exists():
        return None
    with path().open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        text = file.read()
        if text and not text.endswith(b"\n"):
            file.write(b"\n")
    lines = parsed(text.decode(errors="replace").splitlines())
    return lines[-1] if lines else None


def gather(target: Path, logs: Sequence[Path]) -> None:
    """One log of all lines that are still needed, each once, in the order of the logs."""
    texts = list(dict.fromkeys(text for log in logs for text in _texts(log)))
    files.write_file(target, "".join(f"{text}\n" for text in _needed(texts)).encode(), secret=True)


def copy_to(place: Path) -> None:
    """The log of the place gains every line of the home's, and keeps those that it alone has. Raises OSError."""
    if not path().exists():
        return
    target = place / NAME
    with path().open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of the log alone: a place that hangs holds up nobody else
        sizes = (path().stat().st_size, target.stat().st_size if target.exists() else -1)
        if _copied.get(place) == sizes:
            return
        own = file.read()
        kept = target.read_bytes() if target.exists() else b""
        if own.startswith(kept):
            _add(target, own[len(kept) :])
        else:
            gather(target, [target, path()])
        _copied[place] = (len(own), target.stat().st_size)


_copied: dict[Path, tuple[int, int]] = {}  # sizes of the log and of its copy, by place


def _add(target: Path, content: bytes) -> None:
    handle = os.open(target, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)


def _prune() -> None:
    """The caller holds the home."""
    texts = _texts(path())
    if len(needed := _needed(texts)) < len(texts):
        files.write_file(path(), "".join(f"{text}\n" for text in needed).encode(), secret=True)


def _needed(texts: Sequence[str]) -> list[str]:
    """The last line says how far the log reaches, so it stays in any case."""
    since = clock.now() - settings.OCMCONSOLE_REVOCATIONS_RETENTION
    lines = [(text, line) for text in texts for line in parsed([text])]
    newest = max((line["at"] for _, line in lines), default="")
    return [
        text
        for number, (text, line) in enumerate(lines, start=1)
        if number == len(lines)
        or line["at"] == newest
        or (line["what"] not in {SEEN, BEGUN} and datetime.fromisoformat(line["at"]) >= since)
    ]


def _texts(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
