"""clusteradm's commands as requests: verbs, paths, headers, bodies and order are those that were recorded of the program.

Called by the tests of this folder with the documents' own command lines. It prints what the program prints; trees of sets
in the shorter form of the documents, whose program was older, and sorted, where the program's own order is random (C30).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx

from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi.formats.protobuf import Message
from tests.hub import Hub
from tests.unit.kubeapi.protobuf_encoder import encode

Doc = dict[str, Any]

GROUP = "/apis/cluster.open-cluster-management.io"
CLUSTERS = f"{GROUP}/v1/managedclusters"
SETS = f"{GROUP}/v1beta2/managedclustersets"
BINDINGS = f"{GROUP}/v1beta2/managedclustersetbindings"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
TOKENS = "/api/v1/namespaces/open-cluster-management/serviceaccounts/agent-registration-bootstrap/token"
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
CLUSTER_LABEL = "open-cluster-management.io/cluster-name"
USER_AGENT = "clusteradm/v0.0.0 (linux/amd64) kubernetes/$Format"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_ANSWER = {"Accept": "application/json, */*"}
TYPED_ANSWER = {"Accept": f"{PROTOBUF},application/json"}
REQUESTERS = ("system:bootstrap:", "system:serviceaccount:open-cluster-management:agent-registration-bootstrap")
REQUESTING_GROUPS = {"system:bootstrappers:managedcluster", "system:serviceaccounts:open-cluster-management"}


class Stopped(RuntimeError):
    """It ends with exit code 1 and this text on standard error."""


class Clusteradm:
    """The program with one person's kubeconfig; ``user`` is assumed by the first admin, with that user's rights only."""

    def __init__(self, hub: Hub, user: str = "") -> None:
        headers = {"User-Agent": USER_AGENT} | ({"Impersonate-User": user} if user else {})
        self.hub = hub
        self.client = hub.client(pair=hub.admin_pair(), **headers)

    def close(self) -> None:
        self.client.close()

    def __call__(self, line: str) -> str:
        """What `clusteradm <line>` prints."""
        words = shlex.split(line)
        named = next((at for at, word in enumerate(words) if word.startswith("--")), len(words))
        flags = dict(zip(words[named::2], words[named + 1 :: 2], strict=True))
        if words[0] == "join":
            return "\n".join(self._join(flags["--hub-token"], flags["--hub-apiserver"], flags["--cluster-name"]))
        self._must_be_a_hub(self.client)
        return "\n".join(self._run(words[:named], flags))

    def _run(self, words: list[str], flags: dict[str, str]) -> Iterator[str]:
        match words:
            case ["get", "token"]:
                yield from self._get_token()
            case ["accept"]:
                yield from self._accept(flags["--clusters"].split(","))
            case ["create", "clusterset", name]:
                yield from self._create_set(name)
            case ["get", "clustersets"]:
                yield from self._get_sets()
            case ["clusterset", "set", name]:
                yield from self._set(name, flags["--clusters"].split(","))
            case ["clusterset", "bind", name]:
                yield from self._bind(name, flags["--namespace"])
            case ["clusterset", "unbind", name]:
                yield from self._unbind(name, flags["--namespace"])
            case _:
                raise Stopped(f'Error: unknown command "{words[0]}" for "clusteradm"')

    # -------------------------------------------------------------------------------------------- clusters (C2 to C10)

    def _get_token(self) -> Iterator[str]:
        asked = {"spec": {"audiences": None, "expirationSeconds": 3600}, "status": {}}
        body = encode(asked, protobuf_fields.TOKEN_REQUEST, "authentication.k8s.io/v1", "TokenRequest")
        token = self._send("POST", TOKENS, body)["status"]["token"]
        yield f"token={token}"
        yield "please log on spoke and run:"
        yield f"clusteradm join --hub-token {token} --hub-apiserver {self.hub.api_url} --cluster-name <cluster_name>"

    def _join(self, token: str, server: str, name: str) -> Iterator[str]:
        """What it asks of the hub before it installs an agent (C4, W26)."""
        authorization = {"Authorization": f"Bearer {token}", "User-Agent": USER_AGENT}
        with httpx.Client(
            base_url=server, verify=self.hub.tls(), headers=authorization, trust_env=False, timeout=60
        ) as client:
            info = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
            assert "certificate-authority-data" in _doc(client.get(info, headers=TYPED_ANSWER))["data"]["kubeconfig"]
            _doc(client.get("/version", headers=JSON_ANSWER))
            self._must_be_a_hub(client)
        yield "Please log onto the hub cluster and run the following command:"
        yield ""
        yield f"    clusteradm accept --clusters {name}"
        yield ""
        yield "This is not needed when the ManagedClusterAutoApproval feature is enabled"

    def _accept(self, names: list[str]) -> Iterator[str]:
        for name in names:
            self._get(f"{CLUSTERS}/{name}")
            found = self._eligible(name)
            yield from self._approve(name, found)
            accepts = self._get(f"{CLUSTERS}/{name}")["spec"]["hubAcceptsClient"]
            if accepts:
                yield f"hubAcceptsClient already set for managed cluster {name}"
            else:
                self._patch(f"{CLUSTERS}/{name}", {"spec": {"hubAcceptsClient": True}})
                yield f"set hubAcceptsClient to true for managed cluster {name}"
            yield f"\n Your managed cluster {name} has joined the Hub successfully."
            if not found:
                raise Stopped(f"Error: no csr is approved yet for cluster {name}")

    def _eligible(self, name: str) -> list[Doc]:
        selector = {"labelSelector": f"{CLUSTER_LABEL} = {name}"}
        found = _doc(self.client.get(REQUESTS, params=selector, headers=TYPED_ANSWER))["items"]
        return [request for request in found if _is_of_a_bootstrap(request["spec"])]

    def _approve(self, name: str, requests: list[Doc]) -> Iterator[str]:
        if any(not _decisions(request) for request in requests):
            yield f"Starting approve csrs for the cluster {name}"
        for request in requests:
            yield from self._approve_one(request)

    def _approve_one(self, request: Doc) -> Iterator[str]:
        name = request["metadata"]["name"]
        if _decisions(request):
            yield f"CSR {name} already {_decisions(request)[0].lower()}"
            return
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "clusteradm Approve",
            "message": "This CSR was approved by clusteradm certificate approve.",
            "lastUpdateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        wanted = request | {"status": {**(request.get("status") or {}), "conditions": [approved]}}
        self._send("PUT", f"{REQUESTS}/{name}/approval", _typed(wanted, protobuf_fields.CERTIFICATE_SIGNING_REQUEST))
        yield f"CSR {name} approved"

    # ------------------------------------------------------------------------------------------- sets (C12, C20 to C24)

    def _create_set(self, name: str) -> Iterator[str]:
        if self.client.get(f"{SETS}/{name}", headers=JSON_ANSWER).is_success:
            yield f"Clusterset {name} is already created"
            return
        wanted = {"metadata": {"name": name}, "spec": {"clusterSelector": {}}, "status": {"conditions": None}}
        self._post(SETS, _named("ManagedClusterSet") | wanted)
        yield f"Clusterset {name} is created"

    def _get_sets(self) -> Iterator[str]:
        sets = sorted(self._get(SETS)["items"], key=lambda each: str(each["metadata"]["name"]))
        bindings = self._get(BINDINGS)["items"]
        yield "<ManagedClusterSet>"
        for each in sets:
            name = each["metadata"]["name"]
            _doc(self.client.get(CLUSTERS, params=_selection(each), headers=JSON_ANSWER))
            bound = [one["metadata"]["namespace"] for one in bindings if one["spec"]["clusterSet"] == name]
            conditions = (each.get("status") or {}).get("conditions") or []
            status = "".join(one["message"] for one in conditions if one["type"] == "ClusterSetEmpty")
            branch = "    └── " if each is sets[-1] else "│   ├── "
            yield f"└── <{name}>"
            yield f"{branch}<BoundNamespace> {','.join(bound)}".rstrip()
            yield f"{branch}<Status> {status}".rstrip()

    def _set(self, name: str, clusters: list[str]) -> Iterator[str]:
        self._get(f"{SETS}/{name}")
        for cluster in clusters:
            doc = self._get(f"{CLUSTERS}/{cluster}")
            old = doc["metadata"].get("labels", {}).get(SET_LABEL, "")
            if old == name:
                yield f"Cluster {cluster} is already in Clusterset {name}"
                continue
            doc["metadata"].setdefault("labels", {})[SET_LABEL] = name
            _doc(self.client.put(f"{CLUSTERS}/{cluster}", json=doc, headers=JSON_ANSWER))
            yield f"Cluster {cluster} is set, from ClusterSet {old} to Clusterset {name}"

    def _bind(self, name: str, namespace: str) -> Iterator[str]:
        self._get(f"{SETS}/{name}")
        metadata = {"name": name, "namespace": namespace}
        wanted = {"metadata": metadata, "spec": {"clusterSet": name}, "status": {"conditions": None}}
        self._post(_bindings_in(namespace), _named("ManagedClusterSetBinding") | wanted)
        yield f"Clusterset {name} is bound to Namespace {namespace}"

    def _unbind(self, name: str, namespace: str) -> Iterator[str]:
        self._get(f"{SETS}/{name}")
        options = _named("DeleteOptions")
        path = f"{_bindings_in(namespace)}/{name}"
        _doc(self.client.request("DELETE", path, json=options, headers=JSON_ANSWER))
        yield f"Clusterset {name} is unbind from namespace {namespace}"

    # --------------------------------------------------------------------------------------------------------- requests

    def _must_be_a_hub(self, client: httpx.Client) -> None:
        """The first request of every command (C1, W7)."""
        served = _doc(client.get(f"{GROUP}/v1", headers=JSON_ANSWER))["resources"]
        if not any(each["name"] == "managedclusters" for each in served):
            raise Stopped("Error: hub oriented command should not running against non-hub cluster")

    def _get(self, path: str) -> Doc:
        return _doc(self.client.get(path, headers=JSON_ANSWER))

    def _post(self, path: str, doc: Doc) -> Doc:
        return _doc(self.client.post(path, json=doc, headers=JSON_ANSWER))

    def _patch(self, path: str, change: Doc) -> Doc:
        headers = JSON_ANSWER | {"Content-Type": "application/merge-patch+json"}
        return _doc(self.client.patch(path, json=change, headers=headers))

    def _send(self, method: str, path: str, body: bytes) -> Doc:
        """Kinds of Kubernetes itself travel as protobuf (W1)."""
        return _doc(self.client.request(method, path, content=body, headers=TYPED_ANSWER | {"Content-Type": PROTOBUF}))


def _doc(answer: httpx.Response) -> Doc:
    doc: Doc = answer.json()
    if answer.is_error:
        raise Stopped(f"Error: {doc['message']}")
    return doc


def _named(kind: str) -> Doc:
    return {"kind": kind, "apiVersion": "cluster.open-cluster-management.io/v1beta2"}


def _bindings_in(namespace: str) -> str:
    return f"{GROUP}/v1beta2/namespaces/{namespace}/managedclustersetbindings"


def _selection(cluster_set: Doc) -> dict[str, str]:
    """Query for the members of a set; none selects all."""
    selector = cluster_set["spec"]["clusterSelector"]
    if selector["selectorType"] != "LabelSelector":
        return {"labelSelector": f"{SET_LABEL}={cluster_set['metadata']['name']}"}
    labels = selector["labelSelector"].get("matchLabels", {})
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())} if labels else {}


def _is_of_a_bootstrap(spec: Doc) -> bool:
    """C6."""
    return spec["username"].startswith(REQUESTERS) and not REQUESTING_GROUPS.isdisjoint(spec["groups"])


def _decisions(request: Doc) -> list[str]:
    return [each["type"] for each in (request.get("status") or {}).get("conditions") or []]


def _typed(doc: Doc, message: Message) -> bytes:
    return encode(doc, message, "certificates.k8s.io/v1", "CertificateSigningRequest")
