"""Fills a hub with a believable fleet: through the hub's own verbs and services, each act at its time.

Called by ``manage.py demo``. What is in no resource, the history of heartbeats, is written by ``past``. A fleet without
a past, on a hub that serves, is made by ``live``, which also removes either. ``beat`` is run by the clock of the hub.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from random import Random

from django.conf import settings
from django.contrib.auth.models import User

from clusters.kinds import LEASE_NAME, parse_instant
from clusters.models import Lease, ManagedCluster, Serving
from ocmconsole.core.models import BootstrapToken
from ocmconsole.demo import past, people, placing
from ocmconsole.demo.agents import BEATS, KLUSTERLET, WELL, renew, say
from ocmconsole.demo.families import SETS, Names
from ocmconsole.demo.states import DAY, StoryFleet, populate
from ocmconsole.demo.story import Story, happens
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.control import compaction
from ocmconsole.models import DemoFleet
from registration import hub_setup
from registration.pki import agent_names, ca

log = logging.getLogger(__name__)
RHYTHM = re.compile(
    r"([0-9]{1,6})\.(-?[0-9]{1,6})", re.ASCII
)  # agents.BEATS: seconds between heartbeats, skew in seconds

HISTORY = 120 * DAY


Progress = Callable[[int, int], object]  # acts that are done, of how many


def build(clusters: int, *, seed: int, password: str, on_progress: Progress = lambda *_: None) -> int:
    """Fill the hub with so many clusters; returns how many acts that took."""
    now = clock.now()
    random = Random(seed)  # noqa: S311 - it makes up a fleet, no secrets
    begin = _earliest(now)
    happens(begin, hub_setup.ensure_hub)
    story = Story(now, begin + timedelta(minutes=1), random)
    admin = _admin()
    fleet = StoryFleet(story, Names(random))
    story.at(story.begin, partial(people.introduce, admin, password))
    story.at(story.begin, lambda: fleet.tokens.update(people.mint(admin)))
    story.at(now - 3 * DAY, partial(people.mint_others, admin))
    story.at(now - 9 * DAY, partial(people.mint_and_revoke, admin))
    placing.place(story, admin)
    populate(fleet, clusters)
    placing.live_through(fleet, admin)
    before = set(BootstrapToken.objects.values_list("pk", flat=True))
    count = story.play(on_progress)
    past.write_history(fleet.agents, now, random)
    present = clock.now()
    up = {"seen": present, "served": present, **past.served(now)}
    Serving.objects.update_or_create(pk=1, defaults=up)
    compaction.compact_log()
    _record(fleet, before)
    beat()  # telling took its time
    return count


def _record(fleet: StoryFleet, tokens_before: set[str]) -> None:
    """What was made, for the pages that say that it is a demonstration, and for its removal."""
    minted = BootstrapToken.objects.exclude(pk__in=tokens_before).values_list("pk", flat=True)
    made = {
        "namespaces": list(people.NAMESPACES),
        "sets": [*SETS, people.SELECTING],
        "roles": [people.VIEWING],
        "tokens": list(minted),
        "groups": list(people.GROUPS),
        "users": list(people.PEOPLE),
    }
    names: dict[str, dict[str, str]] = {agent.name: {} for agent in fleet.agents}
    DemoFleet.objects.update_or_create(
        pk=1,
        defaults={"state": DemoFleet.State.COMPLETE, "clusters": names, "made": made, "created": clock.now()},
    )


def _earliest(now: datetime) -> datetime:
    """As long ago as the hub's authority can sign; a new home has none yet."""
    if not (settings.OCMCONSOLE_HOME / "ca.crt").exists():
        return now - HISTORY
    made = ca.client_authority(settings.OCMCONSOLE_HOME).certificate.not_valid_before_utc
    return max(made + timedelta(minutes=1), now - HISTORY)


def _admin() -> Actor:
    user = User.objects.filter(is_superuser=True, is_active=True).order_by("pk")[0]
    return actor_for(user, entry_point=EntryPoint.CLI, credential="cli")


# ---------------------------------------------------------------- and then it goes on


def beat() -> int:
    """A heartbeat of each agent whose turn it is; one that was Unknown meanwhile reports as available."""
    now = clock.now()
    done = 0
    for lease in Lease.objects.filter(name=LEASE_NAME, labels__has_key=BEATS):
        found = RHYTHM.fullmatch(lease.labels[BEATS])
        if found is None:  # an agent may write its own lease
            continue
        every, skew = (timedelta(seconds=int(part)) for part in found.groups())
        if lease.renew_time is not None and parse_instant(lease.renew_time) + skew + every > now:
            continue
        try:
            done += _go_on(lease.namespace, now - skew)
        except errors.ApiError as error:  # somebody sends it away or deletes it, which a demonstration is for
            log.info("%s does not beat: %s", lease.namespace, error.message)
    return done


def _go_on(cluster: str, shown: datetime) -> int:
    group = agent_names.group_of(cluster)
    agent = Actor(
        user=f"{group}:demo", groups=(group, agent_names.MANAGED_CLUSTERS, AUTHENTICATED), user_agent=KLUSTERLET
    )
    renew(agent, cluster, shown)
    if ManagedCluster.objects.filter(name=cluster, available="Unknown").exists():
        say(agent, cluster, WELL)
    return 1
