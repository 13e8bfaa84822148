"""Forms of the wizard and of tokens: what people type becomes values; the rules are elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django import forms

from clusters.acceptance.agent_roles import TAKEN_NAMES
from clusters.admission import GUARDED_NAMES
from clusters.cluster_rights import changeable
from clusters.models import ManagedCluster
from clusters.queries import may_see
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.environment.durations import in_words, parse_duration
from ocmconsole.kubeapi.schema.names import label_flaws
from registration import join_guide
from registration.approvals import services
from registration.form_fields import Labels, Networks, sets_to_join
from registration.join_guide import Reach
from registration.pki import ca

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

LIFETIMES = tuple((text, in_words(parse_duration(text))) for text in ("15m", "1h", "8h", "1d", "7d"))


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
        min_value=1, max_value=bootstrap_terms.MOST_USES, initial=1, label="Clusters",
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
        return parse_duration(self.cleaned_data["lifetime"])


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
        return Reach(data.get("server") or join_guide.addresses()[0], data.get("proxy", ""), data.get("authority", ""))


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
        required=False, max_length=bootstrap_terms.LONGEST_NAME, label="What it is for",
        help_text="Seen by the people who decide about the clusters that come with it.",
    )  # fmt: skip
    lifetime = forms.ChoiceField(choices=LIFETIMES, initial="1h")
    uses = forms.IntegerField(
        required=False, min_value=1, max_value=bootstrap_terms.MOST_USES, initial=1, label="Clusters",
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
            "ttl": parse_duration(data["lifetime"]),
            "max_uses": data["uses"],
            "cluster": data["cluster"],
            "addresses": data["addresses"],
            "clusterset": data["set"],
        }
