"""Kubeconfigs: of a user with a fresh certificate, of an agent that is to join, without a credential.

Callers: commands, the wizard, and the hub's first start. Only ``of_user`` writes: a certificate and its audit entry.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import yaml
from django.conf import settings

from ocmconsole.accounts import permissions, superusers
from ocmconsole.environment.durations import in_words
from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.storage import database_clock
from registration.models import IssuedCertificate
from registration.pki import ca

if TYPE_CHECKING:
    from pathlib import Path

    from ocmconsole.kubeapi.access.actor import Actor


def kubeconfig(
    server: str,
    *,
    user: str,
    credential: Mapping[str, str],
    cluster: str = "hub",
    authority: bytes = b"",
    proxy: str = "",
) -> str:
    """A kubeconfig with one cluster, user and context. ``credential`` is the user entry's content.

    ``authority`` is PEM that stands for the hub's own CA, ``proxy`` a URL by which the hub is reached.
    """
    trusted = base64.b64encode(authority or (settings.OCMCONSOLE_HOME / "ca.crt").read_bytes()).decode()
    reached = {"server": server, "certificate-authority-data": trusted} | ({"proxy-url": proxy} if proxy else {})
    doc = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": reached}],
        "users": [{"name": user, "user": dict(credential)}] if credential else [],
        "contexts": [{"name": user or cluster, "context": {"cluster": cluster, "user": user}}] if credential else [],
        "current-context": (user or cluster) if credential else "",
    }
    return yaml.safe_dump(doc, sort_keys=False)


def of_user(actor: Actor, user: str, *, groups: tuple[str, ...], lifetime: timedelta) -> str:
    """A kubeconfig with a fresh client certificate of the hub's own CA. The caller has asked for permission."""
    authority = ca.client_authority(settings.OCMCONSOLE_HOME)
    certificate, key = authority.issue_client(user, groups, lifetime, database_clock.earliest())
    issued = IssuedCertificate.of(ca.parse_certificate(certificate))
    issued.authority = authority.key_fingerprint
    recorded = {"groups": list(groups), "fingerprint": issued.pk, "expires": issued.not_after.isoformat()}
    diff = [{"path": path, "new": value} for path, value in recorded.items()]
    with verbs.while_permitted(None):
        for row in superusers.agreed_certificate(actor, user, groups, in_words(lifetime)):
            row.save()
        issued.save()
        permissions.audit_entry(
            actor, "certificate:issue", permissions.AuditTarget("", "users", user, ""), diff=diff
        ).save()
    credential = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    return kubeconfig(settings.OCMCONSOLE_API_URL, user=user, credential=credential)


def of_agent(token: str, server: str = "", *, authority: bytes = b"", proxy: str = "") -> str:
    """What an agent's secret ``bootstrap-hub-kubeconfig`` holds (G4); ``server`` is where it reaches the hub."""
    return kubeconfig(
        server or settings.OCMCONSOLE_API_URL,
        user="bootstrap",
        credential={"token": token},
        authority=authority,
        proxy=proxy,
    )


def is_usable(text: str, home: Path) -> bool:
    """Whether a kubeconfig names this hub and its CA, and its certificate is honoured now and for another month.

    One that begins in the future was made while the clock was ahead; one of a CA that does not sign any more ends with
    its rotation.
    """
    try:
        doc = yaml.safe_load(text)
        cluster = doc["clusters"][0]["cluster"]
        pem = base64.b64decode(doc["users"][0]["user"]["client-certificate-data"])
        certificate, is_present = ca.parse_certificate(pem), ca.client_authority(home).has_signed(pem)
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        return False
    now = clock.now()
    return (
        is_present
        and cluster["server"] == settings.OCMCONSOLE_API_URL
        and base64.b64decode(cluster["certificate-authority-data"]) == (home / "ca.crt").read_bytes()
        and certificate.not_before <= now
        and certificate.not_after > now + timedelta(days=30)
        and IssuedCertificate.objects.filter(pk=certificate.fingerprint, revoked_at=None).exists()
    )
