"""``python -m registration.agent``: the command, from a checkout."""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
