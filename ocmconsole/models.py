"""Rows of the console itself."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

DIGEST_LENGTH = 40  # hexadecimal digits: 160 bits, as many as a key of Django's has


class Preferences(models.Model):
    """How a person wants pages to be, in every browser; ``preferences`` says what may be in it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True)
    values = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"preferences of {self.user}"


class DemoFleet(models.Model):
    """The demonstration fleet of this hub: one row (``pk`` 1), from when it is asked for until it is removed.

    ``clusters`` maps the names of its clusters to what ``demo.live.planned`` says of each; of a fleet that ``manage.py
    demo`` made the values are empty. ``made`` maps a kind of thing (``sets``, ``tokens``, ``users`` …) to the names of
    those that were made beside the clusters. ``origin`` are fields of ``Actor`` of the request. ``problem`` says why
    nothing goes on.
    """

    class State(models.TextChoices):
        MAKING = "making"
        COMPLETE = "complete"
        REMOVING = "removing"

    state = models.CharField(max_length=16, choices=State)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    origin = models.JSONField(default=dict)
    clusters = models.JSONField(default=dict)
    made = models.JSONField(default=dict)
    created = models.DateTimeField()
    problem = models.TextField(blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"demonstration fleet of {len(self.clusters)} clusters, {self.state}"


class Severity(models.IntegerChoices):
    INFO = 1, "Information"
    WARNING = 2, "Warning"
    CRITICAL = 3, "Critical"


class NotificationChannel(models.Model):
    """Whom the hub tells by itself. Address and secrets are encrypted (``notifications.encrypted_columns``)."""

    class ChannelKind(models.TextChoices):
        WEBHOOK = "webhook", "Webhook"
        MAIL = "mail", "Mail"
        CHAT = "chat", "Chat"

    name = models.CharField(max_length=30, primary_key=True)
    kind = models.CharField(max_length=7, choices=ChannelKind)
    address = models.TextField()
    secret = models.TextField(blank=True, default="")
    former_secret = models.TextField(blank=True, default="")
    enabled = models.BooleanField(default=True)
    created = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class NotificationRule(models.Model):
    """What a channel hears of: kinds (none means all), from a severity on, of one set or of everything."""

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="rules")
    kinds = models.JSONField(default=list)
    severity = models.PositiveSmallIntegerField(choices=Severity)
    clusterset = models.CharField(max_length=253, blank=True, default="")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel_id}: {', '.join(self.kinds) or 'everything'} from {self.get_severity_display()}"


class NotificationQuietHours(models.Model):
    """When a channel waits, by the clock of a time zone, on days (0 is Monday) on which they begin.

    Messages from ``breaks`` on are sent meanwhile too; None for no message.
    """

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="quiet_hours")
    days = models.JSONField(default=list)
    begins = models.TimeField()
    ends = models.TimeField()
    zone = models.CharField(max_length=64)
    breaks = models.PositiveSmallIntegerField(choices=Severity, null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.channel_id}: {self.begins:%H:%M} to {self.ends:%H:%M} {self.zone}"


class NotificationMessage(models.Model):
    """What happened of one kind in one set within one minute. ``sealed``: nothing is added any more, and it is sent.

    ``uid`` is what receivers know it by, however often it is sent.
    """

    uid = models.CharField(max_length=36, unique=True)
    kind = models.CharField(max_length=40)
    severity = models.PositiveSmallIntegerField(choices=Severity)
    clusterset = models.CharField(max_length=253, blank=True, default="")
    minute = models.DateTimeField()
    closes = models.DateTimeField(db_index=True)
    sealed = models.BooleanField(default=False, db_index=True)
    count = models.PositiveIntegerField(default=0)
    names = models.JSONField(default=list)
    detail = models.TextField(blank=True, default="")
    first = models.DateTimeField()
    last = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.count} at {self.minute:%Y-%m-%d %H:%M}"


class NotificationDelivery(models.Model):
    """One message for one channel, and how sending it went; asking for it again makes another row.

    Those of one ``key`` are sent in order. ``due``: not before.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waits"
        TAKEN = "taken", "Taken"
        REFUSED = "refused", "Refused"
        GIVEN_UP = "given-up", "Given up"
        HELD = "held", "Held"
        GROUPED = "grouped", "In a group"

    channel = models.ForeignKey(NotificationChannel, on_delete=models.CASCADE, related_name="deliveries")
    message = models.ForeignKey(NotificationMessage, on_delete=models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    answer = models.CharField(max_length=300, blank=True, default="")
    asked_by = models.CharField(max_length=320, blank=True, default="")
    created = models.DateTimeField()
    tried = models.DateTimeField(null=True)
    key = models.CharField(max_length=300, blank=True, default="", db_default="")
    due = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["channel", "state", "id"]),)

    def __str__(self) -> str:
        return f"{self.message} to {self.channel_id}: {self.state}"


class StoredKey(str):
    """The digest of a session key, as it was read from the database. It opens no session."""

    __slots__ = ()

    @classmethod
    def of(cls, key: str) -> StoredKey:
        return cls(hashlib.sha256(key.encode()).hexdigest()[:DIGEST_LENGTH])


class KeyField(models.CharField[str, str]):
    """A session key, of which the database gets the digest: every text but a ``StoredKey`` is taken for a key."""

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, StoredKey) else StoredKey.of(str(value))

    def from_db_value(self, value: str | None, *_: object) -> StoredKey | None:
        return None if value is None else StoredKey(value)


class Session(AbstractBaseSession):
    """A browser's session (``signin.sessions``). What is not known is empty, as before somebody has signed in."""

    session_key = KeyField(max_length=DIGEST_LENGTH, primary_key=True)
    # Without a constraint: a page that ends after its account was deleted must not fail.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=256)
    began = models.DateTimeField(null=True)

    class Meta(AbstractBaseSession.Meta):
        default_permissions = ()

    def __str__(self) -> str:
        return f"session of {self.user or 'nobody'}"

    @classmethod
    def get_session_store_class(cls) -> Any:
        from ocmconsole.signin.sessions import SessionStore  # noqa: PLC0415 - which imports this module

        return SessionStore

    def get_decoded(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get_session_store_class()(self.session_key).decode(self.session_data)
        return found

    def belongs_to(self, key: str) -> bool:
        """Whether it is the session of that key."""
        return bool(self.session_key == StoredKey.of(key))
