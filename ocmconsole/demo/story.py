"""What happened when: acts with their moments, done from the oldest on, each at its time by the clock it sees.

The hub's own code runs in each moment: rules, reconcilers and audit see that time. What is left behind is what a hub
leaves that has lived through it, and the audit is in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from clusters.models import Serving
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.kinds import Key

Act = Callable[[], object]
SETTLED = timedelta(milliseconds=1)  # between acts: the next one is later than all that this one wrote


@dataclass
class Story:
    """``begin`` is the earliest moment that can be played: what lies before happens then."""

    now: datetime
    begin: datetime
    random: Random
    acts: list[tuple[datetime, int, Act, bool]] = field(default_factory=list)

    def at(self, moment: datetime, act: Act, *, settle: bool = True) -> None:
        """What reconcilers make of it may wait for the next act, which is cheaper."""
        self.acts.append((max(moment, self.begin), len(self.acts), act, settle))

    def ago(self, low: timedelta, high: timedelta) -> datetime:
        return self.now - low - self.random.random() * (high - low)

    def play(self, on_progress: Callable[[int, int], object] = lambda *_: None) -> int:
        """Let everything happen; returns how many acts there were. ``on_progress`` is called after each."""
        earliest = self.begin
        for number, (moment, _, act, settle) in enumerate(sorted(self.acts, key=lambda entry: entry[:2]), start=1):
            earliest = happens(max(moment, earliest), act, settle=settle)
            on_progress(number, len(self.acts))
        return len(self.acts)


def happens(moment: datetime, act: Act, *, settle: bool = True) -> datetime:
    """Do it then, with what the reconcilers make of it; returns when that was over."""
    with clock.at(moment):
        act()
        if settle:
            workqueue.drain()
        return clock.now() + SETTLED


def look_at(reconciler: str, cluster: str) -> Act:
    """What the sweep would ask for about one cluster, by a hub that has served all the time."""

    def look() -> None:
        now = clock.now()
        up = {"since": now - timedelta(days=1), "seen": now, "served": now, "gaps": []}
        Serving.objects.update_or_create(pk=1, defaults=up)
        workqueue.put({(reconciler, Key("", cluster))}, now)

    return look
