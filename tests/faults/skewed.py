"""A program of the hub whose clock is wrong: ``python -m tests.faults.skewed SECONDS manage.py serve``, or ``celery …``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta


def main(seconds: str, program: str, *arguments: str) -> None:
    import time_machine

    time_machine.travel(datetime.now(UTC) + timedelta(seconds=float(seconds)), tick=True).start()
    sys.argv = [program, *arguments]
    if program == "celery":
        from celery.__main__ import main as celery

        celery()
    else:
        from ocmconsole.command import main as manage

        manage()


if __name__ == "__main__":
    main(*sys.argv[1:])
