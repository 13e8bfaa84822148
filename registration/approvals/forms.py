"""Forms of the approval pages. The versions that the user has seen are hidden fields."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from django import forms
from django.http import QueryDict

from ocmconsole.kubeapi import clock, errors
from registration.admission.decisions import FINGERPRINT
from registration.approvals import snooze
from registration.approvals.inbox import Filter
from registration.approvals.services import Override
from registration.approvals.stale_decision import SeenVersions
from registration.evidence.evidence_items import Verdict
from registration.models import Decline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network, IPv6Network

MOST_REQUESTS = 100  # fields of one hidden value, so that parsing is bounded
DAMAGED = "This page is damaged; open it again."
LONGEST_NAME = 253  # characters, as of a DNS subdomain


# ---------------------------------------------------------------- what was seen


def packed_requests(seen: SeenVersions) -> str:
    return urlencode(list(seen.requests.items()))


def _pairs(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_REQUESTS))
    except ValueError as error:
        raise forms.ValidationError(DAMAGED) from error


class DecisionForm(forms.Form):
    """``cluster_rv`` and ``csr_rvs`` are the resourceVersions of what was shown, ``clusterset`` is the chosen set.

    ``ids`` keeps the forms of one page apart.
    """

    cluster_rv = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    csr_rvs = forms.CharField(required=False, max_length=50_000, widget=forms.HiddenInput)
    clusterset = forms.CharField(required=False, max_length=LONGEST_NAME, widget=forms.HiddenInput)
    ids = "accept"

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, auto_id=f"{self.ids}-%s")

    def clean_cluster_rv(self) -> str:
        value: str = self.cleaned_data["cluster_rv"]
        if value and not value.isdigit():
            raise forms.ValidationError(DAMAGED)
        return value

    def clean_csr_rvs(self) -> dict[str, str]:
        return _pairs(self.cleaned_data["csr_rvs"])

    def seen(self) -> SeenVersions:
        return SeenVersions(cluster=self.cleaned_data["cluster_rv"], requests=self.cleaned_data["csr_rvs"])


def packed(seen: SeenVersions) -> str:
    """The hidden fields of a ``DecisionForm`` as one text, for pages with many rows."""
    return urlencode({"cluster_rv": seen.cluster, "csr_rvs": packed_requests(seen)})


def unpacked(text: str) -> SeenVersions:
    """The reverse of ``packed``; of an empty text it is what fits no cluster. Raises Conflict when it is damaged."""
    form = DecisionForm(QueryDict(text))
    if not form.is_valid():
        raise errors.Conflict(DAMAGED)
    return form.seen()


# ---------------------------------------------------------------- decline, later, override


PRESETS = (
    "Nobody expects this cluster.",
    "Wrong token: ask for one of your own.",
    "Wrong name: register again under another one.",
    "The cluster was reinstalled; remove the old one first.",
    "Asked from an address that we do not know.",
)
NO_REASON = "Say why: the agent and the audit show it."


class PresetReasonForm(forms.Form):
    """A reason that is picked, or written, or both. Django itself refuses NUL in a text."""

    use_required_attribute = False
    preset = forms.ChoiceField(
        label="Usual answer", required=False, choices=[("", "In my own words"), *((each, each) for each in PRESETS)]
    )
    reason = forms.CharField(
        label="Reason",
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Recorded with your name. The agent sees it in its denied certificate request.",
        error_messages={"required": NO_REASON},
    )

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("preset") and self.has_error("reason", "required"):
            del self.errors["reason"]
        given = [self.cleaned_data.get("preset", ""), self.cleaned_data.get("reason", "")]
        self.cleaned_data["words"] = " ".join(filter(None, given))
        return self.cleaned_data


class DeclineForm(DecisionForm, PresetReasonForm):
    """What is refused from now on besides these requests."""

    ids = "decline"
    TOKEN = "token"  # noqa: S105 - the name of a choice

    scope = forms.ChoiceField(
        label="Refuse from now on",
        initial=Decline.Scope.ASKER,
        widget=forms.RadioSelect,
        choices=[
            (Decline.Scope.ASKER, "This key, and this credential for this name"),
            (Decline.Scope.NAME, "Everyone who asks for this name"),
            (TOKEN, "This token, for any name: revoke it too"),
        ],
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, may_revoke: bool = True) -> None:
        super().__init__(data)
        if not may_revoke:
            scope: Any = self.fields["scope"]
            scope.choices = [choice for choice in scope.choices if choice[0] != self.TOKEN]

    @property
    def revokes(self) -> bool:
        return bool(self.cleaned_data["scope"] == self.TOKEN)

    def scope_of_decline(self) -> Decline.Scope:
        return Decline.Scope.NAME if self.cleaned_data["scope"] == Decline.Scope.NAME else Decline.Scope.ASKER


class UntilForm(forms.Form):
    until = forms.ChoiceField(
        label="Hide for me",
        widget=forms.RadioSelect,
        initial="changed",
        choices=[
            ("hour", "for an hour"),
            ("tomorrow", "until tomorrow, 8:00 UTC"),
            ("monday", "until Monday, 8:00 UTC"),
            ("changed", "until it changes"),
        ],
    )

    def moment(self) -> datetime | None:
        """When it comes back at the latest; None when only a change brings it back."""
        return snooze.times(clock.now())[self.cleaned_data["until"]]


class LaterForm(DecisionForm, UntilForm):
    ids = "later"


class OverrideForm(DecisionForm):
    """A person's word for one key of a known name (D9): the name typed again, so that nobody gives it by habit."""

    ids = "override"
    name = forms.CharField(widget=forms.HiddenInput)
    accept_key = forms.RegexField(FINGERPRINT, error_messages={"required": "Choose the key that is the right one."})
    typed = forms.CharField(
        label="Type the name of the cluster",
        strip=True,
        max_length=LONGEST_NAME,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Type the name of the cluster."},
    )
    reason = forms.CharField(
        label="How you know",
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept with the key and your name for as long as the hub remembers this name.",
        error_messages={"required": "Say how you know: the audit and the memory of the name keep it."},
    )

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("typed", "") not in {"", self.cleaned_data.get("name")}:
            self.add_error("typed", "This is not the name of the cluster.")
        return self.cleaned_data

    def override(self) -> Override:
        return Override(key=self.cleaned_data["accept_key"], reason=self.cleaned_data["reason"])


# ---------------------------------------------------------------- the inbox's filter


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AGES: dict[str, tuple[str, dict[str, timedelta]]] = {
    "": ("Asked: any time", {}),
    "hour": ("in the last hour", {"younger_than": HOUR}),
    "day": ("in the last day", {"younger_than": DAY}),
    "older-hour": ("more than an hour ago", {"older_than": HOUR}),
    "older-day": ("more than a day ago", {"older_than": DAY}),
}


class FilterForm(forms.Form):
    """GET parameters; what cannot be read is named beside its field and filters nothing."""

    verdict = forms.ChoiceField(required=False, choices=[("", ""), *((str(each), "") for each in Verdict)])
    token = forms.CharField(required=False, max_length=6)
    source = forms.CharField(required=False, max_length=50)
    age = forms.ChoiceField(required=False, choices=[(value, label) for value, (label, _) in AGES.items()])
    q = forms.CharField(required=False, max_length=LONGEST_NAME)
    later = forms.ChoiceField(required=False, choices=[("", ""), ("1", "")])

    def clean_source(self) -> IPv4Network | IPv6Network | None:
        text = self.cleaned_data["source"].strip()
        if not text:
            return None
        try:
            return ip_network(text, strict=False)
        except ValueError as error:
            raise forms.ValidationError("Write an address or a range such as 10.3.0.0/16.") from error

    def wanted(self) -> Filter:
        found = self.cleaned_data if self.is_valid() else {}
        return Filter(
            verdict=found.get("verdict", ""),
            token=found.get("token", ""),
            source=found.get("source"),
            name=found.get("q", "").strip(),
            later=bool(found.get("later")),
            **AGES[found.get("age", "")][1],
        )


def query_of(given: Mapping[str, Any]) -> str:
    """The part of an address that says what the inbox shows and where: filter and page, and nothing else of it."""
    kept = {name: given.get(name, "")[:LONGEST_NAME] for name in (*FilterForm.base_fields, "page")}
    return urlencode({name: value for name, value in kept.items() if value and "\0" not in value})


class DisconnectForm(forms.Form):
    revoke = forms.BooleanField(required=False, label="Also revoke its certificates now")
