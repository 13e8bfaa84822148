"""D19: keys and certificates of an existing database are put into lines.

A line begins with the first key of a name and with each override. A renewal belongs to the line of the certificate that
asked for it, as the audit recorded; where the audit has been cut, to the newest line, so that no agent loses its hub by
an upgrade. Of several lines the newest that is not revoked as a whole stays open. The others end, and their unexpired
certificates are revoked, as the override would do it today. Where each is revoked as a whole, none stays open.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import django.db.models.deletion
import ocmconsole.kubeapi.models
from django.db import migrations, models
from django.utils import timezone


UPGRADE = "system:ocmconsole:upgrade"
REPLACED = "Another key was accepted for this cluster; found by the upgrade."
REVOKED = "All its certificates were revoked; found by the upgrade."
REQUESTS = "certificatesigningrequests.certificates.k8s.io"


class Group:
    """A line in the making."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.keys = [root] if root is not None else []
        self.certificates: list[Any] = []

    @property
    def is_revoked(self) -> bool:
        return bool(self.certificates) and all(each.revoked_at is not None for each in self.certificates)


def put_into_lines(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - Django's signature
    keys: dict[str, list[Any]] = defaultdict(list)
    for key in apps.get_model("registration", "AcceptedKey").objects.order_by("accepted_at", "pk"):
        keys[key.cluster].append(key)
    certificates = list(apps.get_model("registration", "IssuedCertificate").objects.all())
    known = {each.pk: each for each in certificates}
    asked = _asked_with(apps)
    named: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cluster, rows in keys.items():
        for row in rows:
            named[row.fingerprint, row.request].add(cluster)
    of_cluster: dict[str, list[Any]] = defaultdict(list)
    for each in certificates:
        for cluster in _clusters_of(each, named, asked, known):
            of_cluster[cluster].append(each)
    for cluster in sorted({*keys, *of_cluster}):
        _store(apps, cluster, _groups(keys[cluster], of_cluster[cluster], asked, known))


def _asked_with(apps: Any) -> dict[str, str]:
    """By name and by uid of a request, the fingerprint of the certificate with which it was made."""
    events = apps.get_model("kubeapi", "AuditEvent").objects.filter(
        resource=REQUESTS, verb="create", outcome="allowed", credential__startswith="cert:", impersonator=""
    )
    found = {}
    for name, uid, credential in events.order_by("time").values_list("name", "uid", "credential"):
        found[name] = found[uid] = credential.removeprefix("cert:")
    return found


def _clusters_of(
    certificate: Any, named: dict[tuple[str, str], set[str]], asked: dict[str, str], known: dict[str, Any]
) -> set[str]:
    """That of its agent; those that its subject names otherwise; that of the agent which asked for it.

    ``named``: by fingerprint of a key and name of a request, the clusters under whose names it was accepted.
    """
    if certificate.cluster:
        return {certificate.cluster}
    if not certificate.request:
        return set()
    parent = known.get(asked.get(certificate.request, ""))
    found = named.get((certificate.key_fingerprint, certificate.request))
    return found or ({parent.cluster} - {""} if parent is not None else set())


def _groups(keys: list[Any], certificates: list[Any], asked: dict[str, str], known: dict[str, Any]) -> list[Group]:
    """The lines of one cluster with their keys and certificates, oldest first."""
    groups: list[Group] = []
    places: dict[str, int] = {}  # by fingerprint of a key, the newest group that has it
    for key in keys:
        parent = known.get(asked.get(key.request_uid, ""))
        if not groups or key.how == "override":
            groups.append(Group(key))
            place = len(groups) - 1
        else:
            newest = len(groups) - 1
            place = places.get(parent.key_fingerprint, newest) if parent is not None else newest
            groups[place].keys.append(key)
        places[key.fingerprint] = max(place, places.get(key.fingerprint, 0))
    if certificates and not groups:
        groups.append(Group(None))
    for each in certificates:
        parent = known.get(asked.get(each.request, ""))
        shown = (each.key_fingerprint, parent.key_fingerprint if parent is not None and not each.cluster else "")
        found = [places[fingerprint] for fingerprint in shown if fingerprint in places]
        groups[max(found, default=len(groups) - 1)].certificates.append(each)
    return groups


def _store(apps: Any, cluster: str, groups: list[Group]) -> None:
    lines = apps.get_model("registration", "KeyLine").objects
    through = apps.get_model("registration", "IssuedCertificate").lines.through
    now = timezone.now()
    current = next((group for group in reversed(groups) if not group.is_revoked), None)
    for group in groups:
        is_open = group is current
        line = lines.create(
            cluster=cluster,
            begun_at=group.root.accepted_at if group.root else min(each.not_before for each in group.certificates),
            ended_at=None if is_open else now,
            ended_by="" if is_open else UPGRADE,
            end_reason="" if is_open else REVOKED if group.is_revoked else REPLACED,
        )
        for key in group.keys:
            key.line_id = line.pk
            key.save(update_fields=["line"])
        through.objects.bulk_create(
            through(issuedcertificate_id=each.pk, keyline_id=line.pk) for each in group.certificates
        )
        for each in group.certificates:
            if not is_open and each.revoked_at is None and each.not_after > now:
                each.revoked_at, each.revoked_by, each.revocation_reason = now, UPGRADE, REPLACED
                each.save(update_fields=["revoked_at", "revoked_by", "revocation_reason"])
    _show(apps, cluster, now)


def _show(apps: Any, cluster: str, now: Any) -> None:
    """What clusters show of a certificate is the newest that is valid, as ``IssuedCertificate.save`` keeps it."""
    rows = apps.get_model("registration", "IssuedCertificate").objects.filter(cluster=cluster)
    newest = rows.filter(revoked_at=None, not_after__gt=now).order_by("-not_before", "-not_after", "pk").first()
    if newest is not None:
        apps.get_model("clusters", "ClusterFacts").objects.filter(cluster=cluster).update(
            certificate_fingerprint=newest.pk,
            certificate_not_before=newest.not_before,
            certificate_not_after=newest.not_after,
            certificate_revoked_at=None,
            certificate_revoked_by="",
            certificate_revocation_reason="",
        )


class Migration(migrations.Migration):

    dependencies = [
        ('registration', '0006_policies'),
        ('kubeapi', '0004_bulk_jobs'),
        ('clusters', '0006_revoked_certificates'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeyLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', ocmconsole.kubeapi.models.NameField(max_length=63)),
                ('begun_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('ended_by', models.CharField(blank=True, default='', max_length=320)),
                ('end_reason', models.TextField(blank=True, default='')),
            ],
            options={
                'indexes': [models.Index(fields=['cluster', 'ended_at'], name='registratio_cluster_790bff_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('cluster',), name='registration_keyline_open_of_cluster')],
            },
        ),
        migrations.AddField(
            model_name='acceptedkey',
            name='line',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='keys', to='registration.keyline'),
        ),
        migrations.AddField(
            model_name='issuedcertificate',
            name='lines',
            field=models.ManyToManyField(related_name='certificates', to='registration.keyline'),
        ),
        migrations.RunPython(put_into_lines, migrations.RunPython.noop, elidable=True),
    ]
