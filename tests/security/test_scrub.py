"""``manage.py encryption scrub`` on PostgreSQL, as a user that owns the tables and is no superuser."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db(transaction=True)
def test_scrub_needs_no_right_to_ask_for_a_checkpoint() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("rights are PostgreSQL's")
    said = StringIO()
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE scrubber IN ROLE postgres")  # what a superuser owns is its own, and no more
        try:
            cursor.execute("SET ROLE scrubber")
            call_command("encryption", "scrub", stdout=said)
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE scrubber")
    assert "removed by PostgreSQL's next checkpoint" in said.getvalue()
    assert "The tables were written anew" in said.getvalue()
