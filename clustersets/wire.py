"""How the versions of cluster sets and bindings look: printer columns and conversions (D1, T7). Pure.

D1: what an older version cannot express is neither shown by it nor changed through it.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.kinds import spec_of
from clusters.wire import condition_column
from ocmconsole.core.wire import AGE
from ocmconsole.kubeapi.errors import Doc

# Values of spec.clusterSelector.selectorType.
EXCLUSIVE = "ExclusiveClusterSetLabel"
LEGACY = "LegacyClusterSetLabel"  # What v1beta1 calls it.
BY_LABELS = "LabelSelector"

# Bindings declare none and show their age.
MANAGED_CLUSTER_SET_COLUMNS = (condition_column("Empty", "ClusterSetEmpty", "Whether the set has no cluster."), AGE)


def set_to_v1alpha1(doc: Doc) -> Doc:
    """Without a spec."""
    return {name: part for name, part in doc.items() if name != "spec"}


def set_from_v1alpha1(doc: Doc, old: Doc | None) -> Doc:
    """A new set gets the default spec, one that is there keeps its own."""
    kept = {"spec": old["spec"]} if old and "spec" in old else {}
    return set_to_v1alpha1(doc) | kept


def set_to_v1beta1(doc: Doc) -> Doc:
    spec = {name: part for name, part in spec_of(doc).items() if name != "managedNamespaces"}
    return {**doc, "spec": _with_type(spec, {EXCLUSIVE: LEGACY})}


def set_from_v1beta1(doc: Doc, old: Doc | None) -> Doc:
    stored = spec_of(old) if old else {}
    kept = {name: part for name, part in stored.items() if name == "managedNamespaces"}
    return {**doc, "spec": _with_type(spec_of(doc), {LEGACY: EXCLUSIVE}) | kept}


def _with_type(spec: Doc, names: Mapping[str, str]) -> Doc:
    """The spec with its type of selector under the other version's name."""
    selector = spec.get("clusterSelector")
    if not selector or selector.get("selectorType") not in names:
        return spec
    return {**spec, "clusterSelector": {**selector, "selectorType": names[selector["selectorType"]]}}
