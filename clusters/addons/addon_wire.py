"""Printer columns of add-ons, and how v1beta1 says what is stored as v1alpha1 (T9). Pure.

Conversions get and give documents that fit the schema of their version, and never change what they get. What v1beta1
cannot say is taken from the stored document (D1), so a write through it loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from clusters.wire import condition_column
from ocmconsole.kubeapi.kinds import PrinterColumn

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

ADDON_GROUP = "addon.open-cluster-management.io"
V1BETA1 = f"{ADDON_GROUP}/v1beta1"
INSTALL_NAMESPACE = f"{ADDON_GROUP}/v1alpha1-install-namespace"
# v1beta1 must name a configuration where v1alpha1 need not; upstream's clients know this name for none.
NO_DEFAULT = "__reserved_no_default__"
API_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBE_CLIENT, CUSTOM_SIGNER = "kubeClient", "customSigner"

_DISPLAY_NAME = PrinterColumn(
    "DISPLAY NAME", "string", ".spec.addOnMeta.displayName", description="Its name for people."
)

MANAGED_CLUSTER_ADDON_COLUMNS = (
    condition_column("Available", "Available", "Whether the add-on is available."),
    condition_column("Degraded", "Degraded", "Whether the add-on works worse than it should."),
    condition_column("Progressing", "Progressing", "Whether the add-on is being changed."),
)
CLUSTER_MANAGEMENT_ADDON_COLUMNS = (
    _DISPLAY_NAME,
    PrinterColumn(
        "CRD NAME", "string", ".spec.addOnConfiguration.crdName", description="The type of its configuration."
    ),
)
CLUSTER_MANAGEMENT_ADDON_COLUMNS_V1BETA1 = (_DISPLAY_NAME,)


def _with(doc: Doc, **parts: Any) -> Doc:
    """A copy with these parts; None leaves a part out."""
    return {name: part for name, part in {**doc, **parts}.items() if part is not None}


def _each(convert: Callable[[Doc], Doc], items: Iterable[Doc] | None) -> list[Doc] | None:
    return None if items is None else [convert(item) for item in items]


def _part(doc: Doc | None, *path: str) -> Any:
    """What is there, or None."""
    found: Any = doc
    for name in path:
        found = (found or {}).get(name)
    return found


# ---------------------------------------------------------------- ManagedClusterAddOn


def addon_from_v1alpha1(doc: Doc) -> Doc:
    metadata, spec = doc["metadata"], doc["spec"]
    annotations = metadata.get("annotations") or {}
    if place := spec.get("installNamespace"):
        annotations = {**annotations, INSTALL_NAMESPACE: place}
    return _with(
        doc,
        apiVersion=V1BETA1,
        metadata=_with(metadata, annotations=annotations or None),
        spec=_with(spec, installNamespace=None),
        status=_status_from_v1alpha1(doc["status"]) if "status" in doc else None,
    )


def addon_to_v1alpha1(doc: Doc, old: Doc | None) -> Doc:
    """The annotation says where to install; where it is left out, what was said before counts."""
    metadata = doc["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    place = annotations.pop(INSTALL_NAMESPACE, None) or _part(old, "spec", "installNamespace")
    if (own := _part(old, "metadata", "annotations", INSTALL_NAMESPACE)) is not None:
        annotations[INSTALL_NAMESPACE] = own
    return _with(
        doc,
        metadata=_with(metadata, annotations=annotations or None),
        spec=_with(doc["spec"], installNamespace=place),
        status=_status_to_v1alpha1(doc["status"], _part(old, "status") or {}) if "status" in doc else None,
    )


def _status_from_v1alpha1(status: Doc) -> Doc:
    driver = status.get("kubeClientDriver")
    return _with(
        status,
        addOnConfiguration=None,
        kubeClientDriver=None,
        registrations=_each(lambda one: _registration_from_v1alpha1(one, driver), status.get("registrations")),
        configReferences=_each(lambda one: _with(one, name=None, namespace=None), status.get("configReferences")),
    )


def _registration_from_v1alpha1(registration: Doc, driver: str | None) -> Doc:
    subject = registration.get("subject")
    if registration["signerName"] == API_SIGNER:
        named = None if subject is None else _with(subject, organizationUnit=None)
        return {"type": KUBE_CLIENT, KUBE_CLIENT: _with({}, subject=named, driver=driver)}
    if subject is not None:
        subject = _with(subject, organizationUnit=None, organizationUnits=subject.get("organizationUnit"))
    return {"type": CUSTOM_SIGNER, CUSTOM_SIGNER: _with({}, signerName=registration["signerName"], subject=subject)}


def _status_to_v1alpha1(status: Doc, old: Doc) -> Doc:
    registrations, references = status.get("registrations"), status.get("configReferences")
    return _with(
        status,
        addOnConfiguration=old.get("addOnConfiguration"),
        kubeClientDriver=_driver(registrations or (), old),
        registrations=_aligned(_registration_to_v1alpha1, registrations, old.get("registrations")),
        configReferences=_aligned(_reference_to_v1alpha1, references, old.get("configReferences")),
    )


def _aligned(convert: Callable[[Doc, Doc], Doc], items: list[Doc] | None, old: list[Doc] | None) -> list[Doc] | None:
    """Each item with what stood in its place before."""
    before = old or []
    return None if items is None else [
        convert(item, before[place] if place < len(before) else {}) for place, item in enumerate(items)
    ]  # fmt: skip


def _driver(registrations: Iterable[Doc], old: Doc) -> str | None:
    """v1alpha1 knows one driver for all; without a credential for the API v1beta1 has no place to say it."""
    clients = [each.get(KUBE_CLIENT) or {} for each in registrations if each["type"] == KUBE_CLIENT]
    named = clients[0].get("driver") if clients else old.get("kubeClientDriver")
    return str(named) if named else None


def _registration_to_v1alpha1(registration: Doc, old: Doc) -> Doc:
    if registration["type"] == KUBE_CLIENT:
        subject = _part(registration, KUBE_CLIENT, "subject")
        units = _part(old, "subject", "organizationUnit") if old.get("signerName") == API_SIGNER else None
        if subject is not None or units is not None:
            subject = _with(subject or {}, organizationUnit=units)
        return _with({"signerName": API_SIGNER}, subject=subject)
    signer = registration.get(CUSTOM_SIGNER) or {}
    subject = signer.get("subject")
    if subject is not None:
        subject = _with(subject, organizationUnits=None, organizationUnit=subject.get("organizationUnits"))
    return _with({}, signerName=signer.get("signerName"), subject=subject)


def _reference_to_v1alpha1(reference: Doc, old: Doc) -> Doc:
    """v1alpha1 names the configuration once more; it is the wanted one."""
    identifying = ("group", "resource", "desiredConfig")
    wanted = reference.get("desiredConfig") or reference.get("lastAppliedConfig") or {}
    named = old if all(old.get(part) == reference.get(part) for part in identifying) else wanted
    return _with(reference, name=named.get("name"), namespace=named.get("namespace"))


# ---------------------------------------------------------------- ClusterManagementAddOn


def management_from_v1alpha1(doc: Doc) -> Doc:
    spec = doc["spec"]
    defaults = _each(_default_from_v1alpha1, spec.get("supportedConfigs"))
    return _with(
        doc,
        apiVersion=V1BETA1,
        spec=_with(spec, addOnConfiguration=None, supportedConfigs=None, defaultConfigs=defaults),
        status=_renamed(doc.get("status"), "defaultconfigReferences", "defaultConfigReferences"),
    )


def _default_from_v1alpha1(supported: Doc) -> Doc:
    return {**_with(supported, defaultConfig=None), **(supported.get("defaultConfig") or {"name": NO_DEFAULT})}


def management_to_v1alpha1(doc: Doc, old: Doc | None) -> Doc:
    spec = doc["spec"]
    supported = _each(_default_to_v1alpha1, spec.get("defaultConfigs"))
    before = _part(old, "spec", "addOnConfiguration")
    return _with(
        doc,
        spec=_with(spec, defaultConfigs=None, addOnConfiguration=before, supportedConfigs=supported),
        status=_renamed(doc.get("status"), "defaultConfigReferences", "defaultconfigReferences"),
    )


def _default_to_v1alpha1(config: Doc) -> Doc:
    supported = _with(config, name=None, namespace=None)
    if config["name"] != NO_DEFAULT:
        supported["defaultConfig"] = _with({}, name=config["name"], namespace=config.get("namespace"))
    return supported


def _renamed(part: Doc | None, name: str, other: str) -> Doc | None:
    return None if part is None else {other if key == name else key: value for key, value in part.items()}
