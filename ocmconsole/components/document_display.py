"""A document as people read and edit it: YAML in the order of kubectl, without the bookkeeping of field owners.

Used by pages and by Django admin, never by the API.
"""

from __future__ import annotations

import yaml

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.errors import Doc

HIDDEN = ("managedFields",)
FIRST = ("apiVersion", "kind", "metadata", "spec")


def as_yaml(doc: Doc) -> str:
    metadata = {name: part for name, part in doc["metadata"].items() if name not in HIDDEN}
    whole = {**doc, "metadata": metadata}
    ordered = {name: whole[name] for name in (*FIRST, *whole) if name in whole}
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True)


def shown_over(stored: Doc, edited: Doc) -> Doc:
    """What ``as_yaml`` left out is kept."""
    metadata = edited.get("metadata")
    if not isinstance(metadata, dict):
        raise errors.BadRequest("metadata must be an object")
    hidden = {name: stored["metadata"][name] for name in HIDDEN if name in stored["metadata"]}
    return {**edited, "metadata": {**metadata, **hidden}}
