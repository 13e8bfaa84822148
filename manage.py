#!/usr/bin/env python3
"""Django's command line."""

from __future__ import annotations

from ocmconsole.command import main

if __name__ == "__main__":
    main()
