"""Repair tokens (D29): bootstrap tokens with which the agent of an accepted cluster comes back under a new key.

Invariant: such a token is worth something for one cluster name, one line of keys and one state of the hub's CAs, and
for one certificate request. The request extends that line as a renewal by the identity's own certificate would; nobody
vouches for its key again. A token is bound to the line by the line's id, which a re-created cluster keeps (D19), so it
ends too when the cluster is un-accepted or removed: in the same transaction, by ``admission.repair_rules``.

Reads alone. Called by ``key_lines``, rules, the reconciler of requests.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.kinds import MANAGED_CLUSTER, is_accepted, is_deleting
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import plain_sql, reader
from registration.keys import key_history
from registration.models import KeyLine
from registration.pki import ca

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from registration.keys.key_history import Asker

CHANGED = "the CAs of the hub have changed since the repair token {} was minted: make a new manifest"


def present_rotation() -> tuple[str, bytes]:
    """Which CAs the hub has and which of them sign, in short, and those of serving as PEM, both of one moment.

    Each step of a rotation replaces one of the two files; no key is needed to see that. Raises OSError.
    """
    home = settings.OCMCONSOLE_HOME
    serving, clients = (path.read_bytes() for path in (home / "ca.crt", ca.client_file(home)))
    parts = (hashlib.sha256(pem).digest() for pem in (serving, clients))
    return hashlib.sha256(b"".join(parts)).hexdigest(), serving


# ---------------------------------------------------------------- what comes with a token


def refusal(token: BootstrapToken, doc: Doc) -> str:
    """Why a request that is created with the token does not continue its line, or "". Whose it is, is asked before."""
    row = reader.read_row(MANAGED_CLUSTER, Key("", token.cluster))
    if row is None or not is_accepted(row.doc) or is_deleting(row.doc):
        return f"the cluster of the repair token {token.pk} is not accepted"
    if not _is_open(token):
        return f"the line of keys that the repair token {token.pk} continued has ended"
    try:
        if token.rotation != present_rotation()[0]:
            return CHANGED.format(token.pk)
    except OSError:
        return f"the CAs of the hub cannot be read, so the repair token {token.pk} cannot be compared with them"
    if _is_closed(token.cluster, doc):
        return "the key of the request was revoked: the agent must make a new one"
    return ""


def continued_by(doc: Doc, cluster: str, asker: Asker | None = None) -> BootstrapToken | None:
    """The repair token with which a request was created, if it vouches for the request's key under this name now.

    Its time may be over meanwhile: what counts is when the request was created. ``asker`` is read if it is not given.
    For a request that came without a repair token the database is asked nothing.
    """
    if tokens.REPAIRING not in (doc["spec"].get("groups") or ()) or key_history.names_of(doc) != (cluster,):
        return None
    asker = asker or key_history.asker_of_request(doc)
    if not asker.credential.startswith(bootstrap_terms.PREFIX):
        return None
    token = plain_sql.row_by(BootstrapToken.objects, id=asker.credential.removeprefix(bootstrap_terms.PREFIX))
    if token is None or not token.is_repair or token.cluster != cluster or token.revoked_at is not None:
        return None
    if asker.at is None or asker.at < token.created:  # with a Secret of the same id, which anybody may choose
        return None
    return token if _is_open(token) and not _is_closed(cluster, doc) else None


def _is_open(token: BootstrapToken) -> bool:
    open_lines = KeyLine.objects.filter(cluster=token.cluster, ended_at=None)
    return any(line.pk == token.key_line for line in open_lines)  # one at most


def _is_closed(cluster: str, doc: Doc) -> bool:
    """Somebody else may have the key of a certificate that was revoked."""
    return key_history.requested(doc).key_fingerprint in key_history.closed_keys([cluster]).get(cluster, ())
