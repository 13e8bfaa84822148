"""Repair manifests (D29): what is applied on a managed cluster whose agent fell off, so that it comes back by itself.

A manifest holds a repair token and the CAs by which the hub is known now; both are of the same moment, because the
token is bound to those CAs. Who may accept the cluster may mint one: the same person could accept the new key by an
override (D9). A rotation mints as the hub itself. What a token lets in is ``keys.repair_tokens``'.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusters.kinds import MANAGED_CLUSTER, is_accepted, is_deleting
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import bootstrap_terms, token_formats, tokens
from ocmconsole.core.tokens.bootstrap_terms import Terms
from ocmconsole.environment.durations import exactly
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.formats import documents
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader
from ocmconsole.second_approval import gate
from ocmconsole.second_approval.rules import ActName
from registration import join_guide, queries
from registration.approvals import services
from registration.join_guide import Reach
from registration.keys import key_history, key_lines, repair_tokens
from registration.models import Decline

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.second_approval.models import ProposedAct
    from registration.models import KeyLine

LIFETIME = timedelta(hours=1)  # of a token, unless somebody says: until it is applied it is the identity of a cluster
FILE_NAME = "repair-{}.yaml"


@dataclass(frozen=True, slots=True)
class RepairManifest:
    """``text`` holds the secret of the token, which is nowhere else."""

    token: BootstrapToken
    text: str


def line_to_repair(name: str) -> KeyLine:
    """The line of keys that a repair token for the cluster continues. Raises NotFound, Conflict."""
    row = reader.read_row(MANAGED_CLUSTER, Key("", name))
    if row is None:
        raise errors.NotFound(f"There is no cluster {name}.")
    if is_deleting(row.doc):
        raise errors.Conflict(f"{name} is being removed: its agent is not let in again.")
    if not is_accepted(row.doc):
        raise errors.Conflict(f"{name} is not accepted, so its agent has nothing to come back to: accept it first.")
    if any(each.scope == Decline.Scope.NAME for each in key_history.declines_of(name)):
        raise errors.Conflict(f"Everybody who asks for {name} was declined: lift that first.")
    if queries.is_withheld(name):
        raise errors.Conflict(f"Renewal is withheld from {name}: give its role the renew rule back first.")
    line = key_lines.open_line(name)
    if line is None:
        raise errors.Conflict(
            f"{name} has no line of keys to continue: none was accepted, or all were revoked. It joins with a "
            f"bootstrap token ({PROGRAM} bootstrap_token create --cluster {name}), and a person accepts its key."
        )
    return line


def mint_manifest(actor: Actor, name: str, *, ttl: timedelta = LIFETIME) -> RepairManifest:
    """Mint a repair token for the agent of a cluster and return what is applied there, this once.

    Raises Forbidden unless the actor may accept the cluster, NotFound, Conflict where there is nothing to continue,
    Invalid for a lifetime of more than a day.
    """
    services.require_accept(actor, name)
    line = line_to_repair(name)
    try:
        rotation, authorities = repair_tokens.present_rotation()
    except OSError as error:
        raise errors.Conflict(f"The CAs of the hub cannot be read ({error.strerror or error}).") from error
    terms = Terms(
        ttl, f"repair of {name}"[: bootstrap_terms.LONGEST_NAME], name, 1, key_line=line.pk, rotation=rotation
    )
    secret = tokens.issue_token(
        actor,
        terms,
        require=partial(services.require_accept, name=name),
        confirm=partial(_agreed, name, line, ttl),
    )
    token = BootstrapToken.objects.get(pk=secret.partition(".")[0])
    reach = Reach(join_guide.addresses()[0], authority=authorities.decode())
    return RepairManifest(token, _headed(token, join_guide.bootstrap_secret(secret, reach)))


def standing(name: str) -> list[BootstrapToken]:
    """Repair tokens of the cluster with which its agent may still come back, those that end first."""
    found = BootstrapToken.objects.usable(clock.now()).filter(cluster=name, key_line__isnull=False, brought=None)
    return list(found.order_by("expires", "pk"))


def token_of_manifest(text: str) -> BootstrapToken | None:
    """The token that a manifest of this module holds, None for anything else. It may have ended since."""
    try:
        doc, _ = documents.read_yaml(text.encode())
        kubeconfig, _ = documents.read_yaml(base64.b64decode(doc["data"]["kubeconfig"], validate=True))
        parts = token_formats.split_bootstrap_token(kubeconfig["users"][0]["user"]["token"])
    except (errors.ApiError, LookupError, TypeError, ValueError):
        return None
    token = BootstrapToken.objects.filter(pk=parts[0], key_line__isnull=False).first() if parts else None
    return token if token is not None and parts and token_formats.secret_matches(parts[1], token.hash) else None


def _agreed(name: str, line: KeyLine, ttl: timedelta, actor: Actor) -> list[Model]:
    """Between the look and the token nothing has ended that the token would outlive; it may take a second person."""
    if line_to_repair(name) != line:
        raise errors.Conflict(f"The keys of {name} have just changed: try again.")
    asked = {"lives": exactly(ttl)}
    return gate.passed(gate.WantedAct(actor, ActName.REPAIR, name, asked, _evidence(line)))


def evidence_of(found: ProposedAct) -> Doc | None:
    """What a manifest for the cluster would continue now; None where there is nothing to continue."""
    try:
        return _evidence(line_to_repair(found.subject))
    except errors.ApiError:
        return None


def _evidence(line: KeyLine) -> Doc:
    now = clock.now()
    return {
        "Line of keys": {"number": line.pk, "begun": line.begun_at.isoformat()},
        "Its keys": [
            {"key": key.fingerprint, "by": key.accepted_by, "at": key.accepted_at.isoformat(), "how": key.how}
            for key in line.keys.order_by("accepted_at", "pk")
        ],
        "Certificates that are valid": [
            {"certificate": row.pk, "of": row.common_name, "until": row.not_after.isoformat()}
            for row in key_lines.certificates_of(line.cluster, now)
        ],
        "Manifests that still work": [
            {"token": token.pk, "by": token.created_by, "until": token.expires.isoformat()}
            for token in standing(line.cluster)
        ],
    }


def _headed(token: BootstrapToken, text: str) -> str:
    ends = f"{token.expires:%Y-%m-%d %H:%M} UTC"
    return (
        f"# Brings the agent of the cluster {token.cluster} back. Works once, until {ends}, and holds a secret.\n"
        f"# On the managed cluster: kubectl apply -f {FILE_NAME.format(token.cluster)}\n{text}"
    )
