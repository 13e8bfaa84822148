"""D9: an upgraded hub remembers the keys that its stored requests show."""

from __future__ import annotations

import json
from typing import Any

from django.db import migrations

from registration.keys import key_history

APPROVED = ("Approved", "Issued")


def remember(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001 - Django's signature
    requests = apps.get_model("registration", "CertificateSigningRequest").objects
    keys = apps.get_model("registration", "AcceptedKey").objects
    for row in requests.filter(state__in=APPROVED).order_by("created"):
        doc = json.loads(row.wire)
        try:
            clusters, request = key_history.names_of(doc), key_history.requested(doc)
        except ValueError:
            continue  # D12: what cannot be read speaks for nobody
        for cluster in clusters:
            keys.get_or_create(
                cluster=cluster,
                fingerprint=request.key_fingerprint,
                defaults={
                    "key": request.key_text[:64],
                    "how": "upgrade",
                    "accepted_at": row.decided_at or row.created,
                    "request": row.name,
                    "request_uid": row.uid,
                },
            )


class Migration(migrations.Migration):
    dependencies = [("registration", "0002_memory")]

    operations = [migrations.RunPython(remember, migrations.RunPython.noop, elidable=True)]
