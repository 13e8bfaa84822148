"""Discovery: what the hub serves, as legacy and as aggregated documents (W6, W164).

The legacy and the aggregated documents are written from the same ``Catalogue``, so they cannot disagree (W164).
Endpoints that store nothing (access reviews, the empty list of services) are no kinds; ``virtual_resources`` knows
them. Called by ``endpoints`` and ``openapi``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Kind, Served, Subresource
from ocmconsole.kubeapi.virtual_resources import Endpoint, collected, described, document_paths

MINOR = "32"
# The reference lists the verbs of custom resources in this order.
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_OTHER_PATHS = ("/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


class ServedResource(NamedTuple):
    """One resource of a group version, stored or virtual, with what is below it."""

    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()


class Catalogue:
    """The served kinds and virtual resources by group and version."""

    def __init__(self, served: Iterable[Served], virtual: Iterable[Endpoint]) -> None:
        found: dict[tuple[str, str], dict[str, ServedResource]] = {}
        for entry in served:
            version = entry.version
            found.setdefault((version.group, version.version), {})[entry.kind.plural] = _stored(entry.kind)
        for extra in virtual:
            found.setdefault((extra.group, extra.version), {})[extra.plural] = _virtual(extra)
        self._found = found

    def groups(self) -> dict[str, list[str]]:
        """Named groups with their versions, the preferred version first."""
        found: dict[str, list[str]] = {}
        for group, version in sorted(self._found, key=lambda key: (key[0], preference(key[1]))):
            if group:
                found.setdefault(group, []).append(version)
        return found

    def resources(self, group: str, version: str) -> list[ServedResource] | None:
        """By name; None when nothing is served there."""
        found = self._found.get((group, version))
        return None if found is None else [found[plural] for plural in sorted(found)]


def catalogue() -> Catalogue:
    """What the registries hold now."""
    return Catalogue(chain(kinds.all_served(), collected()), described())


def preference(version: str) -> tuple[int, int, int]:
    """Sort key: v1 before v1beta2, v1beta1 and v1alpha1."""
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        major, found, minor = version.removeprefix("v").partition(stage)
        if found:
            return rank, -int(major), -int(minor or 0)
    return 0, -int(version.removeprefix("v")), 0


def _stored(kind: Kind) -> ServedResource:
    return ServedResource(
        plural=kind.plural,
        singular=kind.singular or kind.kind.lower(),
        kind=kind.kind,
        namespaced=kind.namespaced,
        verbs=tuple(sorted(kind.verbs, key=_CUSTOM_VERBS.index)) if kind.custom else tuple(sorted(kind.verbs)),
        short_names=kind.short_names,
        categories=kind.categories,
        subresources=tuple(sorted(kind.subresources, key=lambda sub: sub.name)),
    )


def _virtual(endpoint: Endpoint) -> ServedResource:
    return ServedResource(
        endpoint.plural,
        endpoint.kind.lower(),
        endpoint.kind,
        endpoint.namespaced,
        endpoint.verbs,
        endpoint.short_names,
    )


# Legacy documents


def api_versions(address: str) -> Doc:
    """``GET /api``; ``address`` is the ``host:port`` the client used."""
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def api_group_list(listed: Catalogue | None = None) -> Doc:
    """``GET /apis``."""
    groups = (listed or catalogue()).groups()
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*entry) for entry in groups.items()]}


def api_group(group: str, listed: Catalogue | None = None) -> Doc | None:
    """``GET /apis/G``; None when there is no such group."""
    versions = (listed or catalogue()).groups().get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)} if versions else None


def _group(name: str, versions: list[str]) -> Doc:
    # Python's client compares preferredVersion with the entries of versions as a whole.
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": dict(listed[0])}


def api_resource_list(group: str, version: str, listed: Catalogue | None = None) -> Doc | None:
    """``GET /api/v1`` and ``GET /apis/G/V``; None when nothing is served there (W7)."""
    resources = (listed or catalogue()).resources(group, version)
    if resources is None:
        return None
    head: Doc = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    entries = [entry for resource in resources for entry in _legacy(resource)]
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries}


def _legacy(resource: ServedResource) -> Iterator[Doc]:
    if resource.verbs:
        entry: Doc = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        yield entry | _names(resource)
    for sub in resource.subresources:
        entry = {"name": f"{resource.plural}/{sub.name}", "singularName": "", "namespaced": resource.namespaced}
        if sub.group is not None:
            entry |= {"group": sub.group, "version": sub.version}
        yield entry | {"kind": sub.kind or resource.kind, "verbs": list(sub.verbs)}


def _names(resource: ServedResource) -> Doc:
    named = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: names for key, names in named.items() if names}


# Aggregated documents (apidiscovery.k8s.io/v2)


def aggregated_core(listed: Catalogue | None = None) -> Doc:
    """``GET /api`` for clients that ask for everything at once."""
    listed = listed or catalogue()
    return _aggregated([{"metadata": {}, "versions": _aggregated_versions(listed, "", ["v1"])}])


def aggregated_groups(listed: Catalogue | None = None) -> Doc:
    """``GET /apis`` for clients that ask for everything at once."""
    listed = listed or catalogue()
    return _aggregated(
        [
            {"metadata": {"name": group}, "versions": _aggregated_versions(listed, group, versions)}
            for group, versions in listed.groups().items()
        ]
    )


def _aggregated(items: list[Doc]) -> Doc:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_versions(listed: Catalogue, group: str, versions: list[str]) -> list[Doc]:
    return [
        {
            "version": version,
            "freshness": "Current",
            "resources": [
                _aggregated_resource(resource, group, version) for resource in listed.resources(group, version) or []
            ],
        }
        for version in versions
    ]


def _aggregated_resource(resource: ServedResource, group: str, version: str) -> Doc:
    entry: Doc = {
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    } | _names(resource)
    if resource.subresources:
        entry["subresources"] = [_aggregated_sub(sub, resource, group, version) for sub in resource.subresources]
    return entry


def _aggregated_sub(sub: Subresource, resource: ServedResource, group: str, version: str) -> Doc:
    foreign = sub.group is not None
    answer = {
        "group": sub.group if foreign else group,
        "version": sub.version if foreign else version,
        "kind": sub.kind or resource.kind,
    }
    return {"subresource": sub.name, "responseKind": answer, "verbs": list(sub.verbs)}


# Version and paths


def version() -> Doc:
    """``GET /version``. The minor keeps clients inside their skew window and picks kubectl 1.32 (W118, W189)."""
    return {
        "major": "1",
        "minor": MINOR,
        "gitVersion": f"v1.{MINOR}.0+ocm.1",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": "linux/amd64",
    }


def root_paths(listed: Catalogue | None = None) -> list[str]:
    """What ``GET /`` lists."""
    paths = {*_OTHER_PATHS, *document_paths(), "/api/v1"}
    for group, versions in (listed or catalogue()).groups().items():
        paths |= {f"/apis/{group}", *(f"/apis/{group}/{served}" for served in versions)}
    return sorted(paths)
