"""``manage.py serve``: API, console and, without Redis, controllers and clock in one process."""

from __future__ import annotations

import gc
import logging
import os
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFailure

from ocmconsole import embedded
from ocmconsole.backup import succession, swapped_database
from ocmconsole.core.rbac import reading_ahead
from ocmconsole.environment import garbage, home
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.health import outages, probes
from ocmconsole.server import addresses, request_threads, serving, tracing
from registration import hub_setup
from registration.pki import ca

PATIENCE_SECONDS = 1.0  # with the reading of roles and bindings, as those of some 20,000 clusters take
STOP_SECONDS = 0.3  # for requests that were cut off and are in their last transaction


class Command(BaseCommand):
    help = "Serves the hub until stopped. Prepares database, certificates and the first admin when needed."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        watch = embedded.SuccessionWatch()
        try:
            tracing.begin()
            self._prepare(watch)
            self._run()
        finally:
            watch.stop()
            tracing.end()
        _leave()

    def _prepare(self, watch: embedded.SuccessionWatch) -> None:
        """Raises CommandError."""
        try:
            watch.start()
            if only_reads := outages.state.only_reads:
                self.stderr.write(only_reads)
                self._refuse_older_copy()
                return
            with hub_setup.one_at_a_time():
                hub_setup.migrate()
                self._refuse_older_copy()
                self._show_once(hub_setup.ensure_hub())
                succession.mark_home()
        except (ca.AuthorityError, home.HomeError) as error:
            raise CommandError(str(error)) from error
        except stored_text.Unreadable as error:
            raise CommandError(error.message) from error
        except DatabaseFailure as error:
            raise CommandError(outages.operator_line(error)) from error

    def _run(self) -> None:
        """Until the process is stopped. Raises CommandError."""
        if not gc.isenabled():  # by manage.py
            garbage.look_at_what_is_new()
        self._presence = embedded.Presence()
        workers = embedded.Workers() if settings.OCMCONSOLE_CONTROLLERS == "thread" else None
        if workers:
            workers.start()
        reading_ahead.begin(PATIENCE_SECONDS)
        probes.monitor.start()
        try:
            uvloop.run(self._serve(workers))
        except addresses.AddressError as error:
            raise CommandError(error.strerror) from error
        finally:
            self._presence.stop()
            probes.monitor.stop()
            if workers:
                workers.stop()

    def _refuse_older_copy(self) -> None:
        """Also of a read-only hub: its database is copied just then. Raises CommandError, and errors of the database.

        The tables of one that is read-only may still be those of the release before.
        """
        with suppress(DatabaseFailure) if outages.state.only_reads else nullcontext():
            if swapped := swapped_database.trouble():
                raise CommandError(swapped)

    def _show_once(self, password: str) -> None:
        """The generated password of the first admin, on a terminal only: what else stdout is may be kept and read.

        A service's stdout goes into the journal, a container's into its log, a redirected one into a file.
        """
        if password and self.stdout.isatty():
            path = f"{hub_setup.shown_home()}/admin-password"
            self.stdout.write(f"password    {password}  (of admin; shown this once, kept in {path})")

    async def _serve(self, workers: embedded.Workers | None) -> None:
        from ocmconsole.asgi import api_application, console_application  # noqa: PLC0415 - builds middleware; apps ready

        await serving.serve(
            api_application,
            console_application,
            api_address=settings.OCMCONSOLE_API_ADDRESS,
            console_address=settings.OCMCONSOLE_CONSOLE_ADDRESS,
            secure=serving.ssl_context(settings.OCMCONSOLE_HOME),
            on_ready=self._announce,
            ending=serving.GracefulStop(
                settings.OCMCONSOLE_GRACEFUL_TIMEOUT.total_seconds(),
                settings.OCMCONSOLE_TRUSTED_PROXIES.is_address,
                partial(_begin_to_stop, workers),
            ),
        )

    def _announce(self) -> None:
        self._presence.start()
        place = hub_setup.shown_home()
        self.stdout.write(f"console     {settings.OCMCONSOLE_CONSOLE_URL}/")
        self.stdout.write(f"api         {settings.OCMCONSOLE_API_URL}")
        self.stdout.write(f"admin       admin  (password: {place}/admin-password)")
        self.stdout.write(f"kubeconfig  {place}/admin.kubeconfig")
        self.stdout.flush()


def _begin_to_stop(workers: embedded.Workers | None) -> None:
    probes.monitor.is_stopping = True
    if workers:
        workers.ask_to_stop()


def _leave() -> None:
    """Python itself waits for threads without end.

    A request that still runs has had its time: its client has been cut off and tries again, as after a crash. Nor does
    it matter what is garbage now: Python looks at its end, several times, which took up to 5 s of a loaded machine.
    """
    gc.disable()
    gc.freeze()
    if not request_threads.end_threads(STOP_SECONDS):
        logging.shutdown()
        os._exit(0)
