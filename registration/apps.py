"""How a cluster gets in and stays in."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig

# Imported in this order, which is the order of the rules.
REGISTERING = (
    "registration.admission.request_admission",
    "registration.approvals.bulk_decisions",
    "registration.reconcilers",
    "registration.keys.client_certificates",
    "registration.admission.decisions",
    "registration.approvals.sending_away",
    "registration.approvals.second_people",
    "registration.kinds",
    "registration.admission.token_limits",
    "registration.admission.repair_rules",
    "registration.policies.policy_reconcilers",
    "registration.policies.policy_approvals",
    "registration.certificates.ca_rotation",
    "registration.certificates.certificate_metrics",
)


class RegistrationConfig(AppConfig):
    name = "registration"
    verbose_name = "Registration"

    def ready(self) -> None:
        """Fill the registries: kinds, rules, reconcilers, bulk acts, readers of certificates."""
        for module in REGISTERING:
            import_module(module)
