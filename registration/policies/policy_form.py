"""The form of an approval policy: what people type becomes a rule.

Whether it makes sense is decided in ``policy_matching``.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import clock
from registration.form_fields import Networks, sets_to_join
from registration.policies import policy_matching
from registration.policies.policy_matching import PolicyInput

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from registration.models import ApprovalPolicy


class PolicyForm(forms.Form):
    """One rule: what it lets in, how much of it, and until when."""

    name = forms.CharField(max_length=63, help_text="Lower-case letters, digits and “-”.")
    tokens = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Tokens",
        help_text="It lets in only what came with one of these. None is any bootstrap token.",
    )  # fmt: skip
    pattern = forms.CharField(
        required=False, max_length=253, label="Names", help_text="As eu-web-*. Empty is any name."
    )
    addresses = Networks(label="From", help_text="Networks from which all its requests must come. Empty is everywhere.")
    set = forms.ChoiceField(required=False, label="Set", help_text="What it lets in joins this set.")
    max_accepts = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=policy_matching.MOST_ACCEPTS,
        label="Clusters",
        help_text="Empty is any number.",
    )
    ends = forms.DateField(
        label="Until",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="The last day, in UTC.",
    )
    reason = forms.CharField(
        max_length=policy_matching.LONGEST_REASON,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="The audit keeps it.",
    )

    def __init__(self, *arguments: Any, actor: Actor, policy: ApprovalPolicy | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        tokens, sets = self.fields["tokens"], self.fields["set"]
        assert isinstance(tokens, forms.MultipleChoiceField)
        assert isinstance(sets, forms.ChoiceField)
        usable = bootstrap_terms.tokens_for(actor).filter(expires__gt=clock.now(), revoked_at=None)
        known = {each.pk: f"{each.name or each.pk} · {each.created_by} · {each.uses_text}" for each in usable[:50]}
        for gone in policy.tokens if policy else ():
            known.setdefault(gone, f"{gone} · ended, or not yours")
        tokens.choices = list(known.items())
        sets.choices = sets_to_join(actor)
        if policy is not None and policy.clusterset not in dict(sets.choices):
            sets.choices = [*sets.choices, (policy.clusterset, policy.clusterset)]
        if policy is not None:
            self.fields["name"].disabled = True

    @property
    def rule(self) -> PolicyInput:
        data = self.cleaned_data
        midnight = datetime.combine(data["ends"], time.min, tzinfo=UTC)
        return PolicyInput(
            name=data["name"],
            expires=midnight + timedelta(days=1),
            reason=data["reason"],
            tokens=data["tokens"],
            pattern=data["pattern"],
            addresses=data["addresses"],
            clusterset=data["set"],
            max_accepts=data["max_accepts"],
        )

    def take(self, causes: Any) -> None:
        """Flaws that the rule itself found, beside the field they are about."""
        fields = {"expires": "ends", "clusterset": "set"}
        for cause in causes:
            name = fields.get(cause.field, cause.field)
            self.add_error(name if name in self.fields else None, cause.message)
