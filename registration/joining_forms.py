"""Forms of the wizard, of tokens and of policies: what people type becomes values; the rules are elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django import forms
from django.utils import timezone

from clusters.admission import GUARDED_NAMES
from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clusters.models import ManagedCluster
from clusters.queries import may_see
from clusters.rights import changeable
from clusters.roles import TAKEN_NAMES
from clustersets import rights
from clustersets.kinds import DEFAULT_SET, GLOBAL_SET
from clustersets.queries import sets_for
from ocmconsole.corekinds import bootstrap
from ocmconsole.kubeapi.names import key_flaws, label_flaws, value_flaws
from registration import ca, joining, policies, services
from registration.joining import Reach
from registration.policies import PolicyInput

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from registration.models import ApprovalPolicy

LIFETIMES = (("15m", "15 minutes"), ("1h", "1 hour"), ("8h", "8 hours"), ("1d", "1 day"), ("7d", "7 days"))
SPANS = {"15m": timedelta(minutes=15), "1h": timedelta(hours=1), "8h": timedelta(hours=8), "1d": timedelta(days=1),
         "7d": timedelta(days=7)}  # fmt: skip


def sets_to_join(actor: Actor) -> list[tuple[str, str]]:
    """The sets that the person may add clusters to; without a choice the hub gives its own."""
    names = [name for name in sets_for(actor).values_list("name", flat=True) if name not in {DEFAULT_SET, GLOBAL_SET}]
    allowed = rights.joinable(actor, names)
    return [("", "The hub's default set"), *((name, name) for name in names if name in allowed)]


class Networks(forms.CharField):
    """CIDR networks, separated by commas, blanks or lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=2_000, **options)

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override] # a list of texts
        found = (super().to_python(value) or "").replace(",", " ").split()
        if wrong := next((each for each in found if not bootstrap.is_network(each)), None):
            raise forms.ValidationError("“%(text)s” is not a network such as 10.3.0.0/16.", params={"text": wrong[:60]})
        return found

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class Labels(forms.CharField):
    """``key=value`` lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=5_000, widget=forms.Textarea(attrs={"rows": 3}), **options)

    def to_python(self, value: Any) -> dict[str, str]:  # type: ignore[override] # labels
        lines = (super().to_python(value) or "").replace(",", "\n").split("\n")
        pairs = [line.partition("=") for line in lines if line.strip()]
        found = {key.strip(): text.strip() for key, _, text in pairs}
        for key, text in found.items():
            if key == CLUSTERSET_LABEL or key.endswith(f".{GROUP}"):
                raise forms.ValidationError("“%(key)s” is the hub's; choose the set above.", params={"key": key[:80]})
            for flaw in (*key_flaws(key), *value_flaws(text)):
                raise forms.ValidationError("“%(key)s”: %(flaw)s", params={"key": key[:80], "flaw": flaw})
        return found

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else value


# ---------------------------------------------------------------- the wizard


class AddressField(forms.CharField):
    """A URL of the hub."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=300, label="Address of the hub", **options)

    def to_python(self, value: Any) -> str:
        text: str = super().to_python(value) or ""
        return _url(text, {"https"}) if text else ""


class PlaceForm(forms.Form):
    """The first step: which cluster, where it belongs, and where it finds the hub."""

    name = forms.CharField(
        max_length=63, help_text="Lower-case letters, digits and “-”. It names the cluster's namespace on the hub too."
    )
    set = forms.ChoiceField(
        required=False, help_text="Those to which you may add clusters. Membership gives a set's people access."
    )
    labels = Labels(help_text="One key=value a line. They are set on the hub when the cluster registers.")
    server = AddressField(required=False, help_text="Where the cluster's agent finds the hub, such as "
                                                    "https://hub.example.com:6443.")  # fmt: skip

    def __init__(self, *arguments: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.actor = actor
        self.fields["server"].widget.attrs.update(autocomplete="off", spellcheck="false", inputmode="url")
        choice = self.fields["set"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = sets_to_join(actor)
        self.fields["name"].widget.attrs.update(autocomplete="off", spellcheck="false", autofocus=True)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        for flaw in label_flaws(name):
            raise forms.ValidationError("This cannot name a namespace: %(flaw)s", params={"flaw": flaw})
        if GUARDED_NAMES.fullmatch(name) or name in TAKEN_NAMES:
            raise forms.ValidationError("This name means something else on the hub and is never accepted.")
        if may_see(self.actor, name) and ManagedCluster.objects.filter(name=name).exists():
            raise forms.ValidationError("A cluster of this name is on the hub already.", code="taken")
        return name

    def clean(self) -> dict[str, Any]:
        name, wishes = self.cleaned_data.get("name"), self.cleaned_data.get("set") or self.cleaned_data.get("labels")
        if name and wishes and not changeable(self.actor, [name]):
            self.add_error(
                "set" if self.cleaned_data.get("set") else "labels",
                f"You may not change labels of {name}: leave set and labels to somebody who may.",
            )
        return self.cleaned_data


class TokenForm(forms.Form):
    """The second step: for how long, for whom, and whether a person has to look again."""

    lifetime = forms.ChoiceField(choices=LIFETIMES, initial="1h", help_text="The token opens nothing afterwards.")
    uses = forms.IntegerField(
        min_value=1, max_value=bootstrap.MOST_USES, initial=1, label="Clusters",
        help_text="How many clusters may come with it.",
    )  # fmt: skip
    bind = forms.BooleanField(required=False, initial=True)
    addresses = Networks(label="From", help_text="Networks from which it works, as 10.3.0.0/16. Empty is everywhere.")
    accept = forms.BooleanField(required=False)
    once = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, *arguments: Any, actor: Actor, name: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.may_accept = services.may_accept(actor, name).allowed
        self.fields["bind"].label = f"Only {name} may join with it"
        self.fields["accept"].label = f"Accept {name} automatically if it comes with exactly this token"
        self.fields["accept"].disabled = not self.may_accept

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("bind") and self.cleaned_data.get("uses", 1) > 1:
            self.add_error("uses", "A token for one name brings one cluster.")
        return self.cleaned_data

    @property
    def ttl(self) -> timedelta:
        return SPANS[self.cleaned_data["lifetime"]]


class ReachForm(forms.Form):
    """How the cluster reaches the hub; sent back with the token, which only the person's page holds."""

    token = forms.RegexField(r"^[a-z0-9]{6}\.[a-z0-9]{16}$", widget=forms.HiddenInput)
    name = forms.CharField(required=False, max_length=63, widget=forms.HiddenInput)
    server = AddressField()
    proxy = forms.CharField(
        required=False, max_length=300, label="HTTP proxy", help_text="Such as http://proxy.example:3128"
    )
    authority = forms.CharField(
        required=False, max_length=20_000, label="Other CA", widget=forms.Textarea(attrs={"rows": 3}),
        help_text="PEM, when something between cluster and hub shows a certificate of its own. Empty is the hub's own.",
    )  # fmt: skip
    way = forms.ChoiceField(choices=(("clusteradm", "clusteradm"), ("kubectl", "kubectl")), required=False)

    def clean_proxy(self) -> str:
        text: str = self.cleaned_data["proxy"]
        return _url(text, {"http", "https"}) if text else ""

    def clean_authority(self) -> str:
        text: str = self.cleaned_data["authority"]
        if text:
            try:
                ca.parse_certificate(text.encode())
            except ValueError as error:
                raise forms.ValidationError("This is no certificate in PEM form.") from error
        return f"{text}\n" if text else ""

    @property
    def reach(self) -> Reach:
        data = self.cleaned_data if self.is_valid() else {}
        return Reach(data.get("server") or joining.addresses()[0], data.get("proxy", ""), data.get("authority", ""))


def _url(text: str, schemes: set[str]) -> str:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or not text.isascii() or any(char.isspace() or char in "\"'\\`$;&|<>" for char in text):
        raise forms.ValidationError("This is not an address such as %(example)s.",
                                    params={"example": f"{min(schemes)}://hub.example:6443"})  # fmt: skip
    return text


# ---------------------------------------------------------------- tokens


class MintForm(forms.Form):
    """A token without the wizard, for one cluster or many."""

    name = forms.CharField(
        required=False, max_length=bootstrap.LONGEST_NAME, label="What it is for",
        help_text="Seen by whoever decides about the clusters that come with it.",
    )  # fmt: skip
    lifetime = forms.ChoiceField(choices=LIFETIMES, initial="1h")
    uses = forms.IntegerField(
        required=False, min_value=1, max_value=bootstrap.MOST_USES, initial=1, label="Clusters",
        help_text="How many clusters may come with it. Empty is as many as the hub lets one token bring.",
    )  # fmt: skip
    cluster = forms.CharField(
        required=False, max_length=63, label="Name", help_text="The one cluster that may join with it. Empty is any."
    )
    addresses = Networks(label="From", help_text="Networks from which it works, as 10.3.0.0/16. Empty is everywhere.")
    set = forms.ChoiceField(required=False, label="Set", help_text="Clusters that come with it join this set, as you.")

    def __init__(self, *arguments: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*arguments, **options)
        choice = self.fields["set"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = sets_to_join(actor)

    def clean_cluster(self) -> str:
        name: str = self.cleaned_data["cluster"]
        for flaw in label_flaws(name) if name else ():
            raise forms.ValidationError("This cannot name a cluster: %(flaw)s", params={"flaw": flaw})
        return name

    @property
    def terms(self) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "name": data["name"],
            "ttl": SPANS[data["lifetime"]],
            "max_uses": data["uses"],
            "cluster": data["cluster"],
            "addresses": data["addresses"],
            "clusterset": data["set"],
        }


# ---------------------------------------------------------------- policies


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
        required=False, min_value=1, max_value=policies.MOST_ACCEPTS, label="Clusters", help_text="Empty is any number."
    )
    ends = forms.DateField(
        label="Until",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="The last day, in UTC.",
    )
    reason = forms.CharField(
        max_length=policies.LONGEST_REASON, widget=forms.Textarea(attrs={"rows": 2}), help_text="The audit keeps it."
    )

    def __init__(self, *arguments: Any, actor: Actor, policy: ApprovalPolicy | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        tokens, sets = self.fields["tokens"], self.fields["set"]
        assert isinstance(tokens, forms.MultipleChoiceField)
        assert isinstance(sets, forms.ChoiceField)
        usable = bootstrap.tokens_for(actor).filter(expires__gt=timezone.now(), revoked_at=None)
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
