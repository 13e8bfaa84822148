"""Every state of the status vocabulary, and requests of every verdict, each with the past that leads there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from clusters.kinds import MAINTENANCE_TAINT, MANAGED_CLUSTER, TaintEffect, taints_of
from ocmconsole.demo.agents import UNWELL, WELL, Agent, Outage
from ocmconsole.demo.families import BY_PREFIX, Family, Names
from ocmconsole.demo.people import actor
from ocmconsole.demo.story import Story, look_at
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from registration.approvals import services
from registration.certificates import issued_certificates

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
GRACE = 5 * MINUTE
SWEEP = timedelta(seconds=2)  # so late the hub sees it, and an act may begin while the one before goes on
BACKUP = "example.com/backup"
CLEARED = "pci"  # label of clusters that may see card data


@dataclass
class StoryFleet:
    """The clusters that the story is about; ``tokens`` are filled in while it is built.

    ``cleared``: those that have the label ``CLEARED``.
    """

    story: Story
    names: Names
    tokens: dict[str, str] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    cleared: list[Agent] = field(default_factory=list)

    def agent(self, family: Family | None = None, name: str = "", lifetime: timedelta = 365 * DAY) -> Agent:
        family = family or self.names.family()
        made = Agent(
            name=name or self.names.next(family),
            family=family,
            tokens=self.tokens,
            address=self.names.address(family),
            version=self.names.version(),
            lifetime=lifetime,
        )
        self.agents.append(made)
        return made

    # ------------------------------------------------------------ ways in

    def ask(self, agent: Agent, moment: datetime, *, settle: bool = True) -> None:
        self.story.at(moment, agent.register, settle=False)
        self.story.at(moment + timedelta(seconds=15), agent.request, settle=settle)

    def join(self, agent: Agent, moment: datetime, *, by: str = "ana") -> None:
        """Asked, accepted after a while, certified, joined and well."""
        wait = self.story.random.choice((2, 4, 9, 25, 70)) * MINUTE
        self.ask(agent, moment, settle=False)
        self.story.at(moment + wait, partial(accept, agent.name, by))
        self.story.at(moment + wait + timedelta(seconds=40), agent.report, settle=False)
        agent.joined = max(moment + wait + MINUTE, self.story.begin)
        self.story.at(agent.joined, agent.beat)

    def inside(self, *, days: tuple[float, float] = (2, 100), **how: object) -> Agent:
        agent = self.agent(**how)  # type: ignore[arg-type] # passed on
        self.join(agent, self.story.ago(days[0] * DAY, days[1] * DAY), by=self.story.random.choice(("ana", "admin")))
        return agent

    def silent_from(self, agent: Agent, begin: datetime, end: datetime | None = None) -> None:
        """The last heartbeat, what the hub makes of it, and the return. Being late for a while leaves nothing."""
        agent.outages.append(Outage(begin, end))
        if end is not None and end - begin <= GRACE:
            return
        if end is None:
            self.story.at(begin, agent.beat, settle=False)
        self.story.at(begin + GRACE + SWEEP, look_at("lease_health", agent.name))
        if end is not None:
            self.story.at(end, agent.beat, settle=False)
            self.story.at(end + timedelta(seconds=1), partial(agent.report, WELL))

    def alive(self, agent: Agent) -> None:
        """Heard within the last minute, and from now on."""
        self.story.at(self.story.ago(timedelta(seconds=1), timedelta(seconds=55)), agent.beats_on, settle=False)


def accept(name: str, by: str) -> None:
    services.accept_cluster(actor(by), name)


def edit_as(by: str, name: str, change: Callable[[Doc], None]) -> None:
    verbs.edit(actor(by), MANAGED_CLUSTER, Key("", name), change)


# ---------------------------------------------------------------- the many


def healthy(fleet: StoryFleet) -> None:
    """Well now; every third one has had its troubles."""
    agent = fleet.inside(lifetime=fleet.story.random.choice((120, 180, 250, 365)) * DAY)
    _troubles(fleet, agent)
    fleet.alive(agent)


def cleared(fleet: StoryFleet) -> None:
    """Well, and it may see card data: what a Placement asks for that lives through something (``placing``)."""
    family = BY_PREFIX[("eu-web", "store-de", "us-web", "eu-web")[len(fleet.cleared) % 4]]
    agent = fleet.inside(family=family, days=(20, 100))
    fleet.cleared.append(agent)
    fleet.story.at(fleet.story.now - 19 * DAY, partial(clear, agent.name))
    moment = fleet.story.ago(timedelta(seconds=1), timedelta(seconds=55))
    fleet.story.at(moment, partial(_beats_unless_silent, agent), settle=False)


def clear(name: str) -> None:
    edit_as("ana", name, lambda doc: doc["metadata"]["labels"].update({CLEARED: "true"}))


def _beats_unless_silent(agent: Agent) -> None:
    if not any(outage.end is None for outage in agent.outages):
        agent.beats_on()


def _troubles(fleet: StoryFleet, agent: Agent) -> None:
    random, story = fleet.story.random, fleet.story
    assert agent.joined is not None
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        begin = story.ago(HOUR, 30 * DAY)
        length = random.choice((2.5, 3, 3, 4, 4, 7, 9, 14, 38, 190)) * MINUTE
        if begin > agent.joined + HOUR and begin + length < story.now - 20 * MINUTE:
            fleet.silent_from(agent, begin, begin + length)


def new(fleet: StoryFleet) -> None:
    """Joined in the last hours, with a token that is in use."""
    fleet.alive(fleet.inside(family=BY_PREFIX["store-fr"], days=(0.05, 0.9)))


# ---------------------------------------------------------------- let in, with something to say


def late(fleet: StoryFleet) -> None:
    agent = fleet.inside()
    begin = fleet.story.ago(timedelta(seconds=130), timedelta(seconds=200))
    agent.outages.append(Outage(begin))
    fleet.story.at(begin, partial(agent.beats_on, every=250))


def silent(fleet: StoryFleet) -> None:
    fleet.silent_from(fleet.inside(), fleet.story.ago(12 * MINUTE, 2 * DAY))


def shops_without_network(fleet: StoryFleet, count: int) -> None:
    """Several of one set fall silent together: one cause is likely."""
    begin = fleet.story.now - 38 * MINUTE
    for _ in range(count):
        agent = fleet.inside(family=BY_PREFIX["store-fr"])
        fleet.silent_from(agent, begin + timedelta(seconds=fleet.story.random.random() * 50))


def skewed(fleet: StoryFleet) -> None:
    """Its clock jumped ahead; it still beats."""
    agent = fleet.inside()
    since = fleet.story.ago(HOUR, 20 * HOUR)
    fleet.story.at(since, partial(_set_clock, agent, -timedelta(seconds=310 + fleet.story.random.randrange(400))))
    fleet.story.at(since + timedelta(seconds=1), agent.beat)
    fleet.story.at(since + timedelta(seconds=3), look_at("clock", agent.name))
    fleet.alive(agent)


def _set_clock(agent: Agent, behind: timedelta) -> None:
    agent.skew, agent.skewed_since = behind, agent.now()


def unwell(fleet: StoryFleet) -> None:
    agent = fleet.inside()
    moment = fleet.story.ago(5 * MINUTE, 9 * HOUR)
    fleet.story.at(moment - timedelta(seconds=1), agent.beat, settle=False)  # who reports is heard
    fleet.story.at(moment, partial(agent.report, UNWELL))
    fleet.alive(agent)


def in_maintenance(fleet: StoryFleet) -> None:
    agent = fleet.inside()
    why = fleet.story.random.choice(("kernel", "disk", "switch", "upgrade"))
    taint = {"key": MAINTENANCE_TAINT, "value": why, "effect": TaintEffect.NO_SELECT_IF_NEW.value}

    def begin(doc: Doc) -> None:
        doc["spec"]["taints"] = [*taints_of(doc), taint]

    moment = fleet.story.ago(HOUR, 8 * HOUR)
    fleet.story.at(moment, partial(edit_as, "ana", agent.name, begin))
    fleet.silent_from(agent, moment + 6 * MINUTE, moment + 17 * MINUTE)
    fleet.alive(agent)


def expired(fleet: StoryFleet) -> None:
    """Its certificate ended before it could renew."""
    ended = fleet.story.ago(6 * HOUR, 5 * DAY)
    agent = fleet.agent(lifetime=30 * DAY)
    fleet.join(agent, ended - 30 * DAY - 80 * MINUTE)
    fleet.silent_from(agent, ended - 2 * MINUTE)


def revoked(fleet: StoryFleet) -> None:
    """Somebody ended its certificate, and its agent has not asked again."""
    agent = fleet.inside()
    moment = fleet.story.ago(HOUR, 20 * HOUR)

    def revoke() -> None:
        (found,) = issued_certificates.valid_of(agent.name, moment)
        services.revoke_certificate(actor("ana"), found.pk, reason="The node's disk was stolen.")

    fleet.story.at(moment, revoke)
    fleet.silent_from(agent, moment - MINUTE)


def soon_expiring(fleet: StoryFleet) -> None:
    """A renewal that is overdue."""
    left = fleet.story.random.choice((1, 3, 5, 12, 20)) * DAY
    agent = fleet.agent(lifetime=60 * DAY)
    fleet.join(agent, fleet.story.now - 60 * DAY + left)
    fleet.alive(agent)


def silent_about_health(fleet: StoryFleet) -> None:
    """It has joined and says nothing else."""
    agent = fleet.agent()
    moment = fleet.story.ago(HOUR, 3 * DAY)
    fleet.ask(agent, moment)
    fleet.story.at(moment + 3 * MINUTE, partial(accept, agent.name, "ana"))
    fleet.story.at(moment + 4 * MINUTE, agent.join_only)
    agent.joined = max(moment + 4 * MINUTE, fleet.story.begin)
    fleet.alive(agent)


# ---------------------------------------------------------------- on the way in or out


def joining(fleet: StoryFleet) -> None:
    agent = fleet.agent()
    moment = fleet.story.ago(2 * MINUTE, 8 * MINUTE)
    fleet.ask(agent, moment)
    fleet.story.at(moment + MINUTE, partial(accept, agent.name, "ana"))


def waiting(fleet: StoryFleet) -> None:
    agent = fleet.agent()
    moment = fleet.story.ago(20 * MINUTE, 5 * HOUR)
    fleet.story.at(moment, agent.register)
    fleet.story.at(moment + 3 * MINUTE, partial(accept, agent.name, "ana"))


def disconnected(fleet: StoryFleet) -> None:
    agent = fleet.inside(days=(21, 100))
    moment = fleet.story.ago(HOUR, 20 * DAY)
    agent.expected_until = moment
    fleet.story.at(moment - MINUTE, agent.beat, settle=False)
    fleet.story.at(moment, lambda: services.disconnect_cluster(actor("ana"), agent.name))


def removing(fleet: StoryFleet) -> None:
    """Deleted, and held by a finalizer of somebody else; without its rights the agent beats no more."""
    agent = fleet.inside()
    moment = fleet.story.ago(40 * MINUTE, 6 * HOUR)

    def hold(doc: Doc) -> None:
        doc["metadata"]["finalizers"] = [*(doc["metadata"].get("finalizers") or []), BACKUP]

    fleet.story.at(moment - DAY, partial(edit_as, "admin", agent.name, hold))
    fleet.story.at(moment, lambda: verbs.delete(actor("ana"), MANAGED_CLUSTER, Key("", agent.name)))
    fleet.silent_from(agent, moment - MINUTE)


def removed(fleet: StoryFleet) -> None:
    """Gone for good, and remembered."""
    agent = fleet.inside()
    moment = fleet.story.ago(HOUR, 23 * HOUR)
    fleet.story.at(moment, lambda: verbs.delete(actor("ana"), MANAGED_CLUSTER, Key("", agent.name)))
    agent.expected_until = moment


def declined(fleet: StoryFleet) -> None:
    agent = fleet.agent(BY_PREFIX["lab"])
    moment = fleet.story.ago(2 * HOUR, 20 * HOUR)
    fleet.ask(agent, moment)
    reason = fleet.story.random.choice(("Wrong token: this is a laptop of the lab.", "Nobody knows this machine."))
    decline = partial(services.decline_cluster, reason=reason)
    fleet.story.at(moment + 30 * MINUTE, lambda: decline(actor("ana"), agent.name))


# ---------------------------------------------------------------- requests that wait, by verdict


def safe(fleet: StoryFleet) -> None:
    family = BY_PREFIX[fleet.story.random.choice(("store-fr", "store-de"))]
    fleet.ask(fleet.agent(family, lifetime=90 * DAY), fleet.story.ago(3 * MINUTE, 70 * MINUTE))


def without_request(fleet: StoryFleet) -> None:
    """Check: it has not asked for a certificate."""
    fleet.story.at(fleet.story.ago(5 * MINUTE, HOUR), fleet.agent(BY_PREFIX["edge"]).register)


def restarted(fleet: StoryFleet) -> None:
    """Check: one asker with several keys; the newest counts."""
    agent = fleet.agent(BY_PREFIX["store-de"])
    moment = fleet.story.ago(10 * MINUTE, 40 * MINUTE)
    fleet.ask(agent, moment)
    for number in (1, 2):
        again = replace(agent, requests=number)
        fleet.story.at(moment + number * 3 * MINUTE, again.request)


def known_with_another_key(fleet: StoryFleet) -> None:
    """Blocked: the name had a key, and somebody asks with another."""
    before = fleet.inside(family=BY_PREFIX["store-de"], days=(10, 40))
    moment = fleet.story.ago(2 * DAY, 4 * DAY)
    before.expected_until = moment
    fleet.story.at(moment, lambda: verbs.delete(actor("ana"), MANAGED_CLUSTER, Key("", before.name)))
    again = replace(before, requests=40, joined=None, outages=[])
    fleet.ask(again, fleet.story.ago(20 * MINUTE, 90 * MINUTE))


def wrong_subject(fleet: StoryFleet) -> None:
    """Blocked: the request speaks for another cluster."""
    agent = fleet.agent(BY_PREFIX["lab"])
    moment = fleet.story.ago(20 * MINUTE, 90 * MINUTE)
    fleet.story.at(moment, agent.register)
    fleet.story.at(moment + MINUTE, partial(agent.request, speaks_for="payments-eu"))


def two_askers(fleet: StoryFleet) -> None:
    """Blocked: different tokens and addresses under one name."""
    agent = fleet.agent(BY_PREFIX["erp"], name="payments-eu")
    moment = fleet.story.ago(30 * MINUTE, 100 * MINUTE)
    fleet.ask(agent, moment)
    other = replace(agent, family=BY_PREFIX["lab"], address="203.0.113.77")
    fleet.story.at(moment + 8 * MINUTE, other.request)


# How many of a hundred clusters, and at least how many; what is left is healthy.
STATES: tuple[tuple[Callable[[StoryFleet], None], float, int], ...] = (
    (new, 1.5, 1),
    (late, 1.5, 1),
    (silent, 1.5, 1),
    (skewed, 1, 1),
    (unwell, 1, 1),
    (in_maintenance, 2, 1),
    (expired, 0.5, 1),
    (revoked, 0.3, 1),
    (soon_expiring, 2, 1),
    (silent_about_health, 0.3, 1),
    (joining, 0.5, 1),
    (waiting, 0.5, 1),
    (disconnected, 1, 1),
    (removing, 0.5, 1),
    (removed, 0.7, 1),
    (declined, 0.5, 1),
    (safe, 1.2, 2),
    (without_request, 0.2, 1),
    (restarted, 0.2, 1),
    (known_with_another_key, 0.2, 1),
    (wrong_subject, 0, 1),
    (two_askers, 0, 1),
    (cleared, 3, 4),
)
SHOPS = 0.03  # share of the fleet that are shops without a network: enough to be seen as a group


def populate(fleet: StoryFleet, clusters: int) -> None:
    """So many clusters, in every state."""
    for state, share, least in STATES:
        for _ in range(max(least, round(share * clusters / 100))):
            state(fleet)
    shops_without_network(fleet, max(2, round(SHOPS * clusters)))
    while len(fleet.agents) < clusters:
        healthy(fleet)
