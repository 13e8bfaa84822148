"""What is looked at after a fault. Each returns what is wrong, or nothing."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from cryptography import x509

from tests.faults.site import Site
from tests.proxy import clients
from tests.proxy.clients import Crowd

COMMANDS = (("check_wire",), ("audit", "verify"))
UNKNOWN = "SELECT name FROM clusters_managedcluster WHERE name LIKE 'sim-%' AND available <> 'True'"
SILENCES = "SELECT cluster FROM clusters_silence WHERE cluster LIKE 'sim-%' AND at > '{}'"


def lost(site: Site, work: Crowd) -> list[str]:
    """Acknowledged writes that are not there, and what a watch was told otherwise."""
    with site.client() as admin:
        found = work.lost(admin)
        items = admin.get(clients.MAPS).json()["items"]
    stored = {each["metadata"]["name"]: each["data"]["by"] for each in items if "by" in (each.get("data") or {})}
    for watcher in work.watchers:
        seen = {name: by for name, by in watcher.seen.items() if by}
        found += [f"{watcher.name}: {name}" for name, _ in seen.items() ^ stored.items()]
    return found + work.failures


def wrong(site: Site, since: datetime) -> list[str]:
    found = [*_verdicts(site, since), *_revisions(site), *_certificates(site)]
    with ThreadPoolExecutor(len(COMMANDS)) as pool:
        for command, said in zip(COMMANDS, pool.map(lambda each: _said(site, *each), COMMANDS), strict=True):
            if said:
                found.append(f"{' '.join(command)}: {said}")
    return found


def _said(site: Site, *command: str) -> str:
    try:
        site.hub.manage(*command)
    except AssertionError as error:
        return str(error).strip().splitlines()[-1]
    return ""


def _verdicts(site: Site, since: datetime) -> list[str]:
    """Every agent was at work, and cut off for less than its grace period, so none may be called silent."""
    with site.hub.reading() as ask:
        return [f"{name} is Unknown" for (name,) in ask(UNKNOWN)] + [
            f"{name} was called silent" for (name,) in ask(SILENCES.format(since.isoformat()))
        ]


def _revisions(site: Site) -> list[str]:
    with site.hub.reading() as ask:
        ((counter,),) = ask("SELECT value FROM kubeapi_revision")
        ((newest,),) = ask("SELECT max(revision) FROM kubeapi_change")
        rows = ask("SELECT revision FROM kubeapi_change WHERE resource LIKE 'configmaps%' ORDER BY revision")
    numbers = [number for (number,) in rows]
    found = [] if counter == newest else [f"the counter is at {counter}, the log at {newest}"]
    return found + ([] if len({*numbers}) == len(numbers) else ["a revision was given twice"])


def _certificates(site: Site) -> list[str]:
    """Each certificate is for the key and the name that its request asked for, and registered."""
    with site.hub.reading() as ask:
        rows = ask("SELECT name, wire FROM registration_certificatesigningrequest")
        known = {fingerprint for (fingerprint,) in ask("SELECT fingerprint FROM registration_issuedcertificate")}
    found = []
    for name, wire in rows:
        doc = json.loads(wire)
        if not (text := (doc.get("status") or {}).get("certificate")):
            continue
        asked = x509.load_pem_x509_csr(base64.b64decode(doc["spec"]["request"]))
        given = x509.load_pem_x509_certificates(base64.b64decode(text))[0]
        if given.public_key() != asked.public_key() or given.subject != asked.subject:
            found.append(f"the certificate of {name} is not what was asked for")
        from registration.pki import ca

        if ca.parse_certificate(base64.b64decode(text)).fingerprint not in known:
            found.append(f"the certificate of {name} is not registered")
    return found
