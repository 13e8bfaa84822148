"""Forms of channels and rules. What makes sense is decided by the services."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms

from clustersets.models import ManagedClusterSet
from ocmconsole.models import NotificationChannel, NotificationQuietHours, Severity
from ocmconsole.notifications import services
from ocmconsole.notifications.message_kinds import KINDS

PLAIN = {"autocomplete": "off", "spellcheck": "false"}
LONGEST_ADDRESS = 2_000  # characters
ADDRESS = "A https URL, mail addresses separated by commas, or an address as Apprise writes it. It is kept encrypted."


class AddressForm(forms.Form):
    """Of a channel that is there."""

    address = forms.CharField(max_length=LONGEST_ADDRESS, widget=forms.TextInput(attrs=PLAIN), help_text=ADDRESS)

    def __init__(self, *arguments: Any, kind: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kind = kind

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        kind = found.get("kind") or self._kind
        if kind and found.get("address"):
            try:
                found["address"] = services.address_of(kind, found["address"])
            except ValueError as error:
                self.add_error("address", str(error))
        return found


class ChannelForm(AddressForm):
    """A new one."""

    name = forms.CharField(
        max_length=30, widget=forms.TextInput(attrs=PLAIN), help_text="Lower-case letters, digits and “-”."
    )
    kind = forms.ChoiceField(label="By", choices=NotificationChannel.ChannelKind.choices)
    field_order = ("name", "kind", "address")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not services.NAME.fullmatch(name):
            raise forms.ValidationError("Lower-case letters, digits and “-”, up to 30, none of them “-” at an end.")
        if NotificationChannel.objects.filter(name=name).exists():
            raise forms.ValidationError("There is a channel of this name.")
        return name


class RuleForm(forms.Form):
    """What a channel hears of."""

    kinds = forms.MultipleChoiceField(
        required=False,
        label="Of what",
        widget=forms.CheckboxSelectMultiple,
        choices=[(kind.name, kind.sentence) for kind in KINDS.values()],
        help_text="None is everything.",
    )
    severity = forms.TypedChoiceField(label="From", coerce=int, choices=Severity.choices, initial=Severity.WARNING)
    clusterset = forms.CharField(
        required=False,
        max_length=253,
        label="Set",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Clusters of this set alone. Empty is everything, also what is of no set.",
    )

    def clean_clusterset(self) -> str:
        name: str = self.cleaned_data["clusterset"]
        if name and not ManagedClusterSet.objects.filter(name=name).exists():
            raise forms.ValidationError("There is no set of this name.")
        return name


class QuietHoursForm(forms.Form):
    """When a channel waits."""

    days = forms.TypedMultipleChoiceField(
        coerce=int,
        choices=list(enumerate(services.DAYS)),
        initial=list(range(len(services.DAYS))),
        widget=forms.CheckboxSelectMultiple,
        help_text="On which they begin.",
    )
    begins = forms.TimeField(
        label="From", initial="22:00", widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    ends = forms.TimeField(
        label="To",
        initial="07:00",
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        help_text="Earlier than the beginning is on the next day; the same is a whole day.",
    )
    zone = forms.CharField(
        label="Time zone", max_length=64, initial="UTC", widget=forms.TextInput(attrs=PLAIN),
        help_text="As Europe/Berlin; summer time is followed.",
    )  # fmt: skip
    breaks = forms.TypedChoiceField(
        label="Sent anyway",
        coerce=int,
        choices=[(Severity.CRITICAL, "Critical"), (Severity.WARNING, "Warning and critical"), (0, "Nothing")],
        initial=Severity.CRITICAL,
    )

    def clean_zone(self) -> str:
        name: str = self.cleaned_data["zone"]
        if name not in available_timezones():
            raise forms.ValidationError("There is no time zone of this name. Write it as Europe/Berlin, or UTC.")
        return name

    @property
    def hours(self) -> NotificationQuietHours:
        return NotificationQuietHours(**{**self.cleaned_data, "breaks": self.cleaned_data["breaks"] or None})
