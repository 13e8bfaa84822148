"""People of the tests and what they may do. Everything goes through verbs, as in a hub."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY as RECORDS
from django.contrib.auth.models import User
from django.test import Client

from ocmconsole.core import kinds
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, MASTERS, Actor
from ocmconsole.signin import lifetime

RBAC = "rbac.authorization.k8s.io"
ROOT = Actor(user="root", groups=(MASTERS, AUTHENTICATED))
_numbers = itertools.count(1)


def person(name: str, *groups: str) -> Actor:
    return Actor(user=name, groups=(*groups, AUTHENTICATED))


def rule(verbs: str, resources: str, *, groups: str = "", names: str = "") -> dict[str, Any]:
    """Words separated by blanks; ``groups`` is one API group."""
    made: dict[str, Any] = {"apiGroups": [groups], "resources": resources.split(), "verbs": verbs.split()}
    return made | ({"resourceNames": names.split()} if names else {})


def namespace(name: str) -> str:
    verbs.create(ROOT, kinds.NAMESPACE, {"metadata": {"name": name}})
    return name


def grant(to: Actor, *rules: dict[str, Any], namespace: str = "") -> str:
    """Bind a new role with these rules to the actor; its name is returned."""
    name = f"grant-{next(_numbers)}"
    role = kinds.ROLE if namespace else kinds.CLUSTER_ROLE
    binding = kinds.ROLE_BINDING if namespace else kinds.CLUSTER_ROLE_BINDING
    verbs.create(ROOT, role, {"metadata": {"name": name}, "rules": list(rules)}, namespace=namespace)
    bound = {
        "metadata": {"name": name},
        "roleRef": {"kind": role.kind, "name": name},
        "subjects": [{"kind": "User", "name": to.user}],
    }
    verbs.create(ROOT, binding, bound, namespace=namespace)
    return name


@contextmanager
def refused_at_worst() -> Iterator[None]:
    """Odd input may be taken or refused as the client's mistake; anything else fails the test."""
    try:
        yield
    except errors.ApiError as error:
        if error.code not in {400, 422}:
            raise


def signed_in(name: str, **more: Any) -> Client:
    """The browser of a person, who is made with ``more`` unless the account exists."""
    client = Client()
    client.force_login(User.objects.filter(username=name).first() or User.objects.create_user(name, **more))
    return client


def grow_old(client: Client) -> None:
    """Turn the browser's proofs of who is signed in (the sign-in, later ones) six minutes back: they are no proof now."""
    session, ago = client.session, 6 * 60
    session[lifetime.BEGAN] -= ago
    session[RECORDS] = [{**each, "at": each["at"] - ago} for each in session.get(RECORDS, [])]
    session.save()
