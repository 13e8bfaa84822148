"""Tables and permissions: Django's migrate runs where it has something to do."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission

from registration import hub_setup

pytestmark = pytest.mark.django_db


def test_a_complete_database_is_not_migrated(django_assert_max_num_queries: Any) -> None:
    hub_setup.migrate()
    with django_assert_max_num_queries(3):
        hub_setup.migrate()


def test_a_migration_that_was_cut_off_before_its_permissions_is_finished() -> None:
    missing = Permission.objects.filter(content_type__app_label="clusters", codename="accept_managedcluster")
    assert missing.delete()[0] >= 1
    hub_setup.migrate()
    assert missing.exists()
