"""A certificate from the hub: key, CertificateSigningRequest, waiting for approval and signature (G20 to G24).

The key of a request is in memory until its certificate has come; a restart asks with another. Called by ``bootstrap``
with the bootstrap identity and by ``rotation`` with the agent's own.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from ..client.api import Api, Doc, HubError
from ..client.informer import Informer
from ..equipment import Equipment
from ..keys import AgentSubject, KeyAndRequest, KeyToolError, belongs

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
USAGES = ["digital signature", "key encipherment", "client auth"]
CLUSTER_LABEL = "open-cluster-management.io/cluster-name"
ADDON_LABEL = "open-cluster-management.io/addon-name"
MOST_REQUESTS = 10  # of a cluster on the hub; with as many, upstream's agent creates no more either (G22)
RECHECK = 300.0  # seconds between looks at the hub without an event, as upstream's resync
TOO_MANY = "Stop creating csr since there are too many csr created already on hub"


@dataclass(frozen=True, slots=True)
class Issued:
    """PEM of a chain and of the key of its first certificate."""

    certificate: str
    key: str


@dataclass(slots=True)
class _Pending:
    name: str
    pair: KeyAndRequest
    was_seen: bool = False
    said: str = ""


class CertificateRequests:
    """Asks until a certificate has come. ``failed`` is called with the words of each new failure, for a condition."""

    def __init__(
        self,
        api: Api,
        requests: Informer,
        changed: asyncio.Event,
        equipment: Equipment,
        *,
        cluster: str,
        subject: AgentSubject,
        expiration_seconds: int = 0,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        self._api, self._requests, self._changed = api, requests, changed
        self._tool, self._log = equipment.tool, equipment.log
        self._cluster, self._subject, self._expiration = cluster, subject, expiration_seconds
        self._failed = failed
        self._attempts = equipment.attempts("certificate not requested")
        self._pending: _Pending | None = None
        self._is_full = False

    async def obtain(self) -> Issued:
        """G20 to G24: returns when the hub has signed. Denied requests are waited for, deleted ones asked again."""
        await self._requests.synced.wait()
        while True:
            self._changed.clear()
            if self._pending is None:
                await self._ask()
            issued = self._look()
            if issued is not None:
                return issued
            try:
                async with asyncio.timeout(RECHECK if self._pending or self._is_full else 0):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _ask(self) -> None:
        present = [doc for doc in self._requests.objects.values() if ADDON_LABEL not in doc["metadata"]["labels"]]
        was_full, self._is_full = self._is_full, len(present) >= MOST_REQUESTS
        if self._is_full:
            if not was_full:
                self._log.error("%d certificate requests of this cluster are on the hub: asking no more", len(present))
                self._report(TOO_MANY)
            return
        try:
            pair = await self._tool.make_request(self._subject)
            made = await self._api.create(PATH, self._document(pair))
        except KeyToolError as error:
            await self._trouble(HubError(str(error)))
        except HubError as error:
            await self._trouble(error)
        else:
            self._attempts.worked()
            self._pending = _Pending(made["metadata"]["name"], pair)
            self._log.info("certificate requested: %s waits for approval", self._pending.name)

    async def _trouble(self, error: HubError) -> None:
        self._report(f"Failed to create CSR {error}")
        await self._attempts.wait_after(error)

    def _report(self, words: str) -> None:
        if self._failed is not None:
            self._failed(words)

    def _document(self, pair: KeyAndRequest) -> Doc:
        """G20."""
        spec: Doc = {
            "request": base64.b64encode(pair.request.encode()).decode(),
            "signerName": SIGNER,
            "usages": USAGES,
        }
        if self._expiration:
            spec["expirationSeconds"] = self._expiration
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": f"{self._cluster}-", "labels": {CLUSTER_LABEL: self._cluster}},
            "spec": spec,
        }

    def _look(self) -> Issued | None:
        """G23: what became of the request that was made last."""
        pending = self._pending
        if pending is None:
            return None
        doc = self._requests.objects.get(pending.name)
        if doc is None:
            if pending.was_seen:
                self._log.warning("certificate request %s was deleted on the hub: asking with a new key", pending.name)
                self._pending = None
            return None
        pending.was_seen = True
        status = doc.get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or () if each.get("status") == "True"}
        if denied := conditions.get("Denied"):
            self._say(pending, "denied", denied)
        elif status.get("certificate"):
            return self._issued(pending, status["certificate"])
        elif failed := conditions.get("Failed"):
            self._say(pending, "not signed", failed)
        return None

    def _say(self, pending: _Pending, what: str, condition: Doc) -> None:
        words = f"{condition.get('reason') or ''} {condition.get('message') or ''}".strip()
        if words != pending.said:
            self._log.error("certificate request %s was %s: %s; waiting until it is deleted", pending.name, what, words)
        pending.said = words

    def _issued(self, pending: _Pending, encoded: str) -> Issued | None:
        self._pending = None
        try:
            chain = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            chain = ""
        if not chain or not belongs(pending.pair.key, chain):
            self._log.error("certificate of request %s is not for its key: asking with a new one", pending.name)
            return None
        self._log.info("certificate request %s was approved and signed", pending.name)
        return Issued(chain, pending.pair.key)
