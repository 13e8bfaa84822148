"""Client certificates as pages show them: of one cluster, of all, of the authority; revoke, disconnect, reconnect.

In: requests. Out: HTML; acts go through ``registration.approvals``. Certificates are signed in ``registration.pki``.
Called by ``registration.urls``.
"""
