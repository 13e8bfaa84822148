"""How a cluster gets in and stays in."""

from __future__ import annotations

from django.apps import AppConfig


class RegistrationConfig(AppConfig):
    name = "registration"
    verbose_name = "Registration"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, reconcilers, readers of certificates."""
        from registration import admission, controllers, credentials, kinds  # noqa: F401, PLC0415 - registers itself
