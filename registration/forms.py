"""Forms of the approval pages."""

from __future__ import annotations

from typing import Any

from django import forms

from registration.decisions import FINGERPRINT
from registration.services import Override, Seen


class DecisionForm(forms.Form):
    """What the person had before his eyes, as hidden fields: ``name=resourceVersion`` pairs."""

    cluster_rv = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    csr_rvs = forms.CharField(required=False, max_length=5_000, widget=forms.HiddenInput)

    def clean_cluster_rv(self) -> str:
        value: str = self.cleaned_data["cluster_rv"]
        if value and not value.isdigit():
            msg = "This page is damaged; open it again."
            raise forms.ValidationError(msg)
        return value

    def clean_csr_rvs(self) -> dict[str, str]:
        pairs = [part.partition("=") for part in self.cleaned_data["csr_rvs"].split(",") if part]
        return {name: version for name, _, version in pairs}

    def seen(self) -> Seen:
        return Seen(cluster=self.cleaned_data["cluster_rv"], requests=self.cleaned_data["csr_rvs"])


class DeclineForm(DecisionForm):
    """Django itself refuses NUL in a text."""

    reason = forms.CharField(
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say why: the agent and the audit show it."},
    )


class OverrideForm(DecisionForm):
    """A person's word for one key of a known name (D9): the name typed again, so that nobody gives it by habit."""

    name = forms.CharField(widget=forms.HiddenInput)
    accept_key = forms.RegexField(FINGERPRINT, error_messages={"required": "Choose the key that is the right one."})
    typed = forms.CharField(strip=True, max_length=253, error_messages={"required": "Type the name of the cluster."})
    reason = forms.CharField(
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say how you know: the audit and the memory of the name keep it."},
    )

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("typed", "") not in {"", self.cleaned_data.get("name")}:
            self.add_error("typed", "This is not the name of the cluster.")
        return self.cleaned_data

    def override(self) -> Override:
        return Override(key=self.cleaned_data["accept_key"], reason=self.cleaned_data["reason"])
