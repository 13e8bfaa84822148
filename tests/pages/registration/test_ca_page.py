"""The page *Hub CA* while a CA is rotated: what signs, who is left, and what to type."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from registration.certificates import ca_rotation, certificate_pages
from registration.models import IssuedCertificate
from registration.pki import ca, kubeconfigs
from tests import factories as make
from tests.actors import ROOT
from tests.pages.joining import hub, page, person
from tests.security.callers import agent_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ready(tmp_path: Path, settings: Any) -> None:
    hub(tmp_path, settings)


@pytest.fixture
def boss() -> Client:
    return person("root")


def read(boss: Client) -> str:
    """The text of the page."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page(boss.get("/ca/")))).split())


def cluster_that_was_seen(name: str) -> None:
    make.cluster(name, accepted=True)
    make.settle()
    agent_of(name).get("/version")
    IssuedCertificate.objects.filter(common_name__contains=f":{name}:").update(cluster=name)


def test_without_a_rotation_there_is_one_authority_and_the_command_for_another(boss: Client) -> None:
    text = read(boss)
    assert "Authority Name ocmconsole hub" in text
    assert "rotate client lets a new one take its place." in text
    assert "rotated" not in text


def test_certificates_of_people_are_counted_also_where_some_are_not_listed(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        kubeconfigs.of_user(ROOT, f"li-{number}", groups=(), lifetime=timedelta(days=1 + number))
    count = IssuedCertificate.objects.filter(cluster="", revoked_at=None).count()
    assert f"Certificates of people ({count}) User" in read(boss)
    monkeypatch.setattr(certificate_pages, "REVOKED_SHOWN", 1)
    assert f"Certificates of people ({count}, shown are the 1 that end first)" in read(boss)
    IssuedCertificate.objects.filter(cluster="").update(revoked_at=F("not_before"))
    assert f"Revoked ({count}, shown are the last 1)" in read(boss)


def test_a_rotation_of_clients_says_who_was_seen_and_who_is_left(boss: Client) -> None:
    cluster_that_was_seen("late")
    kubeconfigs.of_user(ROOT, "li", groups=(), lifetime=timedelta(days=1))
    ca_rotation.rotate(ROOT, ca.AuthorityRole.CLIENT)
    cluster_that_was_seen("early")
    text = read(boss)
    assert "The CA of clients is being rotated" in text
    assert "1 cluster was seen with a certificate of the CA that signs." in text
    assert "Left 2: late , li" in text
    assert "rotate client --back lets the old one sign again." in text
    assert "Authority of clients" in text
    assert "Authority of serving" in text
    IssuedCertificate.objects.update(not_before=F("not_before") - timedelta(hours=1))  # told apart by seconds
    ca_rotation.turn_back(ROOT, ca.AuthorityRole.CLIENT)
    text = read(boss)
    assert "The CA of clients is being rotated: rolled back" in text
    assert "Left 1: early" in text


def test_a_rotation_of_serving_says_who_was_given_the_new_ca(boss: Client) -> None:
    cluster_that_was_seen("edge")
    ca_rotation.rotate(ROOT, ca.AuthorityRole.SERVING)
    text = read(boss)
    assert "0 clusters were given the CA that signs." in text
    assert "Left 1: edge" in text
    ca_rotation.turn_back(ROOT, ca.AuthorityRole.SERVING)
    text = read(boss)
    assert "Left Nobody" in text
    assert "retire serving ends the rotation." in text


def test_nobody_but_an_admin_sees_it() -> None:
    assert person("li", "view_managedcluster").get("/ca/").status_code == 403
