"""``python -m tests.watch.impatient``: manage.py of a hub that waits for nobody.

Its queues are short, who does not read is soon cut off, and bookmarks come each second: a test of half a minute sees what
a hub in use meets in a day.
"""

from __future__ import annotations

import os
import sys

import django
from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
    django.setup()
    from ocmconsole.kubeapi.watch import follower, streams
    from ocmconsole.server import connections

    follower.QUEUE_LENGTH = 20
    connections.STALL_SECONDS = 3.0
    streams.BOOKMARK_SECONDS = streams.RECHECK_SECONDS = 1.0
    execute_from_command_line(["manage.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()
