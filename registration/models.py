"""Certificate requests."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from ocmconsole.kubeapi.models import Resource


class CertificateSigningRequest(Resource):
    """certificates.k8s.io/v1 CertificateSigningRequest (W23)."""

    class State(models.TextChoices):
        PENDING = "Pending"
        APPROVED = "Approved"
        DENIED = "Denied"
        FAILED = "Failed"
        ISSUED = "Issued"

    signer = models.CharField(max_length=571)
    # Label of the agent's cluster and add-on; claims of the client until H35 has been checked.
    cluster = models.CharField(max_length=63, blank=True, default="")
    addon = models.CharField(max_length=63, blank=True, default="")
    username = models.CharField(max_length=320)
    state = models.CharField(max_length=8, choices=State)
    decided_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    key_fingerprint = models.CharField(max_length=71, blank=True, default="")

    class Meta(Resource.Meta):
        verbose_name = "certificate signing request"
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["cluster", "state"])]
