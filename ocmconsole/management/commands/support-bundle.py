# ruff: noqa: N999 - the name of a module is the name of its command
"""``manage.py support-bundle FILE``: what a maintainer needs, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from ocmconsole.console import support_bundle

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    help = "Writes what a maintainer needs to understand this hub into one file, without secrets."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a .tar.gz, readable by you alone")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"].absolute()
        try:
            names = support_bundle.write(path)
        except OSError as error:
            msg = f"{path} cannot be written: {error.strerror}"
            raise CommandError(msg) from error
        self.stdout.write(f"{path}: {', '.join(names)}")
