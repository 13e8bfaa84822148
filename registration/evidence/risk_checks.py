"""What the hub makes of a request to join: each fact it can check itself, and what it means when it does not hold.

*Safe* is only what holds in everything and is in nothing unusual; *Check* is unusual and may be right; *Blocked* is an
identity that contradicts itself or what is remembered (K7, K11, D9, D10, D18). Pure: what it judges
was read by ``evidence_queries``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.kinds import ACCEPT_KEY
from ocmconsole.core.tokens.tokens import JOINING
from registration.evidence.evidence_items import Fact, KeyHistory, Verdict
from registration.evidence.evidence_queries import AT_ONCE, NEVER_USED, network_of
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registration.evidence.evidence_items import Asked, Evidence
    from registration.evidence.evidence_queries import Gathered

MOST_REQUESTS = 10  # certificate requests of one cluster, with which its agent creates no more (G22)
STRONG_RSA = 3_072  # bits
LONG_UNUSED = timedelta(days=30)  # of a token: somebody may have found it
# Smaller tokens are always near their end.
COUNTED_FROM = 10
# Clusters that one token for any number brings within a minute before and after: a site of a few machines is less.
CROWD = 20
NEAR_END = 0.9  # part of a token's uses


def checked(found: Evidence, gathered: Gathered) -> list[Fact]:
    """Every fact about one name."""
    if not found.waiting:
        text = "Accepting lets the cluster in. Its certificate request waits for a decision of its own when it comes."
        nothing = Fact(ok=False, title="No certificate request is waiting", weight=Verdict.CHECK, text=text)
        return [nothing, *_memory_facts(found), *_name_facts(found, gathered), *_token_facts(found, gathered)]
    return [
        *_asker_facts(found),
        *_subject_facts(found),
        *_requester_facts(found),
        *_key_facts(found, gathered),
        *_memory_facts(found),
        *_name_facts(found, gathered),
        *_token_facts(found, gathered),
    ]


# ---------------------------------------------------------------- the request


def _subject_facts(found: Evidence) -> Iterator[Fact]:
    """H35: whether label, organization and common name of the request name this cluster."""
    problems = [problem for asked in found.waiting for problem in asked.problems]
    for problem in dict.fromkeys(problems):
        yield Fact(ok=False, title=f"A request does not fit: {problem}")
    if not problems:
        yield Fact(ok=True, title=f"Common name and organization name exactly “{found.name}”")
        yield Fact(ok=True, title="Signer and usages are the ones for cluster agents")


def _asker_facts(found: Evidence) -> Iterator[Fact]:
    """K7, K11: an agent that was restarted has a new key; two credentials or addresses are two askers."""
    keys = len({asked.fingerprint for asked in found.waiting}) + found.superseded
    if len(found.askers) > 1:
        addresses = {asked.source for asked in found.waiting}
        where = "from different addresses" if len(addresses) > 1 else "with different credentials"
        yield Fact(ok=False, title=f"Different askers use this name right now, {where}",
                   text="Different credentials or addresses mean two askers, not one restarted agent.")  # fmt: skip
    elif keys > 1:
        yield Fact(ok=False, title=f"The newest of {keys} keys counts", weight=Verdict.CHECK,
                   text="One requester from one address: an agent that was restarted makes a new key.")  # fmt: skip
    else:
        yield Fact(ok=True, title="One key asks for this name")


def _requester_facts(found: Evidence) -> Iterator[Fact]:
    strangers = {asked.requester for asked in found.waiting if _is_other_agent(asked, found.name)}
    for requester in sorted(strangers):
        yield Fact(ok=False, title="The agent of another cluster asks for this name", text=requester)
    if strangers:
        return
    newest = found.waiting[0]
    token = newest.recorded.token
    if token is not None and token.cluster == found.name:
        yield Fact(ok=True, title="The token was minted for this cluster alone")
    elif JOINING in newest.groups:
        yield Fact(ok=True, title="The group of the requester may ask for any cluster", text=JOINING)
    else:
        yield Fact(ok=True, title="The requester was allowed to ask", text=newest.requester)


def _is_other_agent(asked: Asked, cluster: str) -> bool:
    agent = agent_names.agent_name(asked.requester)
    return agent is not None and agent.cluster != cluster


def _key_facts(found: Evidence, gathered: Gathered) -> Iterator[Fact]:
    others = {name for asked in found.waiting for name in gathered.elsewhere.get(asked.fingerprint, ())} - {found.name}
    if others:
        yield Fact(ok=False, title="Another cluster uses the same key", weight=Verdict.CHECK,
                   text="Machines copied from one image may share a key. Who has one, has both.")  # fmt: skip
    newest = found.waiting[0]
    if _is_weak(newest.key):
        yield Fact(ok=False, title=f"A key of type {newest.key} is weak, though it is allowed", weight=Verdict.CHECK)
    if not others and not newest.problems:
        yield Fact(ok=True, title=f"Its own key signed it: {newest.key}, which appears nowhere else in the fleet")


def _is_weak(key: str) -> bool:
    kind, _, size = key.partition(" ")
    return kind == "RSA" and size.isdigit() and int(size) < STRONG_RSA


# ---------------------------------------------------------------- what is remembered


def _memory_facts(found: Evidence) -> Iterator[Fact]:
    """D9, D10: what was decided before about these keys and those who show them."""
    yield from _declined_facts(found)
    histories = {asked.history for asked in found.waiting}
    unknown = {asked.fingerprint for asked in found.waiting if asked.history is KeyHistory.UNKNOWN}
    if unknown and unknown == {_overridden_key(found)}:
        yield Fact(ok=False, title="The key is new for this name, and somebody vouched for it", weight=Verdict.CHECK,
                   text=f"The annotation {ACCEPT_KEY} names it.")  # fmt: skip
    elif unknown:
        weight = Verdict.CHECK if settings.OCMCONSOLE_ALLOW_REKEY else Verdict.BLOCKED
        text = "Its agent would renew with its certificate. The present requester has lost it, or never had it."
        yield Fact(ok=False, title=f"“{found.name}” is known, and not under this key", text=text, weight=weight)
    if KeyHistory.RENEWAL in histories:
        yield Fact(ok=True, title="The agent's own certificate vouches for the new key")
    if KeyHistory.REPAIR in histories:
        yield Fact(ok=True, title="A repair token vouches for the new key")
    if KeyHistory.KNOWN in histories:
        yield Fact(ok=False, title=f"The name was seen before with the same key{_removed(found)}", weight=Verdict.CHECK,
                   text="A cluster that comes back brings its key. So does one who has taken it.")  # fmt: skip
    if not found.keys:
        yield _first_certificate(found)


def _overridden_key(found: Evidence) -> str:
    """The key that the ManagedCluster says is the right one (D9); only those write it who may accept."""
    annotations = (found.cluster.doc["metadata"].get("annotations") or {}) if found.cluster else {}
    return str(annotations.get(ACCEPT_KEY, ""))


def _declined_facts(found: Evidence) -> Iterator[Fact]:
    for asked in found.waiting:
        if asked.decline is not None:
            what = "key" if asked.decline.fingerprint == asked.fingerprint else "credential"
            if asked.decline.scope == asked.decline.Scope.NAME:
                what = "name"
            title = f"This {what} was declined by {asked.decline.declined_by}"
            yield Fact(ok=False, title=title, text=asked.decline.reason)
    if found.declines and not found.waiting:
        last = found.declines[0]
        yield Fact(ok=False, title=f"It was declined by {last.declined_by}", text=last.reason)


def _removed(found: Evidence) -> str:
    last = found.earlier[0] if found.earlier else None
    if last is None or last.removed_at is None:
        return ""
    return f", removed {_day(last.removed_at)} by {last.removed_by}"


def _day(moment: datetime) -> str:
    return moment.strftime("%d %b").lstrip("0")


def _first_certificate(found: Evidence) -> Fact:
    """A certificate from before the hub remembered keys still says that the name is taken."""
    if found.facts.certificate_fingerprint:
        return Fact(ok=False, title=f"A certificate was issued for “{found.name}” before", weight=Verdict.CHECK,
                    text="An agent that still holds it would renew it instead of asking again.")  # fmt: skip
    return Fact(ok=True, title="No certificate was ever issued for this name")


def _name_facts(found: Evidence, gathered: Gathered) -> Iterator[Fact]:
    if found.cluster is None:
        yield Fact(ok=False, title="There is no ManagedCluster of this name yet", weight=Verdict.CHECK)
    count = gathered.counts[found.name]
    if count >= MOST_REQUESTS:
        yield Fact(ok=False, title=f"There are {count} requests for this name", weight=Verdict.CHECK,
                   text="With ten, an agent makes no more; decided ones go after an hour.")  # fmt: skip
    if found.name in gathered.foreign:
        yield Fact(ok=False, title=f"The namespace “{found.name}” is not this cluster's", weight=Verdict.CHECK,
                   text="The agent would get rights inside it.")  # fmt: skip


# ---------------------------------------------------------------- the token


def _token_facts(found: Evidence, gathered: Gathered) -> Iterator[Fact]:
    """How this use of a bootstrap token differs from those before it."""
    token = found.recorded.token
    own = [event.time for row in _rows(found, gathered) if (event := gathered.creation_of(row)) is not None]
    if token is None or not own:
        return
    uses, came = gathered.uses.get(f"bootstrap:{token.pk}", NEVER_USED), min(own)
    odd = [*_range_facts(found.recorded.source, uses.networks_before(came))]
    if token.max_uses and token.max_uses >= COUNTED_FROM and token.uses >= NEAR_END * token.max_uses:
        odd.append(Fact(ok=False, title=f"The token is nearly used up: {token.uses_text}", weight=Verdict.CHECK,
                        text="Were so many clusters meant to come with it?"))  # fmt: skip
    odd += _crowd_facts(gathered.brought.get(f"bootstrap:{token.pk}", []), came)
    last = max(token.created, uses.last_before(came) or token.created)
    if came - last > LONG_UNUSED:
        odd.append(Fact(ok=False, title=f"The token had not been used since {_day(last)}", weight=Verdict.CHECK))
    yield from odd or [Fact(ok=True, title="Nothing about token and address is unusual")]


def _crowd_facts(brought: list[datetime], moment: datetime) -> Iterator[Fact]:
    """``brought`` are the times, in order, at which a token for any number of clusters brought one."""
    count = bisect_right(brought, moment + AT_ONCE) - bisect_left(brought, moment - AT_ONCE)
    if count >= CROWD:
        yield Fact(ok=False, title=f"{count} clusters came with this token within a minute of this one",
                   weight=Verdict.CHECK,
                   text="It was minted for any number of clusters. Were so many meant to come at once?")  # fmt: skip


def _rows(found: Evidence, gathered: Gathered) -> list[object]:
    return [*([found.cluster] if found.cluster else []), *gathered.requests.get(found.name, ())]


def _range_facts(source: str, known: set[str]) -> Iterator[Fact]:
    if known and network_of(source) not in known:
        shown = ", ".join(sorted(known)[:3]) + (f" and {len(known) - 3} more" if len(known) > 3 else "")  # noqa: PLR2004 - three examples
        yield Fact(ok=False, title="New address range for this token", weight=Verdict.CHECK,
                   text=f"{source} asks; before, it was used from {shown}.")  # fmt: skip
