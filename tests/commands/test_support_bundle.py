"""``manage.py support-bundle``: what it holds, and that no secret is in it."""

from __future__ import annotations

import json
import sys
import tarfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.core.kinds import SECRET
from ocmconsole.environment.durations import span
from registration import hub_setup
from registration.pki import ca
from tests import factories as make
from tests import hub as hubs
from tests import preloaded, servers

PLANTED = "planted-and-never-shown"


def bundle(path: Path) -> dict[str, str]:
    """Its files, by name."""
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as found:
        texts = {Path(each.name).name: found.extractfile(each) for each in found}
        return {name: file.read().decode() for name, file in texts.items() if file}


@pytest.mark.django_db
def test_it_counts_what_there_is_and_holds_neither_secrets_nor_names(tmp_path: Path, settings: Any) -> None:
    settings.OCMCONSOLE_HOME = tmp_path
    for name in (
        "SECRET_KEY", "ADMIN_PASSWORD", "BACKUP_PASSPHRASE", "OIDC_CLIENT_SECRET", "DATABASE_URL", "REDIS_URL", "HUB_NAME",
    ):  # fmt: skip
        setattr(settings, f"OCMCONSOLE_{name}", "" if name == "REDIS_URL" else PLANTED)
    settings.OCMCONSOLE_RESOURCE_LABELS = {"team": PLANTED}
    ca.ensure_authority(tmp_path, hub_setup.serving_names())
    make.namespace("default")
    make.create(SECRET, {**make.document(SECRET, PLANTED), "stringData": {"key": PLANTED}}, namespace="default")
    for number in range(3):
        make.create(MANAGED_CLUSTER, make.document(MANAGED_CLUSTER, f"{PLANTED}-{number}"))
    User.objects.create_user(PLANTED, password=PLANTED)
    out = StringIO()
    call_command("support-bundle", str(tmp_path / "bundle.tar.gz"), stdout=out)
    found = bundle(tmp_path / "bundle.tar.gz")
    assert out.getvalue().strip().endswith(": " + ", ".join(found))
    assert [name for name, text in found.items() if PLANTED in text or "PRIVATE KEY" in text or '"error"' in text] == []
    read = {name: json.loads(text) for name, text in found.items() if name.endswith(".json")}
    assert sum(read["clusters.json"].values()) == ManagedCluster.objects.count() == 3
    assert read["database.json"]["rows"][str(MANAGED_CLUSTER)] == 3
    assert read["settings.json"]["OCMCONSOLE_SECRET_KEY"] == "set"
    assert read["settings.json"]["OCMCONSOLE_CERT_LIFETIME"] == span(settings.OCMCONSOLE_CERT_LIFETIME)
    assert not any(read["checks.json"]["problems"].values())
    assert "ocmconsole_work_items " in found["metrics.txt"]


@pytest.mark.django_db
def test_a_place_where_nothing_can_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"/nowhere/bundle.tar.gz cannot be written: No such file or directory$"):
        call_command("support-bundle", str(tmp_path / "nowhere" / "bundle.tar.gz"))
    assert [*tmp_path.iterdir()] == []


def test_without_a_database_and_a_ca_it_says_so_and_holds_the_rest(tmp_path: Path) -> None:
    url = f"postgres://hub:{PLANTED}@127.0.0.1:{servers.free_port()}/hub"
    hub = hubs.prepare(tmp_path, database_url=url)
    command = [sys.executable, "manage.py", "support-bundle", str(tmp_path / "bundle.tar.gz")]
    done = preloaded.run(command, cwd=hubs.ROOT, env=dict(hub.environment))
    assert done.returncode == 0, done.stderr
    found = bundle(tmp_path / "bundle.tar.gz")
    assert PLANTED not in "".join(found.values())
    assert "the database does not answer" in json.loads(found["database.json"])["error"]
    assert json.loads(found["machine.json"])["packages"]["Django"]
