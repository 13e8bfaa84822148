from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import migrations, models
from django.utils import timezone

if TYPE_CHECKING:
    from django.apps.registry import Apps




def note_revocations(apps: Apps, schema_editor: Any) -> None:  # noqa: ARG001 - the signature of RunPython
    """What was revoked before this column: the newest that is honoured counts, else the newest of all."""
    issued: Any = apps.get_model("registration", "IssuedCertificate")
    facts: Any = apps.get_model("clusters", "ClusterFacts")
    revoked = issued.objects.filter(revoked_at__isnull=False).exclude(cluster="")
    for name in list(revoked.order_by().values_list("cluster", flat=True).distinct()):
        rows = issued.objects.filter(cluster=name).order_by("-not_before", "-not_after", "pk")
        current = rows.filter(revoked_at=None, not_after__gt=timezone.now()).first() or rows.first()
        facts.objects.filter(cluster=name).update(
            certificate_fingerprint=current.pk,
            certificate_not_before=current.not_before,
            certificate_not_after=current.not_after,
            certificate_revoked_at=current.revoked_at,
            certificate_revoked_by=current.revoked_by,
            certificate_revocation_reason=current.revocation_reason,
        )


class Migration(migrations.Migration):
    dependencies = [("clusters", "0005_heartbeats"), ("registration", "0006_policies")]

    operations = [
        migrations.AddField("clusterfacts", "certificate_revoked_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "clusterfacts", "certificate_revoked_by", models.CharField(blank=True, default="", max_length=320)
        ),
        migrations.AddField(
            "clusterfacts", "certificate_revocation_reason", models.TextField(blank=True, default="")
        ),
        migrations.RunPython(note_revocations, migrations.RunPython.noop),
    ]
