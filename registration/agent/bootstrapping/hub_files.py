"""What the agent keeps: the hub's kubeconfig, certificate, key and names, in a folder or a Secret, whole or not at all.

Five files, as upstream's Secret ``hub-kubeconfig-secret`` has them (G24). In: files to keep. Out: what is kept, and
whether a hub can be entered with it (G5). Called by ``agent``.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from ..client.api import Api, Refused
from ..client.clock import AgentClock
from ..client.kubeconfig import ApiEndpoint, KubeconfigError, parse_kubeconfig
from ..keys import ClientCertificate, KeyTool, KeyToolError, belongs, subject_of

KUBECONFIG, CERTIFICATE, KEY = "kubeconfig", "tls.crt", "tls.key"
CLUSTER_NAME, AGENT_NAME = "cluster-name", "agent-name"
NAMES = (KUBECONFIG, CERTIFICATE, KEY, CLUSTER_NAME, AGENT_NAME)
_DATA = "..data"

Files = Mapping[str, str]


class HubFiles(Protocol):
    """Where they are kept."""

    async def load(self) -> dict[str, str]:
        """Those that are there, by name. HubError or OSError when that cannot be found out."""

    async def save(self, files: Files) -> None:
        """Put these in the place of all that were there. HubError or OSError; then the former ones are there still."""


class FolderOfFiles:
    """Laid out as Kubernetes lays out a mounted Secret: each name leads to ``..data``, and that to one version.

    A version is written and synced beside the former, then ``..data`` is replaced in one step: whatever is killed,
    there is the former version or the new one, never a certificate with another's key.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def load(self) -> dict[str, str]:
        try:
            # One step: the version that it leads to now.
            version = self._folder / (self._folder / _DATA).readlink()
        except OSError:
            version = self._folder  # a mounted folder of plain files, or nothing yet
        return {name: (version / name).read_text() for name in NAMES if (version / name).is_file()}

    async def save(self, files: Files) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        former = self._versions()
        version = Path(tempfile.mkdtemp(prefix="..", dir=self._folder))
        for name, text in files.items():
            _write_synced(version / name, text)
        _sync_folder(version)
        _lead(self._folder / _DATA, version.name)
        _sync_folder(self._folder)
        for name in files:
            if not (self._folder / name).is_symlink():
                _lead(self._folder / name, f"{_DATA}/{name}")
        _sync_folder(self._folder)
        for each in former:
            shutil.rmtree(each, ignore_errors=True)

    def _versions(self) -> list[Path]:
        """Those that are there: the present one, and what a process that was killed has left."""
        return [each for each in self._folder.glob("..*") if each.is_dir() and not each.is_symlink()]


def _write_synced(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _lead(link: Path, target: str) -> None:
    """Let a name lead elsewhere, in one step."""
    beside = link.with_name(f"{link.name}.new")
    beside.unlink(missing_ok=True)
    beside.symlink_to(target)
    beside.replace(link)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SecretOfFiles:
    """A Secret of the managed cluster (S65), which other components may mount; one request writes it whole."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._name = api, name
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/secrets"

    async def load(self) -> dict[str, str]:
        try:
            data = (await self._api.get(f"{self._path}/{self._name}")).get("data") or {}
        except Refused as error:
            if error.reason == "NotFound":
                return {}
            raise
        return {name: text for name in NAMES if (text := _decoded(data.get(name))) is not None}

    async def save(self, files: Files) -> None:
        data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
        metadata = {"name": self._name, "namespace": self._namespace}
        try:
            await self._api.patch(f"{self._path}/{self._name}", {"data": data})
        except Refused as error:
            if error.reason != "NotFound":
                raise
            doc = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            await self._api.create(self._path, doc)


def _decoded(value: object) -> str | None:
    try:
        return base64.b64decode(str(value), validate=True).decode() if value is not None else None
    except (binascii.Error, UnicodeDecodeError):
        return None


async def what_is_wrong(
    files: Files, cluster: str, agent: str, hub: ApiEndpoint, tool: KeyTool, clock: AgentClock
) -> str:
    """G5: why these files do not open the hub that the bootstrap kubeconfig names; empty when they do."""
    missing = [name for name in (KUBECONFIG, CERTIFICATE, KEY) if not files.get(name)]
    if missing:
        return f"there is no {missing[0]} yet" if len(missing) == 3 else f"{', '.join(missing)} is missing"  # noqa: PLR2004 - of three
    try:
        certificate = await tool.read_chain(files[CERTIFICATE])
    except KeyToolError as error:
        return f"the certificate cannot be read: {error}"
    if trouble := _wrong_with(certificate, cluster, agent, clock.now()):
        return trouble
    try:
        kept = kept_endpoint(files)
    except KubeconfigError as error:
        return f"the hub's kubeconfig cannot be used: {error}"
    return "" if kept == hub else "the bootstrap kubeconfig names another hub, or another CA for it"


def _wrong_with(certificate: ClientCertificate, cluster: str, agent: str, now: datetime) -> str:
    name = subject_of(cluster, agent).common_name
    if certificate.subject.common_name != name:
        return f"the certificate is for {certificate.subject.common_name}, not for {name}"
    if certificate.not_after <= now:
        return f"the certificate expired at {certificate.not_after:%Y-%m-%d %H:%M:%S} UTC"
    return ""


def kept_endpoint(files: Files) -> ApiEndpoint:
    """Of the hub whose files are kept. KubeconfigError, also when the key is not that of the certificate."""
    kubeconfig = parse_kubeconfig(inline(files), Path())
    if not belongs(files[KEY], files[CERTIFICATE]):
        raise KubeconfigError("the key is not that of the certificate")
    return kubeconfig.endpoint


def inline(files: Files) -> str:
    """The kept kubeconfig with the certificate and key that it names by file. KubeconfigError if it is no YAML."""
    text = files[KUBECONFIG]
    for option, name in (("client-certificate", CERTIFICATE), ("client-key", KEY)):
        data = base64.b64encode(files[name].encode()).decode()
        text = text.replace(f"{option}: {name}", f"{option}-data: {data}")
    return text
