"""Rules of repair tokens (D29): what is created with one, and what ends it.

A token is spent by creating a request, which it does once: asked early, so that the agent reads why not, and again
under the counter's lock, where of two requests at once the second finds it spent. What it vouches for is
``keys.repair_tokens``'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from clusters.kinds import MANAGED_CLUSTER, is_accepted, is_deleting
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.kubeapi import admission
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.verbs import attributes
from registration.keys import repair_tokens
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

SENT_AWAY = "The cluster is not accepted any more."


@admission.validator(MANAGED_CLUSTER)
def repair_token_registers_no_cluster(actor: Actor, old: Doc | None, new: Doc) -> None:
    """D29: a repair token creates no cluster: it is for one that is accepted. Raises Forbidden."""
    token = bootstrap_terms.token_of(actor) if old is None else None
    if token is not None and token.is_repair:
        _refuse(actor, MANAGED_CLUSTER, new, f"the repair token {token.pk} is for a cluster that is there already")


@admission.validator(CSR)
def repair_token_continues_its_line(actor: Actor, old: Doc | None, new: Doc) -> None:
    """D29: a repair token creates one CSR, of the agent of its cluster, while its line of keys is open.

    And while the CAs of the hub are those of its manifest. Raises Forbidden.
    """
    if old is None:
        _require_continuing(actor, new)


@admission.records(CSR)
def repair_token_is_asked_again(actor: Actor, old: Doc | None, new: Doc | None) -> Iterable[Model]:
    """D29: as ``repair_token_continues_its_line``, while nobody else writes."""
    if old is None and new is not None:
        _require_continuing(actor, new)
    return ()


def _require_continuing(actor: Actor, doc: Doc) -> None:
    token = bootstrap_terms.token_of(actor)
    if token is None or not token.is_repair:
        return
    if (doc["metadata"].get("labels") or {}).get(agent_names.ADDON_LABEL):
        _refuse(actor, CSR, doc, f"the repair token {token.pk} is for the certificate of the agent itself")
    if why := repair_tokens.refusal(token, doc):
        _refuse(actor, CSR, doc, why)


def _refuse(actor: Actor, kind: Kind, doc: Doc, why: str) -> NoReturn:
    raise authorization.forbidden_error(actor, attributes(kind, "create", Key("", doc["metadata"]["name"])), why)


@admission.records(MANAGED_CLUSTER)
def repair_tokens_end_with_acceptance(actor: Actor, old: Doc | None, new: Doc | None) -> Iterable[Model]:
    """D29: un-accepting or deleting a cluster ends its repair tokens, also if it is accepted again."""
    if old is None or not is_accepted(old) or is_deleting(old):
        return ()
    if new is not None and is_accepted(new) and not is_deleting(new):
        return ()
    return tokens.ended_repairs(actor, old["metadata"]["name"], SENT_AWAY)
