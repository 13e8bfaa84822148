"""``manage.py repair``: what it says is wrong, and the manifest that it writes; or one sentence, and nothing changed."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import F
from django.utils import timezone
from time_machine import travel

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.models import AuditEvent
from registration.approvals import services
from registration.certificates import agent_troubles, ca_rotation
from registration.certificates.agent_troubles import Trouble
from registration.models import IssuedCertificate
from registration.pki import ca
from tests import factories as make
from tests import requests
from tests.actors import ROOT
from tests.security.callers import CLUSTERS, REQUESTS, bearer, request_for

pytestmark = pytest.mark.contract("D29")


@pytest.fixture(autouse=True)
def _hub(tmp_path: Path, settings: Any, db: None) -> None:
    make.hub(tmp_path, settings)
    User.objects.create_superuser("admin")


def join(name: str = "edge") -> IssuedCertificate:
    with_token = bearer(tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1)))
    doc = make.document(MANAGED_CLUSTER, name, spec={"hubAcceptsClient": False})
    assert with_token.post(CLUSTERS, doc).code == 201
    assert with_token.post(REQUESTS, request_for(name, f"{name}-0")).code == 201
    services.accept_cluster(ROOT, name)
    make.settle()
    make.available(name)
    make.renew(name)
    make.settle()
    return IssuedCertificate.objects.get(cluster=name)


def repair(*options: str) -> tuple[str, str]:
    """What it writes to stdout and to stderr."""
    out, err = StringIO(), StringIO()
    call_command("repair", "edge", *options, stdout=out, stderr=err, no_color=True)
    return out.getvalue(), err.getvalue()


def age(row: IssuedCertificate, by: timedelta) -> None:
    """The certificate is so much older."""
    row = IssuedCertificate.objects.get(pk=row.pk)
    row.not_before, row.not_after = row.not_before - by, row.not_after - by
    row.save()


def wrong() -> agent_troubles.AgentTrouble:
    return agent_troubles.what_is_wrong("edge", timezone.now())


def silence(ago: timedelta) -> None:
    with travel(timezone.now() - ago):
        make.renew("edge")
    with travel(timezone.now() - ago + timedelta(minutes=10)):
        make.serve_since(timedelta(days=1))
        make.sweep()


# ---------------------------------------------------------------- what it writes


@pytest.mark.contract("D9", "D19")
def test_the_manifest_on_stdout_brings_the_agent_back(tmp_path: Path) -> None:
    age(join(), timedelta(days=366))
    out, err = repair()
    secret = yaml.safe_load(out)
    kubeconfig = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    lines = err.splitlines()
    assert lines[0].startswith("edge: Its certificate ended 1 d")
    assert "  kubectl apply -f repair-edge.yaml" in lines
    assert "rollout restart" not in err  # its certificate has ended: it starts over by itself
    token = kubeconfig["users"][0]["user"]["token"]
    assert bearer(token).post(REQUESTS, request_for("edge", "edge-1")).code == 201
    make.settle()
    assert requests.state("edge-1") == "Issued"


def test_a_file_is_readable_by_its_owner_only_and_stdout_says_what_to_do(tmp_path: Path) -> None:
    services.revoke_certificate(ROOT, join().pk, reason="The disk was sold.")
    path = tmp_path / "fix.yaml"
    out, err = repair("--output", str(path), "--ttl", "15m")
    assert path.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(path.read_text())["metadata"]["name"] == "bootstrap-hub-kubeconfig"
    assert err == ""
    assert "Its certificate was revoked by root" in out
    assert "The disk was sold." in out
    assert [line.strip() for line in out.splitlines() if line.startswith("  ")] == [
        agent_troubles.FORGET,  # first, as an agent that takes the manifest by itself must not lose what it got
        f"kubectl apply -f {path}",
        agent_troubles.RESTART,
    ]
    token = BootstrapToken.objects.get(key_line__isnull=False)
    assert token.expires - token.created == timedelta(minutes=15)


# ---------------------------------------------------------------- what is wrong


def test_nothing_is_wrong() -> None:
    join()
    found = wrong()
    assert (found.kind, found.must_start_over) == (Trouble.NOTHING, True)
    assert found.text.startswith("Nothing is wrong that the hub knows of: it was heard ")


def test_a_certificate_that_should_have_been_renewed() -> None:
    age(join(), timedelta(days=300))
    found = wrong()
    assert found.kind is Trouble.LATE
    assert found.text.startswith("Its certificate ends in 6")


def test_an_agent_that_was_never_heard() -> None:
    make.cluster("edge")
    requests.ask("edge-0", requests.agent_pem("edge"), cluster="edge")
    services.accept_cluster(ROOT, "edge")
    make.settle()
    assert wrong().kind is Trouble.UNHEARD


def test_silence_and_silence_for_longer_than_a_certificate_lasts() -> None:
    with travel(timezone.now() - timedelta(days=1)):
        row = join()
    silence(timedelta(hours=3))
    found = wrong()
    assert found.kind is Trouble.SILENT
    assert found.text.startswith("It was last heard 3 h")
    assert "logs deployment/klusterlet-registration-agent" in found.text
    row = IssuedCertificate.objects.get(pk=row.pk)
    row.not_before, row.not_after = timezone.now() - timedelta(hours=1), timezone.now() + timedelta(hours=1)
    row.save()
    assert wrong().kind is Trouble.LONG_SILENT


def test_the_hubs_address_has_changed_and_the_agent_is_silent(settings: Any) -> None:
    with travel(timezone.now() - timedelta(days=1)):
        join()
    make.renew("edge")
    was, settings.OCMCONSOLE_API_URL = settings.OCMCONSOLE_API_URL, "https://hub.example:6443"
    assert wrong().kind is Trouble.NOTHING  # it is heard, by whatever way
    silence(timedelta(hours=3))
    found = wrong()
    assert f"The hub gave it the address {was}, and is https://hub.example:6443 now." in found.text
    assert not found.must_start_over  # the new address alone makes it start over


@pytest.mark.contract("D26")
def test_the_serving_ca_is_being_rotated_or_was_and_a_repair_counts_as_given() -> None:
    join()
    IssuedCertificate.objects.update(not_before=F("not_before") - timedelta(hours=1))
    BootstrapTokenUse.objects.update(since=F("since") - timedelta(hours=1))
    BootstrapToken.objects.update(created=F("created") - timedelta(hours=1))
    ca_rotation.rotate(ROOT, ca.AuthorityRole.SERVING)
    found = wrong()
    assert (found.kind, found.must_start_over) == (Trouble.NOT_GIVEN, False)
    assert "loses the hub when the old one is retired" in found.text
    assert [each.name for each in ca_rotation.progress_of(ca.AuthorityRole.SERVING).left] == ["edge"]
    out, _ = repair()
    kubeconfig = yaml.safe_load(base64.b64decode(yaml.safe_load(out)["data"]["kubeconfig"]))
    given = base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"])
    assert given.count(b"BEGIN CERTIFICATE") == 2
    assert bearer(kubeconfig["users"][0]["user"]["token"]).post(REQUESTS, request_for("edge", "edge-1")).code == 201
    make.settle()
    # Dates of certificates are whole seconds: the token was minted in a later one.
    BootstrapToken.objects.filter(key_line__isnull=False).update(created=F("created") + timedelta(seconds=2))
    assert [each.name for each in ca_rotation.progress_of(ca.AuthorityRole.SERVING).left] == ["edge"]  # not seen yet
    IssuedCertificate.objects.filter(request="edge-1").update(authority="SHA256:seen")
    assert ca_rotation.progress_of(ca.AuthorityRole.SERVING).left == ()
    assert wrong().kind is Trouble.NOTHING


@pytest.mark.contract("D26")
def test_after_a_forced_retirement_an_agent_that_is_still_heard_was_not_given_the_ca() -> None:
    with travel(timezone.now() - timedelta(days=1)):
        join()
    make.renew("edge")
    ca_rotation.rotate(ROOT, ca.AuthorityRole.SERVING)
    ca_rotation.retire(ROOT, ca.AuthorityRole.SERVING, force=True)
    found = wrong()
    assert (found.kind, found.must_start_over) == (Trouble.NOT_GIVEN, False)
    assert "loses the hub at the next one" in found.text
    silence(timedelta(hours=3))
    assert "it may refuse the hub" in wrong().text


def test_a_rotation_has_a_manifest_made_for_each_who_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    join()
    make.cluster("keyless", accepted=True)
    make.settle()
    for model, column in ((BootstrapToken, "created"), (BootstrapTokenUse, "since")):
        model.objects.update(**{column: F(column) - timedelta(hours=1)})
    with pytest.raises(CommandError, match="is not being rotated"):
        call_command("repair", "--not-given", str(folder))
    ca_rotation.rotate(ROOT, ca.AuthorityRole.SERVING)
    out, err = StringIO(), StringIO()
    call_command("repair", "--not-given", str(folder), "--ttl", "24h", stdout=out, stderr=err, no_color=True)
    assert [path.name for path in folder.iterdir()] == ["repair-edge.yaml"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert out.getvalue().splitlines()[-1] == "1 made, each to be applied on its cluster once; 1 not"
    assert "keyless has no line of keys to continue" in err.getvalue()
    User.objects.create_user("li")
    for arguments, says in (
        (("--not-given", str(folder), "--as", "li"), "by its admins"),
        (("--not-given", str(tmp_path / "none" / "below")), "is no folder that can be written"),
        (("edge", "--not-given", str(folder)), "repair takes NAME, or --not-given FOLDER alone"),
        ((), "repair takes NAME"),
    ):
        with pytest.raises(CommandError, match=says):
            call_command("repair", *arguments, stdout=StringIO(), stderr=StringIO())


# ---------------------------------------------------------------- bad input


def test_bad_input_is_one_sentence_and_changes_nothing(tmp_path: Path) -> None:
    User.objects.create_user("li")
    join()
    before = AuditEvent.objects.filter(outcome="allowed").count()
    for arguments, says in (
        (("nowhere",), "There is no cluster nowhere."),
        (("edge", "--as", "li"), "clusters.accept_managedcluster"),
        (("edge", "--as", "nobody"), "there is no active user 'nobody'"),
        (("edge", "--ttl", "soon"), "is not a duration"),
        (("edge", "--ttl", "48h"), "at most 1 day"),
        (("edge", "--output", str(tmp_path / "none" / "file")), "cannot be written: nothing is changed"),
    ):
        with pytest.raises(CommandError, match=says) as raised:
            call_command("repair", *arguments, stdout=StringIO(), stderr=StringIO())
        assert "\n" not in str(raised.value)
    make.accept("edge", accepts=False)
    with pytest.raises(CommandError, match="edge is not accepted"):
        call_command("repair", "edge", stdout=StringIO(), stderr=StringIO())
    assert not BootstrapToken.objects.filter(key_line__isnull=False).exists()
    allowed = AuditEvent.objects.filter(outcome="allowed").exclude(name="edge", verb="patch")
    assert allowed.count() <= before + 10  # what un-accepting does
    assert ClusterFacts.objects.get(cluster="edge").certificate_revoked_at is None


@pytest.mark.parametrize("form", ["pipe", "stdout"])
def test_what_is_no_file_is_not_replaced_by_one(form: str, tmp_path: Path) -> None:
    """As root would replace ``/dev/stdout`` for the whole machine."""
    join()
    place = tmp_path / form
    if form == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/proc/self/fd/1")
    before = place.lstat().st_ino
    with pytest.raises(CommandError, match="is no file that can be replaced"):
        repair("--output", str(place))
    assert place.lstat().st_ino == before
    assert BootstrapToken.objects.get(key_line__isnull=False).revoked_at is not None
