"""Addresses of pages that any page may link to: why somebody may or may not, and what the audit says of an object."""

from __future__ import annotations

from urllib.parse import urlencode

EXPLAIN = "/access/explain/"
ACTIVITY = "/activity/"


def explain_url(verb: str, resource: str, *, name: str = "", namespace: str = "", user: str = "") -> str:
    """The page that says why; ``resource`` as RBAC spells it with its group, such as ``managedclusters/accept.…``."""
    asked = {"verb": verb, "resource": resource, "name": name, "namespace": namespace, "user": user}
    return EXPLAIN + query_of(asked)


def audit_url(resource: str, name: str = "", *, namespace: str = "") -> str:
    """What was done to an object, or to all of a resource; ``resource`` as the audit writes it."""
    asked = {"resource": resource, "name": name, "namespace": namespace}
    return ACTIVITY + query_of(asked)


def query_of(asked: dict[str, str]) -> str:
    """The query of an address, without what is empty."""
    return "?" + urlencode({key: value for key, value in asked.items() if value})
