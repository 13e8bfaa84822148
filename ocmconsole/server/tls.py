"""TLS of the API listener: asks for the client's certificate and has its key proven; what it is worth is decided later.

Python's ``ssl`` ends the handshake with every certificate that it cannot verify, so an expired one got no answer at
all. A real API server takes any certificate whose key the client proves, and answers 401 to one that it does not trust
(W119). pyOpenSSL can do that; asyncio and uvloop drive it here as they drive ``ssl``, through ``wrap_bio``.

Invariants: a certificate that ``TLSObject.certificate`` returns belongs to a key that the client proved to hold in this
handshake, and to nothing more: ``registration.keys.client_certificates`` verifies issuer, dates, usage and revocation
at each request. It cannot change within a connection (no renegotiation). A handshake that fails ends with TLS' own
alert. Called by ocmconsole.server.serving.
"""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from cryptography.x509 import InvalidVersion
from OpenSSL import SSL, crypto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HTTP_1_1 = b"http/1.1"
HEADER = 5  # bytes of a record: type, version (2), length (2); RFC 8446, 5.1
RECORD = HEADER + 16 * 1024 + 2048  # bytes: the largest record that RFC 5246 (6.2.3) allows
RECORD_TYPES = range(20, 25)  # change_cipher_spec to heartbeat
LARGEST_CHAIN = 16 * 1024  # bytes of all certificates that a client sends; an agent's has about 1 KiB
LARGEST_HANDSHAKE = 2 * LARGEST_CHAIN  # bytes from the client: its chain or a ticket with that, and the small messages
CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!eNULL"  # of TLS 1.2; all of TLS 1.3 are good
SESSIONS = b"ocmconsole"  # what a resumed session of TLS must belong to

logger = logging.getLogger(__name__)


class Context(ssl.SSLContext):
    """An ``ssl.SSLContext`` for servers whose connections are made by pyOpenSSL; the event loops want that type."""

    def __new__(cls, certificate: Path, key: Path) -> Self:  # noqa: ARG004 - for __init__
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError, and OpenSSL.SSL.Error when the files are no chain and its key."""
        self._certificate, self._key = certificate, key
        self._version = _version(certificate)
        self._context = self._read()

    def _read(self) -> SSL.Context:
        """Raises OpenSSL.SSL.Error."""
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE)
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)
        context.set_cipher_list(CIPHERS)
        context.set_session_id(SESSIONS)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # a client may keep a ticket; the server keeps nothing
        context.use_certificate_chain_file(str(self._certificate))
        context.use_privatekey_file(str(self._key))
        context.check_privatekey()
        context.set_alpn_select_callback(_protocol)
        context.set_verify(SSL.VERIFY_PEER, _accept)
        context.set_verify_depth(0)  # no chain: its signatures cost up to 100 ms, and nothing uses the verdict
        return context

    def _follow(self) -> None:
        """Use the certificate that is in the file now; one that cannot be used leaves the former in place."""
        try:
            version = _version(self._certificate)
            if version != self._version:
                self._version = version
                self._context = self._read()
                logger.info("%s was replaced; new connections are served with it", self._certificate)
        except (OSError, SSL.Error) as error:
            logger.warning("%s cannot be used, the former is served: %s", self._certificate, error)

    def wrap_bio(  # type: ignore[override] # what the loops call, and a look-alike of ssl.SSLObject
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **_: Any
    ) -> TLSObject:
        self._follow()
        return TLSObject(self._context, incoming, outgoing)


def _version(path: Path) -> tuple[int, int]:
    """Differs when the file was replaced or written. Raises OSError."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _protocol(_: SSL.Connection, offered: Sequence[bytes]) -> Any:
    return HTTP_1_1 if HTTP_1_1 in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _accept(*_: object) -> bool:
    """OpenSSL asks for each thing that it does not like about a certificate. The key is proven apart from this."""
    return True


class TLSObject:
    """What asyncio and uvloop use of ``ssl.SSLObject``: bytes of the network in two memory BIOs."""

    def __init__(self, context: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._tls = SSL.Connection(context, None)
        self._tls.set_accept_state()
        self._incoming, self._outgoing = incoming, outgoing
        self._has_failed = False
        self._room = LARGEST_HANDSHAKE  # bytes that the handshake may still use
        self._is_open = False
        self._owes = True  # OpenSSL may have something to say besides what it was given to send
        self._has_more = True  # OpenSSL may have read more than was asked for
        self._records = bytearray()  # what came and OpenSSL was not given yet

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate as DER, None without one. Its key is proven once the handshake is complete."""
        shown = self._tls.get_peer_certificate()
        return None if shown is None else crypto.dump_certificate(crypto.FILETYPE_ASN1, shown)

    # ------------------------------------------------------------ as ssl.SSLObject

    def do_handshake(self) -> None:
        """Raises SSLWantReadError, SSLError.

        For a failure that TLS has an alert for it is SSLWantReadError first, so that the loops send the alert; they do
        not with SSLError. The client then closes the connection; if it sends more, SSLError does; if it does neither,
        the end of the time for a handshake.
        """
        if self._has_failed:
            raise ssl.SSLError(1, "the handshake has failed")
        try:
            self._step(self._tls.do_handshake)
            self._check_chain()
            self._is_open = True
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError as error:
            self._has_failed = True
            logger.info("a TLS handshake failed: %s%s", error.args[-1], self._shown())
            self._flush()
            if self._outgoing.pending:
                raise ssl.SSLWantReadError from error
            raise
        finally:
            self._flush()

    def read(self, length: int = 1024, buffer: Any = None) -> bytes | int:
        """At the end of the stream: nothing. Raises SSLWantReadError, SSLError."""
        if not (self._has_more and self._tls.pending()):
            self._feed()
        try:
            if buffer is not None:
                return int(self._step(self._tls.recv_into, buffer, length))
            data = bytes(self._step(self._tls.recv, length := min(length, RECORD)))
        except SSL.ZeroReturnError:
            return b"" if buffer is None else 0
        finally:
            if self._owes:  # alerts, and the answer to a KeyUpdate; a record of data is owed nothing
                self._flush()
        self._has_more = len(data) == length  # it reads of one record at a time
        return data

    def write(self, data: Any) -> int:
        """Raises SSLWantReadError, SSLError."""
        try:
            return int(self._step(self._tls.send, data))
        finally:
            self._flush()

    def unwrap(self) -> None:
        """Say goodbye, and wait for the other side's. Raises SSLWantReadError, SSLError."""
        try:
            if not (self._step(self._tls.shutdown) or self._step(self._tls.shutdown)):
                raise ssl.SSLWantReadError
        finally:
            self._flush()

    def pending(self) -> int:
        """Bytes that can be read without another byte from the network; uvloop does not read when there are none."""
        self._fetch()
        return (self._has_more and self._tls.pending()) or self._next_record()

    def getpeercert(self, binary_form: bool = False) -> Any:  # noqa: FBT001, FBT002 - ssl's signature
        return self.certificate if binary_form else {}

    def cipher(self) -> tuple[str, str, int] | None:
        name, version, bits = self._tls.get_cipher_name(), self._tls.get_cipher_version(), self._tls.get_cipher_bits()
        return None if name is None else (name, version or "", bits or 0)

    def compression(self) -> None:
        return None

    # ------------------------------------------------------------ between the BIOs

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """``step``, with as many records as it wants. Raises SSLWantReadError, SSLError, ZeroReturnError."""
        while True:
            try:
                return step(*arguments)
            except SSL.WantReadError:
                self._owes = True
                if not self._feed():
                    raise ssl.SSLWantReadError from None
            except SSL.ZeroReturnError:
                self._owes = True
                raise
            except SSL.Error as error:
                self._owes = True
                raise ssl.SSLError(1, _reason(error)) from error

    def _feed(self) -> bool:
        """Give OpenSSL the next record; False when no whole one is there. Raises SSLError in too long a handshake.

        One at a time, so that ``pending`` knows what is left: nobody can ask OpenSSL what it has not looked at.
        """
        self._fetch()
        self._has_more = True
        if size := self._next_record():
            if not self._is_open:
                self._room -= size
                if self._room < 0:
                    raise ssl.SSLError(1, f"the client's handshake has more than {LARGEST_HANDSHAKE} bytes")
            self._tls.bio_write(bytes(self._records[:size]))
            del self._records[:size]
        return size > 0

    def _fetch(self) -> None:
        if len(self._records) < RECORD and self._incoming.pending:
            self._records += self._incoming.read(RECORD)

    def _next_record(self) -> int:
        """Its size when all of it is there, else 0. What is no record of TLS counts whole, for OpenSSL to refuse it."""
        have = len(self._records)
        if have < HEADER:
            return 0 if not have or self._records[0] in RECORD_TYPES else have
        size = HEADER + int.from_bytes(self._records[3:HEADER], "big")
        if self._records[0] not in RECORD_TYPES or size > RECORD:
            return have
        return size if have >= size else 0

    def _flush(self) -> None:
        with suppress(SSL.WantReadError):
            while len(chunk := self._tls.bio_read(RECORD)) == RECORD:
                self._outgoing.write(chunk)
            self._outgoing.write(chunk)
        self._owes = False

    def _check_chain(self) -> None:
        """Nobody's certificates are kept for as long as a connection lasts, if they are large."""
        above = self._tls.get_peer_cert_chain() or []  # on a server it is without the client's own
        sizes = [len(crypto.dump_certificate(crypto.FILETYPE_ASN1, one)) for one in above]
        if sum(sizes) + len(self.certificate or b"") > LARGEST_CHAIN:
            raise ssl.SSLError(1, f"the client's certificates have more than {LARGEST_CHAIN} bytes")

    def _shown(self) -> str:
        """The subject and serial of the certificate that the client showed, for the log."""
        shown = self._tls.get_peer_certificate()
        if shown is None:
            return ""
        with suppress(ValueError, InvalidVersion):  # OpenSSL reads more than cryptography does
            subject = shown.to_cryptography().subject.rfc4514_string()
            return f"; certificate of {subject!r}, serial {shown.get_serial_number():x}"
        return ""


def _reason(error: SSL.Error) -> str:
    """OpenSSL's own words, without its file names."""
    found = error.args[0] if error.args else None
    return "; ".join(str(part[-1]) for part in found) if isinstance(found, list) and found else "connection ended"
