"""Second approvals as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class SecondApprovalConfig(AppConfig):
    name = "ocmconsole.second_approval"
    label = "second_approval"
    verbose_name = "Second approvals"
