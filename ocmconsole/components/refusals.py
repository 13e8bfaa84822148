"""Refusals as a page says them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

FULFILLED = re.compile(r'\AOperation cannot be fulfilled on \S+ "[^"]*": ')
DENIED = re.compile(r'\Aadmission webhook "[^"]*" denied the request: ')


def plain(message: str) -> str:
    """Without the API's preamble or the webhook that upstream has before its reason (A0): neither is for a reader."""
    return DENIED.sub("", FULFILLED.sub("", message))


def proposed(request: HttpRequest, pk: int) -> HttpResponse:
    """The act takes another person: to the page of the proposal on which it waits (``second_approval.gate.Waits``)."""
    messages.info(request, "This takes another person. Nothing was done yet: it waits here.")
    return redirect("second-approval:detail", pk)
