"""Rows of the console itself."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preferences(models.Model):
    """How a person wants pages to be, in every browser; ``preferences`` says what may be in it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True)
    values = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"preferences of {self.user}"
