"""Django admin of placements, their decisions and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from ocmconsole.djangoadmin.resources import ResourceAdmin, register
from placements import kinds
from placements.models import PlacementDecision

if TYPE_CHECKING:
    from django.http import HttpRequest

register(kinds.PLACEMENT, kinds.ADD_ON_PLACEMENT_SCORE)


@admin.register(PlacementDecision)
class PlacementDecisionAdmin(ResourceAdmin):
    kind = kinds.PLACEMENT_DECISION
    search_fields = ("name__contains", "namespace__contains")
    lookups = ("namespace", "name", "placement")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("namespace", "name", "placement", "created")
