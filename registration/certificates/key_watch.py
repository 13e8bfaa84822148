"""Whether the places that hold CA keys answer, for Prometheus: asked beside the scrape, which waits briefly."""

from __future__ import annotations

import threading
from time import monotonic

from django.conf import settings

from registration.pki import ca

PROBE_SECONDS = 60.0  # between two questions: each is a signature, which a token may count or charge for
WAIT_SECONDS = 2.0  # of a scrape for a token; what takes longer does not answer


class KeyWatch:
    """Of this process: one thread asks, those who scrape read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = float("-inf")  # seconds of ``monotonic``
        self._found: dict[ca.AuthorityRole, bool] = {}
        self._thread: threading.Thread | None = None

    def answering(self) -> dict[ca.AuthorityRole, bool]:
        """A question without an answer so far is a no."""
        with self._lock:
            thread = self._thread
            if thread is None or not thread.is_alive():
                if monotonic() - self._asked < PROBE_SECONDS:
                    return dict(self._found)
                self._asked = monotonic()
                thread = self._thread = threading.Thread(target=self._ask, name="ca-keys", daemon=True)
                thread.start()
        thread.join(WAIT_SECONDS)
        return dict.fromkeys(ca.AuthorityRole, False) if thread.is_alive() else dict(self._found)

    def _ask(self) -> None:
        self._found = ca.answering(settings.OCMCONSOLE_HOME)


watch = KeyWatch()
