"""``manage.py work``: drain the work queue once, or follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole import embedded
from ocmconsole.environment import home
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.server import tracing

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Runs what reconcilers have due."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--follow", action="store_true", help="go on until stopped")

    def handle(self, *args: Any, follow: bool, **options: Any) -> None:
        if not follow:
            self.stdout.write(f"{workqueue.drain()} items done")
            return
        watch = embedded.SuccessionWatch()
        try:
            tracing.begin()
            watch.start()
            workqueue.follow()
        except home.HomeError as error:
            raise CommandError(str(error)) from error
        finally:
            watch.stop()
            tracing.end()
