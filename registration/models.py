"""Certificate requests, and what the hub remembers about those who asked: accepted keys and declines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models

from clusters.models import ClusterFacts
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import NameField, PermissionName, Resource
from ocmconsole.kubeapi.storage import plain_sql

if TYPE_CHECKING:
    from datetime import datetime

    from registration.pki.x509_reading import Certificate


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
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["cluster", "state"]),
            models.Index(fields=["created"]),  # the order of their list in Django admin
        ]


# ---------------------------------------------------------------- the hub's own records


class KeyLine(models.Model):
    """D19: a line of keys of one cluster name: a key that was accepted, and the keys that its certificates renewed to.

    At most one line of a name is open. A line ends when a key outside it is accepted, or when everything that the
    cluster holds is revoked; its certificates are revoked in the same transaction. A line that has ended stays ended.
    """

    cluster = NameField(max_length=63)
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=320, blank=True, default="")
    end_reason = models.TextField(blank=True, default="")

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["cluster"], condition=models.Q(ended_at=None), name="registration_keyline_open_of_cluster"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["cluster", "ended_at"])]

    def __str__(self) -> str:
        return f"{self.cluster} since {self.begun_at:%Y-%m-%d %H:%M:%S}"


class AcceptedKey(models.Model):
    """A public key that was let in under a cluster's name. Never deleted, whatever becomes of the cluster (D9)."""

    class How(models.TextChoices):
        ACCEPT = "accept"  # a person or a policy approved its request
        RENEWAL = "renewal"  # the certificate of the identity vouched for it
        OVERRIDE = "override"  # the name was known under other keys, and somebody vouched for this one
        UPGRADE = "upgrade"  # found in a request from before the hub remembered
        REPAIR = "repair"  # a repair token vouched for it (D29)
        RECORDED = "recorded"  # of a certificate that was not issued here and is honoured (D26)

    cluster = NameField(max_length=63)
    fingerprint = models.CharField(max_length=71)
    key = models.CharField(max_length=64)
    how = models.CharField(max_length=8, choices=How)
    # The line that it was accepted into last (D19).
    line = models.ForeignKey(KeyLine, on_delete=models.PROTECT, related_name="keys", null=True)
    accepted_by = models.CharField(max_length=320, blank=True, default="")
    accepted_at = models.DateTimeField()
    reason = models.TextField(blank=True, default="")
    request = NameField(max_length=253)
    request_uid = models.CharField(max_length=36)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["cluster", "fingerprint"], name="registration_acceptedkey_of_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} {self.fingerprint}"


class Decline(models.Model):
    """A refused key and the credential that asked with it; both stay refused for the name until it is lifted (D10).

    ``fingerprint`` is empty when a name was declined before it had asked for a certificate. ``scope`` may widen it to
    everybody who asks for the name.
    """

    class Scope(models.TextChoices):
        ASKER = "asker"
        NAME = "name"

    cluster = NameField(max_length=63)
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.ASKER)
    fingerprint = models.CharField(max_length=71, blank=True, default="")
    requester = models.CharField(max_length=320, blank=True, default="")
    credential = models.CharField(max_length=330, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    request = NameField(max_length=253, blank=True, default="")
    declined_by = models.CharField(max_length=320)
    declined_at = models.DateTimeField()
    lifted_by = models.CharField(max_length=320, blank=True, default="")
    lifted_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["cluster", "lifted_at"])]

    def __str__(self) -> str:
        return f"{self.cluster} {self.fingerprint or self.credential}"


class Snooze(models.Model):
    """A request that one person does not want to see before a time, or before it changes: whichever comes first."""

    user = models.CharField(max_length=320)
    cluster = NameField(max_length=63)
    # None is no time: only a change brings it back.
    until = models.DateTimeField(null=True)
    # Digest of cluster and requests, as the person saw them.
    seen = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "cluster"], name="registration_snooze_of_person"),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.cluster}"


class IssuedCertificate(models.Model):
    """A client certificate that was issued: for a CSR, by any signer, or in a kubeconfig."""

    fingerprint = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the certificate, hexadecimal
    common_name = models.CharField(max_length=320, db_index=True)
    cluster = NameField(max_length=63, blank=True, default="", db_index=True)
    key_fingerprint = models.CharField(max_length=71)
    # Fingerprint of the key of the CA that signed it; "" until the certificate is seen in use, but for kubeconfigs.
    authority = models.CharField(max_length=71, blank=True, default="")
    serial = models.CharField(max_length=40)
    not_before = models.DateTimeField()
    not_after = models.DateTimeField()
    request = NameField(max_length=253, blank=True, default="")
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=320, blank=True, default="")
    revocation_reason = models.TextField(blank=True, default="")
    # The lines of keys that it belongs to (D19): of each cluster that its subject names, else of the certificate that
    # asked for it, as an agent's does for its add-ons. Empty for people.
    lines = models.ManyToManyField(KeyLine, related_name="certificates")

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["revoked_at", "not_after"]),
            models.Index(fields=["not_before"]),  # the order of their list in Django admin
        ]

    @property
    def is_right(self) -> bool:
        """Saving it ends a credential (``Revision.rights``)."""
        return self.revoked_at is not None

    def __str__(self) -> str:
        return f"{self.common_name} {self.fingerprint[:16]}"

    def save(self, *args: Any, **options: Any) -> None:
        """What clusters show of a certificate is always that of the rows here, whichever act issued or revoked it."""
        super().save(*args, **options)
        if self.cluster:
            self._note_current()

    def _note_current(self) -> None:
        """The newest that is honoured, else the newest of all: that one has ended or was revoked."""
        newest = "ORDER BY not_before DESC, not_after DESC, fingerprint LIMIT 1"
        honoured = f"cluster = %s AND revoked_at IS NULL AND not_after > %s {newest}"
        now = plain_sql.moment(clock.now())
        found = plain_sql.rows_where(IssuedCertificate.objects, honoured, self.cluster, now)
        found = found or plain_sql.rows_where(IssuedCertificate.objects, f"cluster = %s {newest}", self.cluster)
        current = found[0] if found else self
        shown = {
            "certificate_fingerprint": current.pk,
            "certificate_not_before": current.not_before,
            "certificate_not_after": current.not_after,
            "certificate_revoked_at": current.revoked_at,
            "certificate_revoked_by": current.revoked_by,
            "certificate_revocation_reason": current.revocation_reason,
        }
        if not ClusterFacts.objects.filter(cluster=self.cluster).update(**shown):
            ClusterFacts.objects.create(cluster=self.cluster, **shown)

    @classmethod
    def of(cls, certificate: Certificate, *, cluster: str = "", request: str = "") -> IssuedCertificate:
        """The stored row of a certificate, or a new one that is not stored yet."""
        return plain_sql.row_by(cls.objects, fingerprint=certificate.fingerprint) or cls(
            fingerprint=certificate.fingerprint,
            common_name=certificate.common_name[:320],
            cluster=cluster,
            key_fingerprint=certificate.key_fingerprint,
            authority=certificate.authority,
            serial=certificate.serial,
            not_before=certificate.not_before,
            not_after=certificate.not_after,
            request=request,
        )


class UnknownCertificate(models.Model):
    """An incident: a certificate that the hub's CA has signed and the register does not know was shown (D26)."""

    fingerprint = models.CharField(max_length=64, primary_key=True)  # as of IssuedCertificate
    common_name = models.CharField(max_length=320)
    organizations = models.TextField(blank=True, default="")
    serial = models.CharField(max_length=40)
    key_fingerprint = models.CharField(max_length=71)
    not_before = models.DateTimeField()
    not_after = models.DateTimeField()
    address = models.CharField(max_length=64, blank=True, default="")  # from where it was shown last
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField(db_index=True)
    # At most one a minute and process is counted.
    times = models.PositiveBigIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.common_name} {self.fingerprint[:16]}"


# ---------------------------------------------------------------- what people decide beforehand


class HubAddress(models.Model):
    """A URL under which agents find the hub, added in the console; its host is a name in the serving certificate."""

    url = models.CharField(max_length=300, primary_key=True)
    added_by = models.CharField(max_length=320)
    added_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "hub addresses"
        default_permissions = ()

    def __str__(self) -> str:
        return self.url


class ApprovalPolicyQuerySet(models.QuerySet["ApprovalPolicy"]):
    def counted(self) -> Self:
        """With the number of clusters that each let in, in the same query."""
        return self.annotate(use_count=models.Count("uses"))


class PolicyPermission(PermissionName):
    VIEW = "registration.view_approvalpolicy"
    ADD = "registration.add_approvalpolicy"
    CHANGE = "registration.change_approvalpolicy"
    DELETE = "registration.delete_approvalpolicy"


class ApprovalPolicy(models.Model):
    """Lets in what fits and is Safe, as the person who answers for it, until its end.

    ``tokens``, ``pattern`` and ``addresses`` must all fit; an empty one fits everything.
    """

    class State(models.TextChoices):
        WORKING = "working"
        FAILING = "failing"  # it could not do what it is for, and says why
        USED_UP = "used up"
        EXPIRED = "expired"
        DISABLED = "disabled"

    name = NameField(max_length=63, unique=True)
    enabled = models.BooleanField(default=True)
    tokens = models.JSONField(default=list)  # ids
    pattern = models.CharField(max_length=253, blank=True, default="")
    addresses = models.JSONField(default=list)  # networks in CIDR form
    clusterset = NameField(max_length=253, blank=True, default="")
    max_accepts = models.PositiveIntegerField(null=True)
    expires = models.DateTimeField()
    reason = models.TextField()
    created_by = models.CharField(max_length=320)
    created = models.DateTimeField()
    # The user who changed or enabled it last: it does nothing that this user may not do.
    acts_as = models.CharField(max_length=320)
    failure = models.TextField(blank=True, default="")
    failed_at = models.DateTimeField(null=True)

    uses: Any  # the manager of its uses
    objects = ApprovalPolicyQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def accepts(self) -> int:
        """How many clusters it has let in."""
        counted: int | None = getattr(self, "use_count", None)
        return int(self.uses.count()) if counted is None else counted

    def state(self, now: datetime) -> State:
        """The first that holds."""
        if not self.enabled:
            return self.State.DISABLED
        if self.expires <= now:
            return self.State.EXPIRED
        if self.max_accepts is not None and self.accepts >= self.max_accepts:
            return self.State.USED_UP
        return self.State.FAILING if self.failure else self.State.WORKING


class ApprovalPolicyUse(models.Model):
    """A cluster that a policy let in."""

    policy = models.ForeignKey(ApprovalPolicy, on_delete=models.CASCADE, related_name="uses")
    cluster = NameField(max_length=63)
    time = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["-time"]

    def __str__(self) -> str:
        return f"{self.policy_id} {self.cluster}"
