"""A PKCS #11 token of SoftHSM in a folder: keys are put in, it goes away and comes back.

In the process of a test the module follows ``SOFTHSM2_CONF`` when it begins anew; a served hub has its own.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from registration.pki import pkcs11_keys

PIN = "482615"
OFFICER = "93571820"  # PIN of the one who makes tokens
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Token:
    folder: Path
    module: Path
    label: str = "hub"
    numbers: list[int] = field(default_factory=list)

    @property
    def configuration(self) -> Path:
        return self.folder / "softhsm2.conf"

    @property
    def settings(self) -> dict[str, str]:
        """Of a hub, without the prefix of their names."""
        return {"PKCS11_MODULE": str(self.module), "PKCS11_PIN_FILE": str(self.folder / "pin")}

    def make(self) -> None:
        (self.folder / "tokens").mkdir(parents=True)
        (self.folder / "pin").write_text(f"{PIN}\n")
        self.configuration.write_text(f"directories.tokendir = {self.folder / 'tokens'}\nlog.level = ERROR\n")
        self._util("--init-token", "--free", "--so-pin", OFFICER)

    def put(self, label: str, key: Key) -> str:
        """The URI of a key that somebody made beforehand."""
        path = self.folder / "key.pem"
        path.write_bytes(pkcs8(key))
        self.numbers.append(0)
        self._util("--import", str(path), "--id", f"{len(self.numbers):02x}", "--token", self.label, label=label)
        path.unlink()
        return f"pkcs11:token={self.label};object={label}"

    def use(self, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
        """In this process."""
        monkeypatch.setenv("SOFTHSM2_CONF", str(self.configuration))
        monkeypatch.setattr(pkcs11_keys, "REST_SECONDS", 0.0)
        settings.OCMCONSOLE_PKCS11_MODULE, settings.OCMCONSOLE_PKCS11_PIN = str(self.module), PIN
        forget()

    def take_away(self) -> None:
        (self.folder / "tokens").rename(self.folder / "elsewhere")
        (self.folder / "tokens").mkdir()

    def bring_back(self) -> None:
        (self.folder / "tokens").rmdir()
        (self.folder / "elsewhere").rename(self.folder / "tokens")

    def _util(self, *arguments: str, label: str = "") -> None:
        command = ["softhsm2-util", *arguments, "--label", label or self.label, "--pin", PIN]
        environment = {"SOFTHSM2_CONF": str(self.configuration), "PATH": "/usr/bin:/bin"}
        subprocess.run(command, env=environment, check=True, capture_output=True)


def forget() -> None:
    """As a new process."""
    pkcs11_keys._tokens.begin_anew()
    pkcs11_keys._tokens._refused.clear()


def pkcs8(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
