"""The hub's certificate authorities, as the rest of the hub calls them: of clients and of serving.

One CA is both until somebody rotates one of them (``authority_files``). Callers: registration's validators and
reconcilers, commands that issue kubeconfigs, the serve command, pages.
"""

from __future__ import annotations

from registration.pki.authority_files import (
    AuthorityRole,
    Phase,
    RotationError,
    answering,
    authority_of,
    begun,
    client_authority,
    client_file,
    key_places,
    key_problems,
    phase_of,
    replace_stolen,
    retire,
    rotate,
    serving_authority,
    turn_back,
)
from registration.pki.external_keys import AuthorityError, KeyAwayError
from registration.pki.issuing import BACKDATED, CA_LIFETIME, Authority
from registration.pki.serving_certificate import (
    certificate_ends,
    check_name,
    ensure_authority,
    further_addresses,
    is_served,
)
from registration.pki.x509_reading import (
    Certificate,
    Request,
    Roots,
    described,
    is_of,
    parse_certificate,
    parse_request,
    trusted_client,
)

__all__ = [
    "BACKDATED",
    "CA_LIFETIME",
    "Authority",
    "AuthorityError",
    "AuthorityRole",
    "Certificate",
    "KeyAwayError",
    "Phase",
    "Request",
    "Roots",
    "RotationError",
    "answering",
    "authority_of",
    "begun",
    "certificate_ends",
    "check_name",
    "client_authority",
    "client_file",
    "described",
    "ensure_authority",
    "further_addresses",
    "is_of",
    "is_served",
    "key_places",
    "key_problems",
    "parse_certificate",
    "parse_request",
    "phase_of",
    "replace_stolen",
    "retire",
    "rotate",
    "serving_authority",
    "trusted_client",
    "turn_back",
]
