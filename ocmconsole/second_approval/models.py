"""Acts that wait for more people, and who stands behind each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models

if TYPE_CHECKING:
    from datetime import datetime


class ProposedAct(models.Model):
    """An act that was asked for, with the evidence of that moment. But for its state it never changes.

    ``arguments`` say which act it is, together with ``act`` and ``subject``; ``also`` is what else was asked for with
    it. ``digest`` is of all that is shown and approved (``gate.document_of``). ``proposed_by`` is the name then of who
    proposed it: of who impersonates somebody their own. ``account`` is that person's; None where nobody proved to be
    that person, as at the command line, and when the account is gone.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        DONE = "done", "Carried out"
        DECLINED = "declined", "Declined"
        CHANGED = "changed", "Changed"
        EXPIRED = "expired", "Expired"

    act = models.CharField(max_length=32)
    subject = models.CharField(max_length=320)
    arguments = models.JSONField()
    arguments_digest = models.CharField(max_length=64)
    also = models.JSONField(default=dict)
    evidence = models.JSONField()
    digest = models.CharField(max_length=64)
    reason = models.TextField(blank=True, default="")
    proposed_by = models.CharField(max_length=320)
    account = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    entry_point = models.CharField(max_length=10)
    proposed_at = models.DateTimeField()
    expires = models.DateTimeField()
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    closed_by = models.CharField(max_length=320, blank=True, default="")
    closed_at = models.DateTimeField(null=True)
    closed_reason = models.TextField(blank=True, default="")

    approvals: Any  # the manager of its approvals

    class Meta:
        default_permissions = ()
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["act", "subject", "arguments_digest"],
                condition=models.Q(state="waiting"),
                name="second_approval_one_waiting",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["state", "expires"])]

    def __str__(self) -> str:
        return f"{self.act} {self.subject}"

    def present_state(self, now: datetime) -> State:
        """One whose time is over is marked when somebody meets it, and expired before."""
        state = self.State(self.state)
        return self.State.EXPIRED if state is self.State.WAITING and self.expires <= now else state


class ActApproval(models.Model):
    """Somebody else stands behind a proposed act: the person, and the digest of what they saw.

    ``person`` is the name at that time; of an account that is gone it is all that is left.
    """

    proposed = models.ForeignKey(ProposedAct, on_delete=models.CASCADE, related_name="approvals")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    person = models.CharField(max_length=320)
    digest = models.CharField(max_length=64)
    entry_point = models.CharField(max_length=10)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["proposed", "account"], name="second_approval_once_each"),
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.proposed_id}"
