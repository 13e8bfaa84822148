"""Forms of a cluster's pages: one field's text refuses what the hub would refuse, in words that stand beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms

from clusters.kinds import TaintEffect
from clusters.models import ClusterPermission
from clusters.taints.taint_rules import EFFECTS
from ocmconsole.environment.durations import in_words
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.schema import names

LONGEST = timedelta(days=366)  # of a maintenance
ENDLESS, AT = "endless", "at"
SPANS = (
    *((str(hours), in_words(timedelta(hours=hours))) for hours in (1, 4, 24, 168)),
    (AT, "Until a moment"),
    (ENDLESS, "Until I end it"),
)


def is_key(key: str) -> None:
    if flaws := list(names.key_flaws(key)):
        raise forms.ValidationError(f"This is no key: {flaws[0]}.")


def is_value(value: str) -> None:
    if flaws := list(names.value_flaws(value)):
        raise forms.ValidationError(f"This is no label's value: {flaws[0]}.")


class TaintForm(forms.Form):
    """``was_key`` and ``was_effect`` name the taint that is edited; empty when one is added."""

    key = forms.CharField(
        max_length=316,
        validators=[is_key],
        help_text="Such as dedicated or example.com/gpu.",
        error_messages={"required": "Say what the taint is about."},
    )
    value = forms.CharField(max_length=1024, required=False, help_text="More about it, such as payments.")
    effect = forms.ChoiceField(
        choices=[(effect, f"{effect}: {text[:1].lower()}{text[1:]}") for effect, text in EFFECTS.items()],
        widget=forms.RadioSelect,
        error_messages={"required": "Choose what it does."},
    )
    was_key = forms.CharField(max_length=316, required=False, widget=forms.HiddenInput)
    was_effect = forms.CharField(max_length=16, required=False, widget=forms.HiddenInput)

    def taint(self) -> dict[str, str]:
        parts = {part: self.cleaned_data[part] for part in ("key", "value", "effect")}
        return {part: text for part, text in parts.items() if text}

    def instead(self) -> tuple[str, str] | None:
        was = self.cleaned_data["was_key"], self.cleaned_data["was_effect"]
        return was if was[0] else None


class LabelForm(forms.Form):
    key = forms.CharField(
        max_length=317,
        validators=[is_key],
        help_text="Such as env or example.com/team.",
        error_messages={"required": "Say what the label is about."},
    )
    value = forms.CharField(max_length=63, required=False, validators=[is_value])
    was_key = forms.CharField(max_length=317, required=False, widget=forms.HiddenInput)


class MaintenanceForm(forms.Form):
    """How long is a choice of spans, or a moment in UTC."""

    reason = forms.CharField(
        max_length=200,
        help_text="Shown beside the cluster's state, in lists and on its page: kernel, network change 4711.",
        error_messages={"required": "Say what it is for: others see it beside the state."},
    )
    lasts = forms.ChoiceField(
        label="How long",
        choices=SPANS,
        required=False,
        initial="4",
        widget=forms.Select,
        help_text="It ends by itself, or when you end it.",
    )
    until = forms.DateTimeField(
        label="Until (UTC)",
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="Only with “Until a moment”.",
        error_messages={"invalid": "Write a day and a time, such as 2026-11-21 18:00."},
    )
    effect = forms.ChoiceField(
        label="Meanwhile",
        choices=[
            (TaintEffect.NO_SELECT_IF_NEW.value, "New placements skip the cluster; what is there stays"),
            (TaintEffect.NO_SELECT.value, "Placements drop the cluster; their work moves away"),
        ],
        initial=TaintEffect.NO_SELECT_IF_NEW.value,
        widget=forms.RadioSelect,
    )

    def clean(self) -> dict[str, Any]:
        data, now = self.cleaned_data, clock.now()
        lasts = data.get("lasts") or ENDLESS
        if lasts != AT:
            data["until"] = None if lasts == ENDLESS else now + timedelta(hours=int(lasts))
            return data
        if "until" not in data:
            return data
        moment: datetime | None = data["until"]
        if moment is None:
            self.add_error("until", "Say until when.")
        elif moment <= now:
            self.add_error("until", "This is over already; it is " + f"{now.astimezone(UTC):%d %b %H:%M} UTC.")
        elif moment > now + LONGEST:
            self.add_error("until", "This is more than a year away; choose “Until I end it”.")
        return data


class TypedNameForm(forms.Form):
    """The name typed again, so that nobody does by habit what cannot be undone."""

    typed = forms.CharField(
        label="Type the name of the cluster",
        max_length=253,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Type the name of the cluster."},
    )

    def __init__(self, name: str, *args: Any, **options: Any) -> None:
        self.name = name
        super().__init__(*args, **options)

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed != self.name:
            msg = f"This is not the name, which is {self.name}."
            raise forms.ValidationError(msg)
        return typed


class RemoveForm(TypedNameForm):
    """``revoke`` is offered to those who may accept the cluster, ticked (D19)."""

    revoke = forms.BooleanField(required=False, initial=True, label="Also revoke its certificates now")


class RemoveManyForm(forms.Form):
    """D19: deleting a cluster revokes its certificates too unless the box is unticked."""

    revoke = forms.BooleanField(
        required=False,
        initial=True,
        label="Also revoke their certificates now",
        help_text=f"Takes {ClusterPermission.ACCEPT} on each. Unticked, the same keys let the clusters come back.",
    )


class AbandonForm(TypedNameForm):
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept in the audit with your name.",
        error_messages={"required": "Say why its agent will not finish: the audit keeps it."},
    )
    field_order = ("reason", "typed")


class DocumentForm(forms.Form):
    """An object as text. ``seen`` is what the person began with, ``force`` takes fields from other managers."""

    document = forms.CharField(
        label="Document",
        max_length=256 * 1024,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "autocapitalize": "off"}),
        error_messages={"required": "The text is empty."},
    )
    seen = forms.RegexField("[0-9a-f]{64}", widget=forms.HiddenInput)
    force = forms.BooleanField(required=False)
