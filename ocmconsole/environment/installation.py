"""Where this installation keeps what is no Python module, and what its command line is called.

A checkout has templates, assets and documents at its root, an installed wheel in ``ocmconsole/share``.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
IS_INSTALLED = (_PACKAGE / "share").is_dir()
ROOT = _PACKAGE / "share" if IS_INSTALLED else _PACKAGE.parent
PROGRAM = "ocmconsole" if IS_INSTALLED else "manage.py"


def default_home() -> Path:
    """Of a hub whose OCMCONSOLE_HOME is not set: beside the checkout's files, or where a user's programs keep data."""
    if not IS_INSTALLED:
        return ROOT / "var"
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if Path(data).is_absolute() else Path.home() / ".local" / "share") / "ocmconsole"
