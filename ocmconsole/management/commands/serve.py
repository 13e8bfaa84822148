"""``manage.py serve``: API, console and, without Redis, controllers and clock in one process."""

from __future__ import annotations

from typing import Any

import uvloop
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFailure

from ocmconsole import embedded, serving
from ocmconsole.kubeapi import outages, probes
from registration import ca, foundation


class Command(BaseCommand):
    help = "Serves the hub until stopped. Prepares database, certificates and the first admin when needed."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            call_command("migrate", verbosity=0)
            foundation.ensure()
        except ca.AuthorityError as error:
            raise CommandError(str(error)) from error
        except DatabaseFailure as error:
            raise CommandError(outages.explained(error)) from error
        self._presence = embedded.Presence()
        workers = embedded.Workers() if settings.OCMCONSOLE_CONTROLLERS == "thread" else None
        if workers:
            workers.start()
        probes.monitor.start()
        try:
            uvloop.run(self._serve())
        finally:
            self._presence.stop()
            probes.monitor.stop()
            if workers:
                workers.stop()

    async def _serve(self) -> None:
        from ocmconsole.asgi import api_application, console_application  # noqa: PLC0415 - builds middleware; apps ready

        await serving.serve(
            api_application,
            console_application,
            api_address=settings.OCMCONSOLE_API_ADDRESS,
            console_address=settings.OCMCONSOLE_CONSOLE_ADDRESS,
            secure=serving.ssl_context(settings.OCMCONSOLE_HOME),
            on_ready=self._announce,
        )

    def _announce(self) -> None:
        self._presence.start()
        home = foundation.shown_home()
        self.stdout.write(f"console     {settings.OCMCONSOLE_CONSOLE_URL}/")
        self.stdout.write(f"api         {settings.OCMCONSOLE_API_URL}")
        self.stdout.write(f"admin       admin  (password: {home}/admin-password)")
        self.stdout.write(f"kubeconfig  {home}/admin.kubeconfig")
        self.stdout.flush()
