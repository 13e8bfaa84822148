"""``python -m tests.faults``: every fault in turn, and docs/faults.md of what was seen. ``FAULTS=word`` takes some of them."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import django

from tests.faults import checks, network
from tests.faults.faults import FAULTS, Fault
from tests.faults.site import CLUSTERS, LEASE_SECONDS, Joining, Site, fleet, served
from tests.hub import ROOT
from tests.proxy import clients

TABLE = ROOT / "docs" / "faults.md"
WRITERS, WATCHERS = 3, 2
BEFORE_SECONDS = 2.0  # of work, before something is wrong
LONGEST_SECONDS = 120.0  # until the hub must have recovered

HEAD = """# Faults

What was lost, and how soon it was over, by fault; made by `make faults`. Two servers behind nginx with [docs/nginx.conf](nginx.conf), two workers, two beats of which one stands by, Redis, and a PostgreSQL with a synchronous replica, each part in a
network namespace of its own; {clusters} agents beat every {lease} s through nginx, two more join during each fault, {writers} writers create, change and delete, {watchers} watches follow them. Writers repeat what gets no answer, 429 or 5xx, as clients of Kubernetes do. Nobody mends the hub: programs that ended are
started again after a second, as systemd does, and the primary's place is given to the replica, as a manager of PostgreSQL does.

*Lost*: acknowledged writes that are not there, and events that a watch missed. *Wrong*: after each fault `check_wire` and `audit verify` agree, the counter of revisions is where the log ends, no cluster was called silent, and each certificate has the key and name of its request and is registered. *Slowest write*: with its
repetitions. *Recovered*: from the end of the fault until both servers are ready and every writer has written again; *joined* likewise for the clusters that began to join in it.
"""
LEFT_OUT = """
Packets are lost in a relay of our own: this kernel has no netem. A slow disk is PostgreSQL's `commit_delay`, as device mapper is not there either. Clocks are wrong for one process, not for a machine. Not tried: a server whose clock is behind; partitions in which PostgreSQL has two primaries, which its manager must exclude; a full disk of a
server's home.
"""


@dataclass(frozen=True)
class Row:
    """What one fault did. Times in seconds."""

    fault: Fault
    again: Counter[str]
    slowest: float
    recovered: float
    joined: float
    lost: list[str]
    wrong: list[str]

    def line(self) -> str:
        cells = (
            self.fault.title,
            f"{self.fault.seconds:.0f} s",
            f"{self.again.total()}",
            f"{self.slowest:.1f} s",
            f"{self.recovered:.1f} s" if self.recovered < LONGEST_SECONDS else "not",
            f"{self.joined:.1f} s" if self.joined < LONGEST_SECONDS else "not",
            "nothing" if not self.lost else f"{len(self.lost)}: {self.lost[0][:120]}",
            "nothing" if not self.wrong else "; ".join(self.wrong)[:200],
        )
        return f"| {' | '.join(cells)} |"


def tried(site: Site, fault: Fault, number: int) -> Row:
    since = datetime.now(UTC)
    crowd: list[clients.WorkingClient] = [
        *(clients.Watcher(f"watcher-{number}-{each}", site.client, is_patient=True) for each in range(WATCHERS)),
        *(clients.Writer(f"writer-{number}-{each}", site.client, is_patient=True) for each in range(WRITERS)),
    ]
    with clients.at_work(crowd) as work:
        time.sleep(BEFORE_SECONDS)
        joining = Joining(site, f"f{number}")
        with fault.block(site):
            time.sleep(fault.seconds)
        over = time.monotonic()
        recovered = _until_well(site, work, over)
        failure = joining.wait(LONGEST_SECONDS)
        joined = LONGEST_SECONDS if failure else time.monotonic() - over
    lost = checks.lost(site, work) + ([failure] if failure else [])
    again = sum((each.tried_again for each in work.writers), Counter[str]())
    slowest = max(each.slowest for each in work.writers)
    return Row(fault, again, slowest, recovered, joined, lost, checks.wrong(site, since))


def _until_well(site: Site, work: clients.Crowd, over: float) -> float:
    before = {writer: writer.answered for writer in work.writers}
    while (took := time.monotonic() - over) < LONGEST_SECONDS:
        has_written = all(writer.answered > answered + 1 for writer, answered in before.items())
        if has_written and all(site.parts[name].is_ready() for name in ("server1", "server2")):
            return took
        time.sleep(0.1)
    return LONGEST_SECONDS


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
    os.environ.setdefault("OCMCONSOLE_HOME", str(ROOT / "var" / "lint"))
    django.setup()
    wanted = os.environ.get("FAULTS", "").lower()
    faults = [fault for fault in FAULTS if wanted in fault.title.lower()]
    began, rows, loads = time.monotonic(), list[Row](), list[float]()
    try:
        with served() as site, fleet(site):
            _say(f"{time.monotonic() - began:5.0f} s  {CLUSTERS} agents are at work")
            for number, fault in enumerate(faults):
                row = tried(site, fault, number)
                rows.append(row)
                loads.append(os.getloadavg()[0])
                _say(f"{time.monotonic() - began:5.0f} s  {row.line()}")
                for flaw in (*(f"{count} x {cause}" for cause, count in row.again.items()), *row.lost, *row.wrong):
                    _say(f"         {flaw}")
    except network.NotPermitted as error:
        sys.exit(f"faults need network namespaces, which this machine does not permit: {error}")
    if not wanted:
        _write(rows, loads, time.monotonic() - began)
    if any(row.lost or row.wrong or row.recovered >= LONGEST_SECONDS for row in rows):
        sys.exit("something was lost, wrong or did not recover")


def _write(rows: list[Row], loads: list[float], took: float) -> None:
    head = HEAD.format(clusters=CLUSTERS, lease=LEASE_SECONDS, writers=WRITERS, watchers=WATCHERS)
    columns = "fault", "lasted", "repeated", "slowest write", "recovered", "joined", "lost", "wrong"
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *(row.line() for row in rows)]
    when = (
        f"\nOn {datetime.now(UTC):%Y-%m-%d}, a shared machine of {os.cpu_count()} cores, in {took / 60:.0f} minutes; "
        f"its load, with other work, was {min(loads):.0f} to {max(loads):.0f} after the faults.\n"
    )
    TABLE.write_text("\n".join([head, *lines]) + "\n" + LEFT_OUT + when)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
