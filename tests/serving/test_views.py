"""A listener whose views cannot be imported: ``/readyz`` names it, until a request finds them whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import clear_url_caches

from ocmconsole.kubeapi.health import probes
from ocmconsole.server import django_handler
from ocmconsole.server.listeners import CONSOLE

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def unimported() -> Iterator[None]:
    before = set(django_handler._imported)
    django_handler._imported.discard(CONSOLE)
    clear_url_caches()
    yield
    clear_url_caches()
    django_handler._unusable.clear()
    django_handler._imported.clear()
    django_handler._imported.update(before)


def said() -> tuple[int, str]:
    probes.monitor.look()
    answer = probes.answer("/readyz/views", [])
    assert answer is not None
    return answer.status, answer.text


def test_a_console_whose_views_cannot_be_imported_is_not_ready(settings: Any) -> None:
    whole = settings.ROOT_URLCONF
    assert said() == (200, "ok")
    settings.ROOT_URLCONF = "tests.serving.no_such_urls"
    with pytest.raises(ModuleNotFoundError):
        django_handler.import_views(CONSOLE)
    status, text = said()
    assert (status, "the views of the listener console cannot be imported" in text) == (500, True)
    every = probes.answer("/readyz", [])
    assert every is not None
    assert "[-]views failed: the views of the listener console cannot be imported" in every.text
    settings.ROOT_URLCONF = whole
    django_handler.import_views(CONSOLE)
    assert said() == (200, "ok")
