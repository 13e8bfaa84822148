"""A hub that leaves its Placements to another scheduler: ``manage.py``, and Celery's application for worker and beat.

Only reconcilers of Placements are missing. ``placing`` compares with OCM's own placement controller beside such a hub.
"""

from __future__ import annotations

from placements import apps

apps.REGISTERING = tuple(each for each in apps.REGISTERING if each != "placements.reconcilers")

from ocmconsole.celery import app  # noqa: E402, F401 - Django reads the line above when it starts
from ocmconsole.command import main  # noqa: E402

if __name__ == "__main__":
    main()
