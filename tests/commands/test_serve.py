"""``manage.py serve`` where it cannot serve, and what it prints of the first admin."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


@pytest.mark.django_db(transaction=True)
def test_a_port_in_use_is_one_sentence(settings: Any) -> None:
    settings.OCMCONSOLE_CONTROLLERS = "inline"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings.OCMCONSOLE_API_ADDRESS = ("127.0.0.1", port)
        with pytest.raises(CommandError) as refusal:
            call_command("serve")
    wanted = f"cannot listen on 127.0.0.1:{port}: address already in use; is a hub running already?"
    assert str(refusal.value) == wanted


class Terminal(StringIO):
    """Where a person reads."""

    def isatty(self) -> bool:
        return True


@contextmanager
def started(settings: Any, home: Path) -> Iterator[None]:
    """A start that ends at its first port, which is taken."""
    settings.OCMCONSOLE_CONTROLLERS = "inline"
    settings.OCMCONSOLE_HOME = home
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.OCMCONSOLE_API_ADDRESS = ("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CommandError, match="already in use"):
            yield


def printed(settings: Any, home: Path, out: StringIO) -> str:
    with started(settings, home):
        call_command("serve", stdout=out)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_first_start_shows_the_generated_password_once_beside_its_file(
    settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = printed(settings, tmp_path, Terminal())
    password = (tmp_path / "admin-password").read_text().strip()
    assert shown == f"password    {password}  (of admin; shown this once, kept in {tmp_path}/admin-password)\n"
    assert printed(settings, tmp_path, Terminal()) == ""
    assert password not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_password_goes_into_no_journal_pipe_or_file(settings: Any, tmp_path: Path) -> None:
    assert printed(settings, tmp_path, StringIO()) == ""
    assert (tmp_path / "admin-password").exists()


@pytest.mark.django_db(transaction=True)
def test_a_password_that_was_chosen_is_not_shown(settings: Any, tmp_path: Path) -> None:
    settings.OCMCONSOLE_ADMIN_PASSWORD = "correct-horse-staple"
    assert printed(settings, tmp_path, Terminal()) == ""
