"""Django admin of what clusters bring along: leases, add-ons, works, and what the hub recorded about them.

Clusters themselves: see ``registration``. Records follow D16: who sees a cluster sees what is recorded of it; what is
recorded of clusters that are gone is for those who see all clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.urls import reverse

from clusters import kinds, queries
from clusters.addons import addon_kinds
from clusters.health import heartbeat_history
from clusters.kinds import conditions_of, parse_instant
from clusters.models import ClusterFacts, HeartbeatDay, Lease, ManagedClusterAddOn, ManifestWork, Silence, Transition
from ocmconsole.djangoadmin.lists import status_label
from ocmconsole.djangoadmin.resources import ReadOnlyAdmin, ResourceAdmin, register
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.templatetags.console import ago

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString

register(kinds.CLUSTER_CLAIM, addon_kinds.CLUSTER_MANAGEMENT_ADDON)


class OfClusters(ReadOnlyAdmin):
    """Rows with the name of a cluster in ``cluster``."""

    is_for_all_staff = True
    search_fields: ClassVar[tuple[str, ...]] = ("cluster__contains",)
    search_help_text = "Part of a cluster's name"
    lookups: ClassVar[tuple[str, ...]] = ("cluster",)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        actor = actor_of(request, EntryPoint.ADMIN)
        if queries.sees_all(actor):
            return rows
        return rows.filter(cluster__in=queries.clusters_for(actor).order_by().values("name"))

    def view_on_site(self, row: Any) -> str | None:
        return reverse("clusters:detail", args=[row.cluster]) if row.cluster else None


@admin.register(Lease)
class LeaseAdmin(ResourceAdmin):
    kind = kinds.LEASE
    search_fields = ("namespace__contains",)
    search_help_text = "Part of a cluster's name"

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("namespace", "name", "renewed", "behind", "created")

    @admin.display(description="last renewal")
    def renewed(self, row: Lease) -> object:
        return ago(parse_instant(row.renew_time)) if row.renew_time is not None else "never"

    @admin.display(description="clock behind the hub's, s")
    def behind(self, row: Lease) -> str:
        return f"{row.skew / kinds.SECOND:.1f}" if row.skew is not None else ""

    def view_on_site(self, row: Lease) -> str:
        return reverse("clusters:tab", args=[row.namespace, "health"])


class OfNamespaces(ResourceAdmin):
    """A kind whose namespace is the cluster, with the conditions that its agent reported."""

    unread = ("labels",)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django's signature
        return ("namespace", "name", "conditions", "created", "deleted_at")

    @admin.display
    def conditions(self, row: Any) -> str:
        """``Applied; not Progressing; unknown: Available``."""
        found = [(str(each.get("type", "")), each.get("status")) for each in conditions_of(row.doc)]
        held = ", ".join(name for name, status in found if status == "True")
        lacking = ", ".join(name for name, status in found if status == "False")
        unknown = ", ".join(name for name, status in found if status not in {"True", "False"})
        said = (held, f"not {lacking}" if lacking else "", f"unknown: {unknown}" if unknown else "")
        return "; ".join(filter(None, said)) or "none reported"

    def view_on_site(self, row: Any) -> str:
        return reverse("clusters:detail", args=[row.namespace])


@admin.register(ManagedClusterAddOn)
class ManagedClusterAddOnAdmin(OfNamespaces):
    kind = addon_kinds.MANAGED_CLUSTER_ADDON


@admin.register(ManifestWork)
class ManifestWorkAdmin(OfNamespaces):
    """Never the manifests themselves, which may hold Secrets: only what kinds and names they have."""

    kind = addon_kinds.MANIFEST_WORK
    form = forms.ModelForm  # no document
    fields = readonly_fields = ("namespace", "name", "created", "deleted_at", "conditions", "manifests")

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's signature
        return False

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        return admin.ModelAdmin.get_form(self, request, obj, change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:  # noqa: ARG002 - Django's signature
        return self.readonly_fields

    @admin.display
    def manifests(self, row: ManifestWork) -> str:
        workload = (row.doc.get("spec") or {}).get("workload") or {}
        return "\n".join(_named(each) for each in workload.get("manifests") or [] if isinstance(each, dict)) or "none"


def _named(manifest: dict[str, Any]) -> str:
    metadata = manifest.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    where = f"{given['namespace']}/" if given.get("namespace") else ""
    return f"{manifest.get('kind', 'unknown kind')} {where}{given.get('name', '')}"


# ---------------------------------------------------------------- the hub's own records


@admin.register(ClusterFacts)
class ClusterFactsAdmin(OfClusters):
    """Who decided what about a name, and the certificate that counts for it."""

    list_display = ("cluster", "decided", "decided_by", "decided_at", "decision_reason", "certificate_not_after")
    list_filter = ("decision",)
    ordering = ("cluster",)
    date_hierarchy = "decided_at"

    @admin.display(description="decision")
    def decided(self, row: ClusterFacts) -> SafeString:
        tones = {"accepted": "ok", "declined": "quiet", "disconnected": "warn"}
        return status_label(row.get_decision_display() or "None", tones.get(row.decision, "quiet"))


@admin.register(Silence)
class SilenceAdmin(OfClusters):
    """Clusters that were called silent, and after which heartbeat."""

    list_display = ("cluster", "at", "last_heartbeat")
    ordering = ("cluster",)

    @admin.display
    def last_heartbeat(self, row: Silence) -> datetime | None:
        return parse_instant(row.renew_time) if row.renew_time is not None else None


@admin.register(Transition)
class TransitionAdmin(OfClusters):
    """What clusters became, and when."""

    list_display = ("at", "cluster", "turn")
    list_filter = ("turn",)
    ordering = ("-at",)
    date_hierarchy = "at"


@admin.register(HeartbeatDay)
class HeartbeatDayAdmin(OfClusters):
    """How well a cluster was heard on a day; the tab Health of its page draws it."""

    list_display = ("cluster", "day", "heard", "missed")
    fields = readonly_fields = ("cluster", "day", "heard", "missed")
    ordering = ("-pk",)
    date_hierarchy = "day"

    @admin.display(description="heard, of five minutes each")
    def heard(self, row: HeartbeatDay) -> int:
        levels = heartbeat_history.unpacked(bytes(row.cells))
        return sum(level not in {heartbeat_history.Level.UNKNOWN, heartbeat_history.Level.MISSED} for level in levels)

    @admin.display(description="missed")
    def missed(self, row: HeartbeatDay) -> int:
        return heartbeat_history.unpacked(bytes(row.cells)).count(heartbeat_history.Level.MISSED)

    def view_on_site(self, row: HeartbeatDay) -> str:
        return reverse("clusters:tab", args=[row.cluster, "health"])
