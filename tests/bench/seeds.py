"""Hubs that have thousands of clusters when they start: seeded once for each database and number, then copied.

``BENCH_SEEDS`` names a folder in which seeds stay for the next run, which takes them as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests import hub as hubs
from tests import servers
from tests.hub import Hub

# What is measured is the hub, not its patience with one caller.
WITHOUT_LIMITS = {f"LIMIT_{name}": "0" for name in ("REQUESTS", "IN_FLIGHT", "WATCHES", "TOKEN_OBJECTS")}
AGENTS = "agents.jsonl"  # in the home: name, certificate and key of each agent that may speak
SAID = "durability.json"  # in the home of a seed that is whole
LONGEST = 1_800.0  # seconds for a seed


@dataclass(frozen=True)
class Seed:
    """A home and, on PostgreSQL, a database to copy. ``durability`` is what the database says of its commits."""

    home: Path
    database: str
    durability: dict[str, str]


@dataclass
class Seeds:
    """For one database: its servers, which all parts share, and what was seeded there, in ``kept``."""

    folder: Path
    kept: Path
    name: str
    postgres: str = ""
    redis: str = ""
    made: dict[int, Seed] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    programs: dict[str, Any] = field(default_factory=dict)  # of its hubs, where they are not the usual ones

    def seed(self, clusters: int) -> Seed:
        if clusters not in self.made:
            self.made[clusters] = self._seeded(clusters)
        return self.made[clusters]

    def _seeded(self, clusters: int) -> Seed:
        home, database = self.kept / f"{self.name}-{clusters}", f"seed_{clusters}"
        if (said := home / SAID).exists():
            return Seed(home, database, json.loads(said.read_text()))
        urls = {"DATABASE_URL": servers.create_database(self.postgres, database)} if self.postgres else {}
        hub = hubs.prepare(home, CONTROLLERS="inline", **urls)
        code = f"from tests.bench import crowd; crowd.seed({clusters}, {str(home / AGENTS)!r})"
        durability = json.loads(hub.manage("shell", "-c", code, seconds=LONGEST).splitlines()[-1])
        said.write_text(json.dumps(durability))
        return Seed(home, database, durability)

    @contextmanager
    def hub(self, clusters: int, first: Callable[[Hub], object] = lambda _: None, **settings: str) -> Iterator[Hub]:
        """A hub of its own with so many clusters, which serves. ``first`` finds it at rest."""
        seed, number = self.seed(clusters), next(self.numbers)
        home, name = self.folder / f"hub-{number}", f"hub_{number}"
        urls = {}
        if self.postgres:
            urls["database_url"] = servers.create_database(self.postgres, name, seed.database)
            urls["redis_url"] = f"{self.redis}/{number}"
        shutil.copytree(seed.home, home)
        hub = replace(hubs.prepare(home, **urls, **(WITHOUT_LIMITS | settings)), **self.programs)
        first(hub)
        try:
            with hubs.running(hub):
                yield hub
        finally:
            shutil.rmtree(home)
            if self.postgres:
                drop_database(self.postgres, name)


def drop_database(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def of(database: str) -> Iterator[Seeds]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ocmconsole-bench-")))
        kept = Path(os.environ["BENCH_SEEDS"]) if os.environ.get("BENCH_SEEDS") else None
        if database != "postgres":
            yield Seeds(folder, kept or folder, database)
            return
        url = stack.enter_context(servers.postgres(durable=True, kept=kept and kept / "postgres"))
        yield Seeds(
            folder, kept or folder, database, urlsplit(url)._replace(path="/postgres").geturl(),
            stack.enter_context(servers.redis_server()),
        )  # fmt: skip


def agents(hub: Hub) -> list[dict[str, Any]]:
    """Those that may speak for their clusters: name, certificate and key."""
    return [json.loads(line) for line in (hub.home / AGENTS).read_text().splitlines()]
