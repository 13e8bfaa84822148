"""Is everything there that a hub needs? Asked by ``manage.py doctor`` and by the page about the hub's health."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection

from ocmconsole.accounts import superusers
from ocmconsole.backup import scheduled
from ocmconsole.environment.durations import span
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.health import disk_space, outages, probes
from ocmconsole.kubeapi.outbound import backlog, outlets
from ocmconsole.kubeapi.outbound.backlog import Backlog
from ocmconsole.kubeapi.storage import audit_chain
from ocmconsole.kubeapi.watch import change_log, redis_client
from ocmconsole.kubeapi.writes import reencryption
from ocmconsole.notifications import channels
from ocmconsole.second_approval import acts
from registration import hub_setup
from registration.keys import certificate_register
from registration.pki import ca

OUTSIDE, APPROVERS = "audit outside", "second approvals"
SOON = timedelta(days=30)  # before the CA or a serving certificate ends
LARGEST_SKEW = timedelta(seconds=5)  # between the clocks of hub and database
MOST_SHOWN = 5  # of a list of incidents
# What ``ca.certificate_ends`` has, where one CA is both and where there are two.
AUTHORITY = {"serving-ca": "CA", "serving": "serving certificate"}
AUTHORITIES = {"client-ca": "CA of clients", "serving-ca": "CA of serving", "serving": "serving certificate"}


def hub_problems() -> dict[str, list[str]]:
    """What is wrong, by the name of the check; an empty list is well."""
    return {name: list(check()) for name, check in CHECKS.items()}


def _database() -> Iterator[str]:
    try:
        if probes.unapplied():
            yield "migrations are missing; serve applies them"
        else:
            change_log.newest_revision()
    except DatabaseError as error:
        yield outages.operator_line(error)
    with suppress(OSError):
        if connection.vendor == "sqlite" and disk_space.is_short():
            yield "its disk is full: the reserve was given up, and only deletes, heartbeats and sign-in are let through"


def _clock() -> Iterator[str]:
    """The database's clock against this machine's: leases are compared with one, written by the other."""
    if connection.vendor != "postgresql":
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            skew = abs(cursor.fetchone()[0] - clock.now())
    except DatabaseError:
        return  # the check of the database says so
    if skew > LARGEST_SKEW:
        yield f"it differs from the database's by {skew.total_seconds():.0f} s"


def _certificates() -> Iterator[str]:
    home = settings.OCMCONSOLE_HOME
    try:
        for authority in ca.AuthorityRole:
            ca.authority_of(home, authority)
        ssl.create_default_context().load_cert_chain(home / "serving.crt", home / "serving.key")
    except (ca.AuthorityError, OSError, ValueError) as error:
        yield str(error)
        return
    yield from ca.key_problems(home)
    yield from _unknown_certificates()
    ends, soon, is_one = ca.certificate_ends(home), clock.now() + SOON, ca.client_file(home) == home / "ca.crt"
    for role, name in (AUTHORITY if is_one else AUTHORITIES).items():
        if (end := ends.get(role)) and end < soon:
            yield f"the {name} ends on {end:%Y-%m-%d}"
    try:
        is_served = ca.is_served(home, hub_setup.serving_names())
    except DatabaseError:
        return  # the check of the database says so
    if not is_served:
        yield "the serving certificate does not name every address of the hub; serve makes a new one"


def _unknown_certificates() -> Iterator[str]:
    """D26: incidents: certificates of the hub's CA that the hub did not issue: somebody else has its key."""
    try:
        incidents = certificate_register.incidents()
        found = list(incidents[: MOST_SHOWN + 1])
        more = incidents.count() - MOST_SHOWN if len(found) > MOST_SHOWN else 0
    except DatabaseError:
        return  # the check of the database says so
    for each in found[:MOST_SHOWN]:
        last = f"{each.last_seen:%Y-%m-%d %H:%M} UTC from {each.address or 'an unknown address'}"
        yield (
            f"a certificate of the hub's CA for {each.common_name!r} that the hub did not issue was shown and refused, "
            f"last at {last}: somebody else has its key"
        )
    if more > 0:
        yield f"{more} more certificates that the hub did not issue: see the page Hub CA"


def _encryption() -> Iterator[str]:
    """Whether what the database holds encrypted can be read."""
    try:
        texts = reencryption.count_texts()
        yield from (stored_text.lost(name).message for name in texts.missing_keys())
        clear = ", ".join(f"{count} of {name}" for name, count in texts.in_clear().items())
        if clear:
            yield stored_text.in_clear(clear).message
    except stored_text.Unreadable as error:
        yield error.message
    except DatabaseError:
        return  # the check of the database says so


def _audit() -> Iterator[str]:
    """A home that has lost its ``audit-key`` has made another."""
    try:
        other = audit_chain.first_of_other_key()
    except DatabaseError:
        return  # the check of the database says so
    if other is not None:
        yield f"from seal {other.number} on {audit_chain.OTHER_KEY}: put the file back from a backup"


def _left_to_encrypt() -> str:
    try:
        left = reencryption.count_texts().left().total()
    except (stored_text.Unreadable, DatabaseError):
        return ""  # the checks say so
    return f"{left} texts are not encrypted with the newest key: {PROGRAM} encryption apply" if left else ""


def _outlets() -> Iterator[str]:
    """A hub that waits for its activation sends nothing for that reason (D28)."""
    yield from (_behind(each) for each in _backlogs() if each.age > backlog.LATE and not each.is_quiet)


def _outlets_waiting() -> str:
    found = [
        each for each in _backlogs() if each.waiting and (each.is_quiet or (each.problem and each.age <= backlog.LATE))
    ]
    return "; ".join(map(_behind, found))


def _channels_behind() -> str:
    try:
        return channels.behind()
    except DatabaseError:
        return ""  # the check of the database says so


def _backlogs() -> list[Backlog]:
    try:
        return backlog.backlogs()
    except DatabaseError:
        return []  # the check of the database says so


def _behind(each: Backlog) -> str:
    why = each.problem or "no process of the hub sends it"
    if not each.problem and each.taken_at is not None and clock.now() - each.taken_at < backlog.LATE:
        why = f"its receiver has taken some {span(clock.now() - each.taken_at)} ago"
    if each.is_quiet:
        why = f"a restored hub sends nothing until {PROGRAM} activate"
    return f"{each.outlet}: {each.waiting} entries and seals wait, the oldest for {span(each.age)}: {why}"


def _approvers() -> Iterator[str]:
    try:
        yield from superusers.few_people()
    except DatabaseError:
        return  # the check of the database says so


def _redis() -> Iterator[str]:
    if settings.OCMCONSOLE_REDIS_URL and not redis_client.answers():
        yield "it does not answer; sign-in, reconcilers and watches go on without it"


def unused_checks() -> set[str]:
    """Names of the checks of what this hub is not set up with: neither well nor wrong."""
    is_used = {
        "Redis": bool(settings.OCMCONSOLE_REDIS_URL),
        OUTSIDE: bool(outlets.configured()),
        APPROVERS: acts.is_on(),
    }
    return {name for name, used in is_used.items() if not used}


def hub_warnings() -> dict[str, str]:
    """What will be wrong if nobody does something, by the name of the check."""
    found = {
        "disk": disk_space.warning(),
        "backup": scheduled.warning(),
        "encryption": _left_to_encrypt(),
        OUTSIDE: _outlets_waiting(),
        "notifications": _channels_behind(),
    }
    return {name: text for name, text in found.items() if text}


CHECKS: dict[str, Callable[[], Iterator[str]]] = {
    "database": _database,
    "clock": _clock,
    "certificates": _certificates,
    "encryption": _encryption,
    "audit": _audit,
    OUTSIDE: _outlets,
    APPROVERS: _approvers,
    "Redis": _redis,
}
