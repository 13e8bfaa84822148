"""Admission of placements. Upstream has no rule of its own for them (A12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocmconsole.kubeapi import admission, errors
from ocmconsole.kubeapi.schema.values import quoted
from placements.kinds import PLACEMENT

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

LONGEST_NAME = 63  # characters of a label's value


@admission.validator(PLACEMENT)
def placement_name_fits_a_label(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """K38: PlacementDecisions carry the Placement's name as the value of a label. Raises Invalid for a longer one."""
    name = new["metadata"]["name"]
    if old is None and len(name) > LONGEST_NAME:
        text = f"must be no more than {LONGEST_NAME} characters: PlacementDecisions carry it as a label"
        cause = errors.invalid_field("metadata.name", quoted(name), text)
        raise errors.is_invalid(PLACEMENT.group, PLACEMENT.kind, name, [cause])
