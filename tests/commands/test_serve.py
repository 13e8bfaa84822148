"""``manage.py serve`` where it cannot serve."""

from __future__ import annotations

import socket
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
