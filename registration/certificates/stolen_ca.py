"""After a CA's key was stolen: whom the hub lost with the old CA, and what only people can do.

Called by ``manage.py ca rotate … --stolen``, and by ``repair --not-given``.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from clusters.models import ManagedCluster
from ocmconsole.environment import installation
from ocmconsole.kubeapi import clock
from registration.certificates import agent_troubles
from registration.models import IssuedCertificate
from registration.pki import ca

NAMED = 10  # of people and add-ons in one line


@dataclass(frozen=True, slots=True)
class Lost:
    """Clusters that need a manifest each; names in other certificates that were revoked with the old CA."""

    clusters: tuple[str, ...]
    others: tuple[str, ...]


def fallen() -> list[str]:
    """Accepted clusters that hold no valid certificate of the hub, or do not know its serving CA."""
    names = set(ManagedCluster.objects.filter(hub_accepts_client=True).values_list("name", flat=True))
    ours = IssuedCertificate.objects.exclude(cluster="")
    valid = set(ours.filter(revoked_at=None, not_after__gt=clock.now()).values_list("cluster", flat=True))
    without = set(ours.values_list("cluster", flat=True)) - valid
    return sorted(names & (without | set(agent_troubles.handed(names).without)))


def lost() -> Lost:
    revoked = IssuedCertificate.objects.filter(revocation_reason__startswith="The key of the CA", cluster="")
    valid = IssuedCertificate.objects.filter(revoked_at=None, not_after__gt=clock.now(), cluster="")
    others = set(revoked.values_list("common_name", flat=True)) - set(valid.values_list("common_name", flat=True))
    return Lost(tuple(fallen()), tuple(sorted(others)))


def by_hand(role: ca.AuthorityRole, *, also_other: bool) -> list[str]:
    """What a person must do now, in this order. ``also_other``: one key was both CAs'."""
    program, found = installation.PROGRAM, lost()
    other = next(each for each in ca.AuthorityRole if each is not role)
    stem = "client-ca" if role is ca.AuthorityRole.CLIENT else "ca"
    steps = [f"the same key signs {other} certificates: {program} ca rotate {other} --stolen"] if also_other else []
    steps.append(
        f"servers with a home of their own: copy {stem}.crt and {stem}.key there now; until then they trust the thief"
    )
    if role is ca.AuthorityRole.SERVING:
        steps.append(
            "behind a proxy: copy serving.crt, serving.key and ca.crt of the home to it now, and reload it (nginx -s "
            "reload); until then it refuses the hub's servers"
        )
    steps.append(
        f"{len(found.clusters)} clusters lost the hub: {program} repair --not-given FOLDER --ttl 24h makes manifests"
    )
    if found.others and role is ca.AuthorityRole.CLIENT:
        more = f" and {len(found.others) - NAMED} more" if len(found.others) > NAMED else ""
        steps.append(
            f"people and programs with certificates need new ones ({program} user_kubeconfig): "
            f"{', '.join(found.others[:NAMED])}{more}"
        )
    if role is ca.AuthorityRole.SERVING:
        steps += [
            "kubeconfigs of people, and tokens of service accounts in Secrets, hold the old CA: make them anew",
            f"bootstrap kubeconfigs that wait hold the old CA: {program} bootstrap_token create makes new ones",
        ]
    return [
        *steps,
        f"make a backup, and destroy those that hold the stolen key: {program} backup FILE",
        "find out how the key was taken, and what else was in that place: the guide says what to change (stolen key)",
        f"see in the audit what was done with the stolen key: {program} audit report FILE",
    ]


def shares_key() -> bool:
    """Whether one CA signs clients and serving. Raises AuthorityError."""
    home = settings.OCMCONSOLE_HOME
    return ca.client_authority(home).key_fingerprint == ca.serving_authority(home).key_fingerprint
