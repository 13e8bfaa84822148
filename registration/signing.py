"""What the hub's signer signs, for how long, and what the log says while it cannot.

Called by the reconciler that signs, and by the page that shows beforehand what it would sign.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth import get_user_model

from ocmconsole.kubeapi.storage import database_clock, plain_sql
from registration.admission.request_admission import cluster_of
from registration.keys import key_lines
from registration.kinds import request_pem
from registration.pki import agent_names, ca

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

log = logging.getLogger(__name__)

WHILE_UNABLE = timedelta(seconds=5)  # between two tries


def flaw_of(doc: Doc) -> str:
    """Why the hub's signer refuses, or ""."""
    usages = set(doc["spec"].get("usages") or [])
    if "client auth" not in usages or not usages <= agent_names.AGENT_USAGES:
        return f"invalid usage for client certificate: {', '.join(sorted(usages))}"
    request = ca.parse_request(request_pem(doc))
    if request.size_flaw:  # from before such sizes were refused
        return request.size_flaw
    if not request.signature_valid:
        return "the request is not signed by the key it carries"
    if plain_sql.is_there(get_user_model(), username=request.common_name):
        return f"the common name {request.common_name} is a person's user name on this hub"
    if (line := key_lines.ended_among(key_lines.of_request(doc))) is not None:
        return f"the keys of the cluster {line.cluster} that it belongs to were revoked: {line.end_reason}"
    return ""


def lifetime(doc: Doc) -> timedelta:
    """For how long the hub's own signer would sign.

    G25: an agent looks at its certificate every five minutes and renews in the last fifth of its life, so one that
    lasts less than half an hour may end before it is renewed.
    """
    longest: timedelta = settings.OCMCONSOLE_CERT_LIFETIME
    asked = doc["spec"].get("expirationSeconds")
    wanted = min(timedelta(seconds=asked), longest) if asked else longest
    return max(wanted, settings.OCMCONSOLE_CERT_SHORTEST_LIFETIME) if cluster_of(doc) else wanted


def chain_for(doc: Doc) -> bytes:
    """PEM of the certificate and what is above it. Raises ValueError, AuthorityError.

    W24: it begins before the present also where the clock of this process is ahead of the others'.
    """
    return ca.client_authority(settings.OCMCONSOLE_HOME).sign_client(
        request_pem(doc), usages=doc["spec"]["usages"], lifetime=lifetime(doc), now=database_clock.earliest()
    )


class _Inability:
    """Why this process signs nothing for now, as the log has it: once, not for each request."""

    def __init__(self) -> None:
        self._said = ""

    def note(self, problem: str) -> None:
        if problem and problem != self._said:
            log.warning("certificate requests wait: %s", problem)
        elif self._said and not problem:
            log.warning("certificate requests are signed again")
        self._said = problem


waiting = _Inability()
