"""Rotation of the hub's CAs: how far one has come, who is left, and its steps (`manage.py ca`, the page *Hub CA*).

What phase there is, the certificates in the home say (``registration.pki.authority_files``). Two things are counted,
and never added up. Of clients: whose newest certificate is of the CA that signs and was *seen* in use, so that nobody
is counted who was given one and never came back. Of serving: which clusters were *given* the new CA to trust, which is
when they joined, or came back, with a token that was minted after the rotation began; what one trusts cannot be seen.

Steps are taken as an admin, noted in the audit before they are done, and published afterwards by this process or, if it
is killed, by the next server that looks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Q
from django.urls import reverse

from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.accounts import permissions
from ocmconsole.core.models import BootstrapTokenUse
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.storage import audit_acts
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.acts import ActKind
from ocmconsole.second_approval.rules import ActName
from registration import hub_setup
from registration.models import IssuedCertificate
from registration.pki import ca

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.models import AuditEvent
    from ocmconsole.second_approval.models import ProposedAct

SECOND = timedelta(seconds=1)  # dates of certificates have no parts of it
NAMED = 10  # of those who are left, in a refusal
RETIRED = "The CA that signed it was retired."
ROTATE = audit_acts.declare("ca:rotate", "New CA of the hub signs", refused="Rotating a CA of the hub refused")
BACK = audit_acts.declare("ca:back", "Old CA of the hub signs again", refused="Rolling back a CA refused")
STOLEN_KEY = "The key of the CA that signed it was stolen."
STOLEN = audit_acts.declare("ca:stolen", "Stolen CA of the hub replaced", refused="Replacing a stolen CA refused")
RETIRE = audit_acts.declare("ca:retire", "Other CA of the hub retired", refused="Retiring a CA of the hub refused")


@dataclass(frozen=True, slots=True)
class Holder:
    """A cluster, or the name in a certificate that is no cluster's agent, whose certificate the other CA signed."""

    name: str
    is_cluster: bool
    ends: datetime
    has_new: bool  # its newest certificate was issued since the rotation began, and has not been seen


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` clusters would go on if the other CA were retired now, and who is ``left`` would not.

    ``removed`` are names of removed clusters whose certificates end with it. In a steady phase there is no ``other``,
    and nobody is counted. ``places`` are URIs of the two CAs' keys, empty for one in the home.
    """

    role: ca.AuthorityRole
    phase: ca.Phase
    signs: ca.Certificate
    other: ca.Certificate | None
    begun: datetime
    places: tuple[str, str] = ("", "")
    done: int = 0
    left: tuple[Holder, ...] = ()
    removed: int = 0


def progress_of(role: ca.AuthorityRole) -> Progress:
    """Raises AuthorityError."""
    authority = ca.authority_of(settings.OCMCONSOLE_HOME, role)
    signs = ca.described(authority.certificate)
    phase, begun = ca.phase_of(authority), ca.begun(authority)
    if not authority.others:
        return Progress(role, phase, signs, None, begun, (authority.key_place, ""))
    other = ca.described(authority.others[0].certificate)
    places = (authority.key_place, authority.others[0].key_place)
    count = _clients if role is ca.AuthorityRole.CLIENT else _given
    return count(Progress(role, phase, signs, other, begun, places))


def _clients(found: Progress) -> Progress:
    """By cluster, else by common name: an agent that was installed anew has another name in its certificate.

    Of each the newest certificate counts, seen or not: an agent keeps no earlier one, and may hold one of the other CA
    that was issued right before a roll-back.
    """
    assert found.other is not None
    valid = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=clock.now())
    ours = valid.filter(authority__in=("", found.signs.key_fingerprint, found.other.key_fingerprint))
    holders: dict[tuple[bool, str], list[IssuedCertificate]] = defaultdict(list)
    for row in ours.only("cluster", "common_name", "authority", "not_before", "not_after"):
        holders[bool(row.cluster), row.cluster or row.common_name].append(row)
    present = set(ManagedCluster.objects.values_list("name", flat=True))
    done, removed, left = 0, 0, []
    for (is_cluster, name), rows in holders.items():
        newest = [row for row in rows if row.not_before == max(each.not_before for each in rows)]
        if all(row.authority == found.signs.key_fingerprint for row in newest):
            done += is_cluster
        elif is_cluster and name not in present:
            removed += 1
        else:
            has_new = any(not row.authority and row.not_before + ca.BACKDATED >= found.begun for row in newest)
            left.append(Holder(name, is_cluster, max(row.not_after for row in rows), has_new))
    return _counted(found, done, left, removed)


def _given(found: Progress) -> Progress:
    """After a roll-back the older CA signs, which every bundle has held."""
    names = set(ManagedCluster.objects.filter(hub_accepts_client=True).values_list("name", flat=True))
    if found.phase is ca.Phase.TURNED_BACK:
        return _counted(found, len(names), [])
    minted = BootstrapTokenUse.objects.filter(token__created__gte=found.begun + SECOND).order_by("-since")
    since = {use.cluster: use.since - ca.BACKDATED - SECOND for use in minted}  # the first of each cluster
    joined = IssuedCertificate.objects.filter(cluster__in=list(since)).exclude(authority="")
    given = {name for name, begin in joined.values_list("cluster", "not_before") if begin >= since[name]}
    assert found.other is not None
    left = [
        Holder(name, is_cluster=True, ends=found.other.not_after, has_new=False) for name in names if name not in given
    ]
    return _counted(found, len(names) - len(left), left)


def _counted(found: Progress, done: int, left: list[Holder], removed: int = 0) -> Progress:
    ordered = tuple(sorted(left, key=lambda each: (not each.is_cluster, each.name)))
    return replace(found, done=done, left=ordered, removed=removed)


# ---------------------------------------------------------------- steps


def rotate(actor: Actor, role: ca.AuthorityRole, *, place: str = "") -> None:
    """A new CA signs, or the one of a rotation that was rolled back; the present one is trusted too.

    ``place`` says where the new key is, as for ``authority_files.rotate``. Raises Forbidden unless the actor is an
    admin, Conflict where one is under way, AuthorityError, OSError.
    """
    _take(actor, partial(ca.rotate, place=place), role, ROTATE, place=place)


def turn_back(actor: Actor, role: ca.AuthorityRole) -> None:
    """The old CA signs again, the new one is trusted until it is retired. Raises as ``rotate``."""
    _take(actor, ca.turn_back, role, BACK)


def retire(actor: Actor, role: ca.AuthorityRole, *, force: bool = False) -> None:
    """The CA that does not sign is trusted no more; certificates of clients that were seen under it are revoked.

    Raises as ``rotate``; Conflict, with who is left, unless ``force``.
    """
    require_admin(actor)
    found = progress_of(role)
    if found.left and not force:
        raise errors.Conflict(f"{_left_text(found)} Nothing is changed.")
    _take(actor, ca.retire, role, RETIRE, force=force)


def replace_stolen(actor: Actor, role: ca.AuthorityRole, *, place: str = "") -> None:
    """A new CA signs, the present ones are trusted no more, and each client certificate of theirs is revoked.

    Nothing is counted and nobody waited for. Raises as ``rotate``.
    """
    _take(actor, partial(ca.replace_stolen, place=place), role, STOLEN, place=place)


def _left_text(found: Progress) -> str:
    names = ", ".join(each.name for each in found.left[:NAMED])
    more = f" and {len(found.left) - NAMED} more" if len(found.left) > NAMED else ""
    what = "would lose the hub: no certificate of the new CA was seen of them"
    if found.role is ca.AuthorityRole.SERVING:
        what = "were not given the new CA, and would lose the hub"
    return f"{len(found.left)} {what}: {names}{more}."


def _take(
    actor: Actor, step: Callable[..., ca.Authority], role: ca.AuthorityRole, act: str, **asked: str | bool
) -> None:
    """``asked`` is what else says which step it is."""
    require_admin(actor)
    home = settings.OCMCONSOLE_HOME
    before = ca.authority_of(home, role)

    def note(wanted: ca.Authority) -> None:
        verbs.with_present_rights(actor, lambda actor: _note(actor, act, role, before, wanted, asked))

    try:
        step(home, role, note=note)
    except ca.RotationError as error:
        raise errors.Conflict(f"{error}.") from error
    hub_setup.follow_authorities()


def require_admin(actor: Actor) -> None:
    if not actor.is_master:
        raise errors.Forbidden("the CAs of the hub are rotated by its admins")


def _note(
    actor: Actor,
    act: str,
    role: ca.AuthorityRole,
    before: ca.Authority,
    wanted: ca.Authority,
    asked: Mapping[str, str | bool],
) -> None:
    """The audit entry, and what ends with a CA, in one transaction before the step. It may take a second person."""
    require_admin(actor)
    with verbs.changing_rights(actor):
        if acts.rule_of(ActName.CA) is not None:
            said = {"step": act.partition(":")[2], **{name: str(value) for name, value in asked.items() if value}}
            evidence = _evidence(role, act)
            for row in gate.passed(gate.WantedAct(actor, ActName.CA, role.value, said, evidence)):
                row.save()
        gone = {each.key_fingerprint for each in (before, *before.others)}
        gone -= {each.key_fingerprint for each in (wanted, *wanted.others)}
        # Of a stolen key also what nobody has shown yet: all that there is was signed before the new CA.
        gone |= {""} if act == STOLEN else set()
        why = STOLEN_KEY if act == STOLEN else RETIRED
        ended = _end_certificates(actor, gone, why) if role is ca.AuthorityRole.CLIENT and gone else 0
        _entry(actor, act, role, before, wanted, f"{ended} certificates revoked" if ended else "").save()


def _evidence(role: ca.AuthorityRole, act: str) -> dict[str, Any]:
    """What another person has to know of a step: what is trusted now, who would lose the hub. Raises AuthorityError."""
    found = progress_of(role)
    left = [{"name": each.name, "until": each.ends.isoformat()} for each in found.left] if act == RETIRE else []
    return {
        "Signs": _described(found.signs),
        "Trusted beside it": _described(found.other) if found.other is not None else [],
        "Phase": [str(found.phase)],
        **({"Who would lose the hub": left} if act == RETIRE else {}),
    }


def _described(certificate: ca.Certificate) -> dict[str, str]:
    return {
        "name": certificate.common_name,
        "key": certificate.key_fingerprint,
        "until": certificate.not_after.isoformat(),
    }


def _evidence_of(found: ProposedAct) -> dict[str, Any] | None:
    try:
        return _evidence(ca.AuthorityRole(found.subject), f"ca:{found.arguments['step']}")
    except ca.AuthorityError:
        return None


acts.register(
    ActKind(
        ActName.CA,
        "Change the CA of {subject}",
        may=lambda actor, _: actor.is_master,
        evidence=_evidence_of,
        again="Then the command is given again on the host, as it was.",
        url=lambda _: reverse("registration:ca"),
    )
)


def _entry(
    actor: Actor, act: str, role: ca.AuthorityRole, before: ca.Authority, wanted: ca.Authority, reason: str
) -> AuditEvent:
    said = {
        path: (_key(old), _key(new))
        for path, old, new in (
            ("signs", (before,), (wanted,)),
            ("trusted", (before, *before.others), (wanted, *wanted.others)),
        )
    }
    diff = [{"path": path, "old": old, "new": new} for path, (old, new) in said.items() if old != new]
    place = permissions.AuditTarget("", "authorities", role.value, "")
    return permissions.audit_entry(actor, act, place, diff=diff, reason=reason)


def _key(authorities: tuple[ca.Authority, ...]) -> str:
    return ", ".join(sorted(each.key_fingerprint for each in authorities))


def _end_certificates(actor: Actor, authorities: set[str], why: str) -> int:
    """Those that were seen under these CAs, "" for none. Few are what counts for a cluster: those who were left."""
    now = clock.now()
    rows = IssuedCertificate.objects.filter(Q(revoked_at=None, not_after__gt=now, authority__in=authorities))
    counting = ClusterFacts.objects.filter(certificate_fingerprint__in=rows.values("pk"))
    current = set(counting.values_list("certificate_fingerprint", flat=True))
    for row in rows.filter(pk__in=current):
        row.revoked_at, row.revoked_by, row.revocation_reason = now, actor.user[:320], why
        row.save()
    others = rows.update(revoked_at=now, revoked_by=actor.user[:320], revocation_reason=why)
    return len(current) + others
