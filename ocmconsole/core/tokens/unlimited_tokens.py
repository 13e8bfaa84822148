"""Tokens with which any number of clusters may ask to join, as acts that can take two people.

Ways to get one: a bootstrap token for no one cluster and more than ``FEW``, a Secret that is a bootstrap token, and a
token of a ServiceAccount that may register clusters, asked for or in a Secret. What is proposed says what such a token
is worth and how long it lives, and holds no secret: the token is made when the act is done, and shown to who does it.
Called by ``tokens``, and by the record below.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ocmconsole.core import kinds
from ocmconsole.core.models import ServiceAccount, TokenPermission
from ocmconsole.core.tokens import token_formats
from ocmconsole.environment.durations import exactly
from ocmconsole.kubeapi import admission
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.second_approval import acts, gate
from ocmconsole.second_approval.acts import ActKind
from ocmconsole.second_approval.rules import ActName

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from django.db.models import Model

    from ocmconsole.core.tokens.bootstrap_terms import Terms
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.second_approval.models import ProposedAct

FEW = 20  # clusters that a token may bring by one person's word; as many at once are no longer Safe (``risk_checks``)
# Of a bootstrap token in a Secret, by the key of its data; no other key but the secret and the id does anything.
TERMS = {"expiration": "ends", "auth-extra-groups": "groups", "usage-bootstrap-authentication": "signs in"}
LONGEST_TERM = 1_000  # characters that are shown
REGISTERING = Attributes("create", "cluster.open-cluster-management.io", "managedclusters")


def agreed_terms(actor: Actor, terms: Terms) -> list[Model]:
    """Rows to save with a bootstrap token, where its terms take other people who agree. Raises Deferred."""
    if terms.cluster or terms.key_line is not None or (terms.max_uses is not None and terms.max_uses <= FEW):
        return []
    asked = {
        "token": "bootstrap token",
        "clusters": "any number" if terms.max_uses is None else str(terms.max_uses),
        "lives": exactly(terms.ttl),
        "from": list(terms.addresses),
        "set": terms.clusterset,
        "labels": dict(terms.labels),
    }
    return _agreed(actor, terms.name or "any cluster", asked)


def agreed_account_token(
    actor: Actor, account: ServiceAccount, lifetime: timedelta, audiences: Sequence[str]
) -> list[Model]:
    """As ``agreed_terms``, for a token of a ServiceAccount that may register clusters."""
    if acts.rule_of(ActName.TOKEN) is None or not _may_register(account):
        return []
    asked = {"token": "of a ServiceAccount", "lives": exactly(lifetime), "audiences": list(audiences)}
    return _agreed(actor, f"{account.namespace}/{account.name}", asked)


@admission.records(kinds.SECRET)
def unlimited_secrets_take_agreement(actor: Actor, old: Doc | None, new: Doc | None) -> list[Model]:
    """K4: a Secret that is, or gets, a token for any number of clusters may take other people. Raises Deferred."""
    if acts.rule_of(ActName.TOKEN) is None or new is None or (old is not None and old.get("data") == new.get("data")):
        return []
    metadata = new["metadata"]
    where = f"{metadata['namespace']}/{metadata['name']}"
    if new["type"] == token_formats.BOOTSTRAP_TYPE and metadata["namespace"] == token_formats.BOOTSTRAP_NAMESPACE:
        return _agreed(
            actor, where, {"token": "a Secret that is a bootstrap token", **_terms_of(new.get("data") or {})}
        )
    if new["type"] != token_formats.ACCOUNT_TYPE:
        return []
    name = (metadata.get("annotations") or {}).get(token_formats.ACCOUNT_NAME, "")
    account = ServiceAccount.objects.filter(namespace=metadata["namespace"], name=name).first()
    if account is None or not _may_register(account):
        return []
    return _agreed(actor, where, {"token": f"a Secret with a token of the ServiceAccount {name}"})


def _terms_of(data: Doc) -> dict[str, str]:
    """What a bootstrap token in a Secret is worth and for how long; its secret is no part of it."""
    return {name: _readable(data[key]) for key, name in TERMS.items() if key in data}


def _readable(value: str) -> str:
    """Short plain text as it is, all else by its digest."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except ValueError:
        text = ""
    return text if text.isprintable() and 0 < len(text) <= LONGEST_TERM else f"SHA-256 {gate.digest_of(value)}"


def _may_register(account: ServiceAccount) -> bool:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", AUTHENTICATED)
    user = f"system:serviceaccount:{account.namespace}:{account.name}"
    return authorization.authorize(Actor(user=user, groups=groups), REGISTERING).allowed


def _agreed(actor: Actor, subject: str, asked: dict[str, Any]) -> list[Model]:
    if actor.is_controller:  # the hub's own: a demonstration, its first start
        return []
    return gate.passed(gate.WantedAct(actor, ActName.TOKEN, subject, asked, {}))


def _may(actor: Actor, found: ProposedAct) -> bool:
    if found.arguments["token"] == "bootstrap token":  # noqa: S105 - what it is
        return authorization.permitted(actor, TokenPermission.ADD).allowed
    namespace, _, name = found.subject.partition("/")
    if found.arguments["token"] == "of a ServiceAccount":  # noqa: S105 - as above
        asked = Attributes("create", "", "serviceaccounts", "token", namespace=namespace, name=name)
    else:
        asked = Attributes("create", "", "secrets", namespace=namespace)
    return authorization.authorize(actor, asked).allowed


acts.register(
    ActKind(
        ActName.TOKEN,
        "Mint a token for any number of clusters: {subject}",
        may=_may,
        evidence=lambda _: {},
        again="Then one of you mints it, with the form, the command or the request, and is shown it once.",
    )
)
