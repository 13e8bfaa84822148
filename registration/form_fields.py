"""Fields that several forms have: the sets that a person may add clusters to, networks, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clustersets.kinds import DEFAULT_SET, GLOBAL_SET
from clustersets.queries import sets_for
from clustersets.rights import set_rights
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi.schema.names import key_flaws, value_flaws

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor


def sets_to_join(actor: Actor) -> list[tuple[str, str]]:
    """The sets that the person may add clusters to; without a choice the hub gives its own, or none (A2)."""
    names = [name for name in sets_for(actor).values_list("name", flat=True) if name not in {DEFAULT_SET, GLOBAL_SET}]
    allowed = set_rights.joinable(actor, names)
    default = "The hub's default set" if settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"] else "No set"
    return [("", default), *((name, name) for name in names if name in allowed)]


class Networks(forms.CharField):
    """CIDR networks, separated by commas, blanks or lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=2_000, **options)

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override] # a list of texts
        found = (super().to_python(value) or "").replace(",", " ").split()
        if wrong := next((each for each in found if not bootstrap_terms.is_network(each)), None):
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
