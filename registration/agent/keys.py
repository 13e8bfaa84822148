"""Keys, certificate requests and what certificates say, by the ``openssl`` program.

The library that does the same takes more room than all the rest of the agent. A key is made in that program's memory
and comes back by a pipe; it is written to a disk only with its certificate. Called by ``certificate_requests`` and
``hub_files``; a program with thousands of agents brings another ``KeyTool``.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from .client.api import load_pair

CONFIGURATION = Path(__file__).with_name("openssl.cnf")
PREFIX = "system:open-cluster-management:"
MANAGED_CLUSTERS = f"{PREFIX}managed-clusters"
ESCAPED = re.compile(r"\\(.)")  # RFC 2253
PEM_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


class KeyToolError(RuntimeError):
    """The program is missing or refused its input; the message has its words."""


@dataclass(frozen=True, slots=True)
class AgentSubject:
    """Who a certificate says its holder is: user name and groups (G3)."""

    common_name: str
    organizations: frozenset[str]
    units: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a chain says: subject of the first certificate, the time in which all of them are valid."""

    subject: AgentSubject
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class KeyAndRequest:
    """PEM of a private key and of a PKCS#10 request signed with it."""

    key: str
    request: str


class KeyTool(Protocol):
    async def make_request(self, subject: AgentSubject) -> KeyAndRequest:
        """A new ECDSA P-256 key and a request for the subject (G20). KeyToolError."""

    async def read_chain(self, chain: str) -> ClientCertificate:
        """What the PEM certificates say. KeyToolError when there is none or one cannot be read."""


def subject_of(cluster: str, agent: str) -> AgentSubject:
    """G3: the agent's name and groups."""
    return AgentSubject(f"{PREFIX}{cluster}:{agent}", frozenset({f"{PREFIX}{cluster}", MANAGED_CLUSTERS}))


def belongs(key: str, chain: str) -> bool:
    """Whether the key is that of the chain's first certificate."""
    try:
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), chain, key)
    except ssl.SSLError:
        return False
    return True


class OpenSSL:
    """By the program ``openssl``, version 1.1.1 or newer."""

    def __init__(self, program: str = "openssl") -> None:
        self._program = program

    async def make_request(self, subject: AgentSubject) -> KeyAndRequest:
        parts = [*(("O", each) for each in sorted(subject.organizations)), ("CN", subject.common_name)]
        name = "".join(f"/{attribute}={_escaped(value)}" for attribute, value in parts)
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        made = await self._run(
            "req",
            "-new",
            *curve,
            "-nodes",
            "-sha256",
            "-batch",
            "-config",
            str(CONFIGURATION),
            "-keyout",
            "-",
            "-subj",
            name,
        )
        key, begin, request = made.partition("-----BEGIN CERTIFICATE REQUEST-----")
        if not begin or "PRIVATE KEY-----" not in key:
            raise KeyToolError("openssl made no key with its request")
        return KeyAndRequest(key[key.index("-----BEGIN") :], begin + request)

    async def read_chain(self, chain: str) -> ClientCertificate:
        certificates = PEM_CERTIFICATE.findall(chain)
        if not certificates:
            raise KeyToolError("there is no certificate")
        names = ["-subject", "-nameopt", "sep_multiline,sname,utf8,esc_2253"]
        options = ["x509", "-noout", "-startdate", "-enddate", *names]
        read = [_parsed(await self._run(*options, stdin=each)) for each in certificates]
        return ClientCertificate(read[0].subject, max(each.not_before for each in read), min(e.not_after for e in read))

    async def _run(self, *arguments: str, stdin: str = "") -> str:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise KeyToolError(f"{self._program} cannot be run: {error}") from error
        try:
            out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:  # cancelled: nobody else would end it, or close its pipes
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise KeyToolError(f"{self._program} {arguments[0]}: {err.decode(errors='replace').strip()}")
        return out.decode()


def _escaped(value: str) -> str:
    return re.sub(r"([/+\\])", r"\\\1", value)


def _parsed(text: str) -> ClientCertificate:
    """Output of ``openssl x509``: lines of dates, then the subject, a set of attributes a line.

    Go, and so kube-controller-manager, writes all organizations into one set; others write a set for each.
    """
    dates: dict[str, datetime] = {}
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition("=")
        if name in {"notBefore", "notAfter"}:
            dates[name] = datetime.fromtimestamp(ssl.cert_time_to_seconds(value), UTC)
            continue
        for attribute in line.strip().split(" + "):  # a plus sign in a value is escaped
            name, _, value = attribute.partition("=")
            names.setdefault(name, []).append(ESCAPED.sub(r"\1", value))
    subject = AgentSubject(_first(names.get("CN", [])), frozenset(names.get("O", [])), frozenset(names.get("OU", [])))
    try:
        return ClientCertificate(subject, dates["notBefore"], dates["notAfter"])
    except KeyError as error:
        raise KeyToolError("openssl did not say how long a certificate is valid") from error


def _first(values: Sequence[str]) -> str:
    return values[0] if values else ""
