"""How a cluster gets in and stays in."""

from __future__ import annotations

from django.apps import AppConfig


class RegistrationConfig(AppConfig):
    name = "registration"
    verbose_name = "Registration"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, reconcilers, bulk acts, readers of certificates."""
        from registration import (  # noqa: PLC0415 - registers itself
            admission,  # noqa: F401 - as the others
            bulk,  # noqa: F401
            controllers,  # noqa: F401
            credentials,  # noqa: F401
            decisions,  # noqa: F401
            departures,  # noqa: F401
            kinds,  # noqa: F401
            limits,  # noqa: F401
            standing,  # noqa: F401
        )
