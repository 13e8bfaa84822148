"""The one-process hub's own workers: a thread for reconcilers and a thread for the clock that Celery beat would be."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from django.db import close_old_connections

from ocmconsole.celery import BEAT, app
from ocmconsole.kubeapi import workqueue

log = logging.getLogger(__name__)


class Workers:
    """Started by ``serve`` when no Redis is configured."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=workqueue.follow, args=(self._stopping,), name="reconcilers", daemon=True),
            threading.Thread(target=self._beat, name="beat", daemon=True),
        ]

    def start(self) -> None:
        workqueue.release()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let what is running finish; what is due stays in the queue."""
        self._stopping.set()
        workqueue.woken.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def _beat(self) -> None:
        """Run the same schedule as Celery beat, task by task, in this thread."""
        app.loader.import_default_modules()  # tasks are found when the first worker starts, and this is one
        due = dict.fromkeys(BEAT, monotonic())
        while not self._stopping.wait(0.5):
            for name, entry in BEAT.items():
                if entry["task"] == "ocmconsole.kubeapi.tasks.drain" or monotonic() < due[name]:
                    continue
                due[name] = monotonic() + float(str(entry["schedule"]))
                self._run(str(entry["task"]))

    @staticmethod
    def _run(task: str) -> None:
        close_old_connections()
        try:
            app.tasks[task]()
        except Exception:  # the clock goes on; the next tick tries again
            log.exception("%s failed", task)
