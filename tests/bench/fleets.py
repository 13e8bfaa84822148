"""A hub under a whole fleet: held for minutes, cut off and back at once, restarted. The fleet is ``proxy_agents``.

``BENCH_FLEET`` says how many clusters, ``BENCH_MINUTES`` for how long they are held (10), ``BENCH_PACE`` which part of
their rate is tried first (1); after a minute that failed it is four fifths of that, for as long. ``BENCH_SERVERS`` says by how many server processes (1). Beside the fleet, people use the hub all the time (``everyday``): with ``BENCH_APART=1`` by the last
of these servers, which then has no agents. A cluster that is Unknown afterwards and was not before is one too many, whatever the figures say. ``manage.py check_wire`` is the last.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from tests.bench import database, everyday, machine, pooled, seeds
from tests.bench.everyday import Everyday
from tests.bench.proxy_agents import WATCHES
from tests.bench.row import Row
from tests.bench.rows import Scale
from tests.bench.seeds import Seeds
from tests.hub import ROOT, Hub

Told = dict[str, Any]

IS_APART = os.environ.get("BENCH_APART", "") not in {"", "0"}
WINDOW = 60.0  # seconds: each must have had what was due in it
SHARE, BOUND = 0.97, 1_000.0  # of what was due in a minute; ms of a 99th percentile
# Of so many minutes one may have a worse one: on virtual disks an fsync waits for a second or two now and then.
SPARED = 3
SLOWER = 0.8  # of its rate, for the next step after a minute that failed
WARMING = 15.0  # seconds between two looks at how many were heard
UNHEARD = 420.0  # seconds for all to be heard again
AGENTS_OF_PROCESS = 4_700  # of ``own_agents``, each with four files, where a process may have 20,000
LOOK = 5.0  # seconds between two looks at a fleet that comes back
CONNECTING = 400.0  # seconds for all to be connected
UNKNOWN = "SELECT name FROM clusters_managedcluster WHERE available = 'Unknown'"
CHANGES = "SELECT count(*), coalesce(sum(size), 0) FROM kubeapi_change"


class Agents:
    """Processes of ``proxy_agents``, whose CPU time is not the hub's."""

    def __init__(
        self, servers: Sequence[Hub], clusters: int, processes: int = 1, program: str = "proxy_agents", **plan: Any
    ) -> None:
        first = servers[0]
        self.all = []
        for number in range(processes):
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.bench.{program}"], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            machine.asking.add(process.pid)
            self.all.append(process)
            self._say(process, {
                "servers": [each.api_url.removeprefix("https://") for each in servers],
                "ca": str(first.ca), "agents": str(first.home / seeds.AGENTS), "clusters": clusters,
                "offset": number, "step": processes, **plan,
            })  # fmt: skip
        for process in self.all:
            self._hear(process)

    @staticmethod
    def _say(process: subprocess.Popen[str], what: Told) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(what) + "\n")
        process.stdin.flush()

    @staticmethod
    def _hear(process: subprocess.Popen[str]) -> Told:
        assert process.stdout is not None
        found: Told = json.loads(process.stdout.readline())
        return found

    def do(self, what: str, **more: Any) -> None:
        for process in self.all:
            self._say(process, {"do": what, **more})

    def take(self) -> Told:
        """What has happened since the last time; of several processes the sum, and the worst percentiles."""
        self.do("take")
        return _together([self._hear(process) for process in self.all])

    def end(self) -> None:
        for process in self.all:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            machine.asking.discard(process.pid)


def _together(told: list[Told]) -> Told:
    if len(told) == 1:
        return told[0]
    found: Told = {
        "seconds": max(each["seconds"] for each in told),
        "last_heard": max(each["last_heard"] for each in told),
    }
    for name in ("cpu", "heard", "agents"):
        found[name] = sum(each[name] for each in told)
    for name in ("due", "done", "failures", "ended", "waiting", "links"):
        sums: Told = {}
        for each in told:
            for key, value in each[name].items():
                sums[key] = sums.get(key, 0) + value
        found[name] = sums
    sorts = {sort for each in told for sort in each["ms"]}
    found["ms"] = {
        sort: {
            at: max(each["ms"][sort][at] for each in told if sort in each["ms"]) for at in ("p50", "p95", "p99", "max")
        }
        for sort in sorts
    }
    return found


@dataclass(frozen=True)
class Minute:
    """What the fleet was due and got; ``cpu`` is the hub's, ``servers`` that of each of several servers."""

    told: Told
    cpu: float
    servers: tuple[float, ...] = ()

    def missing(self) -> str:
        """What was not done in time."""
        for sort in ("pair", "watch"):
            due, done = self.told["due"].get(sort, 0), self.told["done"].get(sort, 0)
            if done < SHARE * due:
                return f"{done} of {due} {sort}s"
        return ""

    def late(self) -> str:
        """What took long."""
        for sort in ("pair", "watch"):
            if self.told["done"].get(sort, 0) and self.told["ms"][sort]["p99"] > BOUND:
                return f"{sort} p99 {self.told['ms'][sort]['p99']:.0f} ms"
        return ""

    def __str__(self) -> str:
        told, seconds = self.told, self.told["seconds"]
        rates = ", ".join(
            f"{told['done'].get(sort, 0) / seconds:.0f} {sort}s/s p50 {ms['p50']:.0f} p99 {ms['p99']:.0f} max {ms['max']:.0f} ms"
            for sort, ms in told["ms"].items()
            if sort in {"pair", "watch"}
        )
        failed = f", failed {told['failures']}" if told["failures"] else ""
        each = (
            f" (servers {', '.join(f'{cpu / seconds:.2f}' for cpu in self.servers)})" if len(self.servers) > 1 else ""
        )
        return f"{rates}; hub {self.cpu / seconds:.2f} of a core{each}, asking {told['cpu'] / seconds:.2f}{failed}"


def _take(agents: Agents, before: float) -> Minute:
    return Minute(agents.take(), machine.cpu_seconds() - before)


def _cpu_of(servers: Sequence[Hub]) -> list[float]:
    return [machine.cpu_seconds_of(each.processes["server"].pid) for each in servers]


def _heard_now(hub: Hub) -> None:
    database.beat(hub, None, timedelta())


def unknown(hub: Hub) -> int:
    """Of clusters that have an agent: some of the seed have none, and fall silent five minutes after their last time."""
    speaking = {each["name"] for each in seeds.agents(hub)}
    with hub.reading() as ask:
        return sum(name in speaking for (name,) in ask(UNKNOWN))


def changes(hub: Hub) -> tuple[int, int]:
    """Entries of the change log, and bytes of their documents."""
    with hub.reading() as ask:
        [(count, size)] = ask(CHANGES)
    return int(count), int(size)


@contextmanager
def _served(made: Seeds, clusters: int) -> Iterator[list[Hub]]:
    """One hub with as many servers as are asked for; leases were renewed now. People ask the last one."""
    count = int(os.environ.get("BENCH_SERVERS") or 1)

    def first(hub: Hub) -> None:
        everyday.admit(hub)
        _heard_now(hub)

    began = time.monotonic()
    alone = {"CONTROLLERS": "inline"} if IS_APART and not made.postgres else {}  # the last server does what follows
    with made.hub(clusters, first=first, **pooled.AS_PROXY, **alone) as hub, ExitStack() as stack:
        servers = [hub]
        for number in range(1, count):
            other = hub.beside()
            if alone and number == count - 1:
                other = replace(other, environment={**other.environment, "OCMCONSOLE_CONTROLLERS": "thread"})
            other.start("server")
            stack.callback(other.stop_if_running)
            servers.append(other)
        tell(f"{clusters} clusters, {count} servers: ready after {time.monotonic() - began:.0f} s, {_memory()}")
        yield servers
        tell(f"{_memory()} at the end")


def _memory() -> str:
    return f"{machine.memory_mb():.0f} MB"


def tell(line: str) -> None:
    sys.stdout.write(f"    {time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def drill(made: Seeds, scale: Scale) -> Iterator[Row]:
    """Held for minutes, cut off and back, restarted: all by one hub and one fleet."""
    with _served(made, scale.fleet) as servers:
        agents = Agents(servers[:-1] if IS_APART else servers, scale.fleet)
        before = unknown(servers[0])
        try:
            _warm(agents)
            yield from _held(servers, agents, scale, before)
            yield _returned(servers[-1], agents, before)
            yield _restarted(servers[0], agents, before)
        finally:
            agents.end()
        _check(servers[0])


def _warm(agents: Agents) -> None:
    """Until each agent was heard once, without watches; then with them, without what waits because of that."""
    agents.do("forget")
    agents.do("watches", on=False)
    cpu = machine.cpu_seconds()
    began = time.monotonic()
    while time.monotonic() - began < UNHEARD:
        time.sleep(WARMING)
        minute = _take(agents, cpu)
        cpu = machine.cpu_seconds()
        tell(f"warming, {minute.told['heard']} heard: {minute}; {_memory()}")
        if minute.told["heard"] >= minute.told["agents"]:
            break
    agents.do("pace", times=1.0)
    agents.do("watches", on=True)
    cpu = machine.cpu_seconds()
    time.sleep(WARMING)
    tell(f"with watches: {_take(agents, cpu)}")


def _became(more: int) -> str:
    return f"{more} became Unknown" if more > 0 else "none became Unknown"


def _held(servers: Sequence[Hub], agents: Agents, scale: Scale, before: int) -> Iterator[Row]:
    """All heartbeats and watch re-opens for minutes, while people work; after a minute that failed fewer of them."""
    minutes, pace = int(os.environ.get("BENCH_MINUTES") or 10), float(os.environ.get("BENCH_PACE") or 1)
    agents.do("pace", times=pace)
    time.sleep(WARMING)
    agents.take()
    people = Everyday(servers[-1])
    people.start()
    steps: list[tuple[float, list[Minute]]] = [(pace, [])]
    for number in range(1, 2 * minutes + 1):
        cpu, each = machine.cpu_seconds(), _cpu_of(servers)
        time.sleep(WINDOW)
        found = _take(agents, cpu)
        found = replace(found, servers=tuple(now - was for now, was in zip(_cpu_of(servers), each, strict=True)))
        why = found.missing() or found.late()
        tell(
            f"minute {number} of {scale.fleet * pace:.0f}: {why or 'all'}; {found}; {people.kubectls()} load {machine.load()}, {_memory()}"
        )
        slow = sum(1 for each in (*steps[-1][1], found) if each.late())
        if not found.missing() and slow <= minutes // SPARED:
            steps[-1][1].append(found)
            if len(steps[-1][1]) >= minutes:
                break
        else:
            pace *= SLOWER
            steps.append((pace, []))
            agents.do("pace", times=pace)
            time.sleep(WARMING)
            agents.take()
    people.stop()
    agents.do("pace", times=1.0)
    more = unknown(servers[0]) - before
    pace, good = steps[-1]
    reached = scale.fleet * pace if len(good) >= minutes and more <= 0 else 0
    tried = ", ".join(f"{len(each)} minutes of {scale.fleet * step:.0f}" for step, each in steps)
    told = good[-1] if good else found
    late = ", ".join(why for each in good if (why := each.late()))
    yield Row(
        "fleet_held",
        reached,
        f"among {scale.fleet} registered, {tried} had all, slow ones: {late or 'none'}; {_became(more)}; "
        f"last good: {told}",
    )
    yield from people.rows()


# --------------------------------------------------------------------------------------------------- cut off


def _returned(hub: Hub, agents: Agents, before: int) -> Row:
    """All agents cut off for less than their grace, then all back in one moment: nobody may be Unknown."""
    people = Everyday(hub)
    people.start()
    agents.do("cut")
    time.sleep(WINDOW)
    agents.take()
    cpu = machine.cpu_seconds()
    agents.do("back")
    told, worst = _until_heard(agents)
    cpu = machine.cpu_seconds() - cpu
    log = changes(hub)
    people.stop()
    more = unknown(hub) - before
    about = (
        f"cut off for {WINDOW:.0f} s, {told['heard']} of {told['agents']} heard; {cpu:.0f} CPU s; {_became(more)}; longest heartbeat "
        f"{worst:.0f} ms; change log {log[0]} entries, {log[1] / 2**20:.0f} MiB; meanwhile {people}"
    )
    return Row("fleet_back_s", told["last_heard"], about)


def _until_heard(agents: Agents, patience: float = UNHEARD) -> tuple[Told, float]:
    began, worst, cpu = time.monotonic(), 0.0, machine.cpu_seconds()
    while True:
        time.sleep(LOOK)
        minute = _take(agents, cpu)
        cpu = machine.cpu_seconds()
        told = minute.told
        worst = max([worst, *(each["max"] for sort, each in told["ms"].items() if sort == "pair")])
        tell(f"{told['heard']} heard, waiting {told['waiting']}: {minute}")
        if told["heard"] >= told["agents"] or time.monotonic() - began > patience:
            return told, worst


# ------------------------------------------------------------------------------------------------- restarted


def _restarted(hub: Hub, agents: Agents, before: int) -> Row:
    """Stopped and started under the fleet; until each agent was heard again."""
    agents.take()
    began = time.monotonic()
    hub.stop("server")
    stopped = time.monotonic() - began
    hub.start("server")
    ready = time.monotonic() - began
    agents.do("forget")
    tell(f"stopped after {stopped:.1f} s, ready after {ready:.1f} s")
    cpu = machine.cpu_seconds()  # with the old server its time has left the count
    told, worst = _until_heard(agents)
    cpu = machine.cpu_seconds() - cpu
    agents.do("pace", times=1.0)
    time.sleep(WARMING)
    agents.take()
    later = machine.cpu_seconds()
    time.sleep(WINDOW)
    after = _take(agents, later)
    more = unknown(hub) - before
    about = (
        f"stopped after {stopped:.1f} s, ready after {ready:.1f}, {told['heard']} of {told['agents']} heard {told['last_heard']:.1f} s "
        f"after that; {cpu:.0f} CPU s; {_became(more)}; longest heartbeat {worst:.0f} ms; a minute later: {after}; {_memory()}"
    )
    return Row("fleet_restart_s", ready + told["last_heard"], about)


# -------------------------------------------------------------------------------------- connections of their own


def connected(made: Seeds, scale: Scale) -> Iterator[Row]:
    """Agents with four TLS connections each, as many as were asked for and as the limits of processes allow."""
    with _served(made, scale.fleet) as servers:
        hub, before = servers[0], unknown(servers[0])
        machine.settle()
        empty = machine.memory_mb()
        began, cpu = time.monotonic(), machine.cpu_seconds()
        agents = Agents(servers, scale.fleet, math.ceil(scale.fleet / AGENTS_OF_PROCESS), "own_agents")
        try:
            told = agents.take()
            asked = told["agents"] * (WATCHES + 1)
            while (told := agents.take())["links"]["streams"] < told["agents"] * WATCHES:
                tell(f"{told['links']} of {asked}, failed {told['failures']}; {_memory()}")
                if time.monotonic() - began > CONNECTING:
                    break
                time.sleep(5)
            opening, opened = time.monotonic() - began, machine.cpu_seconds() - cpu
            tell(f"{told['links']} after {opening:.0f} s and {opened:.0f} CPU s")
            time.sleep(WINDOW)  # each renews once
            agents.take()
            full, cpu = machine.memory_mb(), machine.cpu_seconds()
            minutes = []
            for _ in range(3):
                time.sleep(WINDOW)
                minutes.append(_take(agents, cpu))
                cpu = machine.cpu_seconds()
                tell(f"{minutes[-1]}; {minutes[-1].told['links']}; {_memory()}")
            people = Everyday(hub)
            people.start()  # each cluster that joins changes rights: each watch is asked again within half a minute
            time.sleep(WINDOW)
            busy = _take(agents, cpu)
            people.stop()
            more = unknown(hub) - before
        finally:
            agents.end()
        last = minutes[-1].told
        whole = last["links"]["streams"] // WATCHES
        each = sum(minute.cpu for minute in minutes) / sum(minute.told["seconds"] for minute in minutes) * 60 / whole
        about = (
            f"{last['links']['streams']} watches and {last['links']['renewals']} other connections to {len(servers)} servers, "
            f"{opening:.0f} s and {opened:.0f} CPU s to open; {_became(more)}; {minutes[-1]}; a minute beside people: {busy}, {people}"
        )
        yield Row("fleet_connected", whole if more <= 0 else 0, about)
        yield Row(
            "agent_memory_kb", 1024 * (full - empty) / whole, f"{empty:.0f} MB before, {full:.0f} MB with {whole}"
        )
        yield Row(
            "agent_minute_cpu_ms",
            1000 * each,
            f"of {whole} in three minutes, which are {whole / WINDOW:.0f} pairs a second for {len(servers)} servers",
        )
        _check(hub)


def _check(hub: Hub) -> None:
    began = time.monotonic()
    said = hub.manage("check_wire", check=False, seconds=1_800).strip().splitlines()
    tell(f"check_wire: {said[-1] if said else 'nothing'} ({time.monotonic() - began:.0f} s)")
