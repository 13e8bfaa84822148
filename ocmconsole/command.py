"""The command line: ``manage.py`` in a checkout, ``ocmconsole`` where the wheel is installed."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from ocmconsole.environment import frame_stack, garbage, thread_turns

if TYPE_CHECKING:
    from django.core.management.base import BaseCommand


@frame_stack.with_room
def main() -> None:
    frame_stack.make_room_in_threads()
    garbage.look_less_often()
    thread_turns.take_short_turns()
    gc.disable()  # until there is a command: imports leave little garbage, and to look for it takes a sixth of a start
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
    from django.core.management import ManagementUtility  # noqa: PLC0415 - settings first

    class Utility(ManagementUtility):
        def fetch_command(self, subcommand: str) -> BaseCommand:
            """Django is set up by now. ``serve`` has more to import, and looks for garbage once it serves."""
            command = super().fetch_command(subcommand)
            if subcommand == "serve":
                return command
            garbage.look_at_what_is_new()
            from ocmconsole.backup import only_reads  # noqa: PLC0415 - models, which serve imports later

            return only_reads.guard(command, subcommand)

    Utility(sys.argv).execute()
