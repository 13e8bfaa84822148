"""Forms of the approval pages."""

from __future__ import annotations

from typing import Any

from django import forms

from registration.services import Seen


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
    reason = forms.CharField(
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 3}),
        error_messages={"required": "Say why: the agent and the audit show it."},
    )

    def clean_reason(self) -> Any:
        reason = self.cleaned_data["reason"]
        if "\0" in reason:
            msg = "The reason holds a character that cannot be stored."
            raise forms.ValidationError(msg)
        return reason
