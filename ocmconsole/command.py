"""The command line: ``manage.py`` in a checkout, ``ocmconsole`` where the wheel is installed."""

from __future__ import annotations

import gc
import os
import sys

from ocmconsole.environment import garbage, thread_turns


def main() -> None:
    garbage.look_less_often()
    thread_turns.take_short_turns()
    if sys.argv[1:2] == ["serve"]:
        gc.disable()  # until it serves: imports leave little garbage, and to look for it takes a sixth of a start
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - settings first

    execute_from_command_line(sys.argv)
