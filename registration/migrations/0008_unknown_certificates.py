"""D26, D24: the register of an existing database is completed, so that what it has issued is honoured.

A certificate that only the facts of its cluster know, from before there was a register, is entered; as revoked where
the lines of its cluster have all ended. A certificate of a
person that was issued before the account of that name existed is revoked.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

UPGRADE = "system:ocmconsole:upgrade"
NAMED = "An account of this name was made; found by the upgrade."
# How long a certificate begins before it is issued, and what its whole seconds leave open.
BACKDATED, ROUNDED = timedelta(minutes=5), timedelta(minutes=1)


def complete(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - Django's signature
    issued = apps.get_model("registration", "IssuedCertificate")
    _enter_facts(apps, issued)
    accounts = apps.get_model(settings.AUTH_USER_MODEL).objects.values_list("username", "date_joined")
    now = timezone.now()
    for username, joined in accounts.iterator(chunk_size=1_000):
        earlier = issued.objects.filter(common_name=username, cluster="", revoked_at=None, not_after__gt=now)
        earlier.filter(not_before__lt=joined - BACKDATED - ROUNDED).update(
            revoked_at=now, revoked_by=UPGRADE, revocation_reason=NAMED
        )


def _enter_facts(apps: Any, issued: Any) -> None:
    lines = apps.get_model("registration", "KeyLine").objects
    known = issued.objects.values("fingerprint")
    facts = apps.get_model("clusters", "ClusterFacts").objects.exclude(certificate_fingerprint="")
    missing = facts.filter(certificate_not_before__isnull=False, certificate_not_after__gt=timezone.now())
    for row in missing.exclude(certificate_fingerprint__in=known):
        of_cluster = lines.filter(cluster=row.cluster)
        line = of_cluster.filter(ended_at=None).first() or of_cluster.order_by("-ended_at", "-pk").first()
        if line is None:
            line = lines.create(cluster=row.cluster, begun_at=row.certificate_not_before)
        revoked = {"revoked_at": line.ended_at, "revoked_by": line.ended_by, "revocation_reason": line.end_reason}
        certificate = issued.objects.create(
            fingerprint=row.certificate_fingerprint,
            common_name=f"system:open-cluster-management:{row.cluster}",
            cluster=row.cluster,
            key_fingerprint="",
            serial="",
            not_before=row.certificate_not_before,
            not_after=row.certificate_not_after,
            **revoked,
        )
        certificate.lines.add(line)
        if line.ended_at is not None:
            shown = {f"certificate_{name}": value for name, value in revoked.items()}
            apps.get_model("clusters", "ClusterFacts").objects.filter(pk=row.pk).update(**shown)


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('registration', '0007_lines_of_keys'),
    ]

    operations = [
        migrations.CreateModel(
            name='UnknownCertificate',
            fields=[
                ('fingerprint', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('common_name', models.CharField(max_length=320)),
                ('organizations', models.TextField(blank=True, default='')),
                ('serial', models.CharField(max_length=40)),
                ('key_fingerprint', models.CharField(max_length=71)),
                ('not_before', models.DateTimeField()),
                ('not_after', models.DateTimeField()),
                ('address', models.CharField(blank=True, default='', max_length=64)),
                ('first_seen', models.DateTimeField()),
                ('last_seen', models.DateTimeField(db_index=True)),
                ('times', models.PositiveBigIntegerField(default=1)),
            ],
        ),
        migrations.AlterField(
            model_name='acceptedkey',
            name='how',
            field=models.CharField(choices=[('accept', 'Accept'), ('renewal', 'Renewal'), ('override', 'Override'), ('upgrade', 'Upgrade'), ('recorded', 'Recorded')], max_length=8),
        ),
        migrations.RunPython(complete, migrations.RunPython.noop, elidable=True),
    ]
