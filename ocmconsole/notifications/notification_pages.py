"""Pages of notifications, for hub admins: channels, what each hears of, and what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db.models import Min
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ocmconsole.components.links import audit_url
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.kubeapi.storage import incarnations
from ocmconsole.models import NotificationChannel, NotificationDelivery, NotificationRule
from ocmconsole.notifications import channels, chat, encrypted_columns, quiet_hours, services
from ocmconsole.notifications.forms import AddressForm, ChannelForm, QuietHoursForm, RuleForm
from ocmconsole.notifications.message_kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

SHOWN = 50  # deliveries, the newest
NOT_ACTIVATED = "This hub was restored and sends nothing until it is activated."
State = NotificationDelivery.State


def _admin(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    try:
        services.require_admin(actor)
    except errors.Forbidden as error:
        raise PermissionDenied(error.message) from error
    return actor


def _admin_of(request: HttpRequest, name: str) -> tuple[Actor, NotificationChannel]:
    """Who asks, and the channel of this name; 403 comes before 404."""
    actor = _admin(request)
    found = NotificationChannel.objects.filter(name=name).prefetch_related("rules", "quiet_hours").first()
    if found is None:
        raise Http404(f"There is no channel {name}.")
    return actor, found


@login_required
@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    _admin(request)
    found = list(NotificationChannel.objects.order_by("name").prefetch_related("rules", "quiet_hours"))
    context = {
        "rows": _rows(found),
        "deliveries": _log(NotificationDelivery.objects.all()),
        "is_quiet": incarnations.is_quiet(),
        "shown": SHOWN,
    }
    return render(request, "notifications/list.html", context)


def _rows(found: Iterable[NotificationChannel]) -> list[dict[str, Any]]:
    positions = OutboundPosition.objects.in_bulk([f"{channels.PREFIX}{each.name}" for each in found])
    now, is_quiet = clock.now(), incarnations.is_quiet()
    waiting = dict(
        NotificationDelivery.objects.filter(state=State.WAITING).values_list("channel").annotate(Min("due")).order_by()
    )
    return [
        {
            "channel": each,
            "place": _place(each),
            "rules": [_said(rule) for rule in each.rules.all()],
            "obstacle": NOT_ACTIVATED if is_quiet else _lack(each.kind),
            "quiet_until": quiet_hours.until(list(each.quiet_hours.all()), now),
            "position": positions.get(f"{channels.PREFIX}{each.name}"),
            "is_waiting": each.name in waiting,
            "next_try": waiting.get(each.name),
        }
        for each in found
    ]


def _place(channel: NotificationChannel) -> str:
    """Without the path, which may be a secret."""
    try:
        text = encrypted_columns.read(channel, "address")
    except errors.ApiError:
        return "cannot be read: its key is missing"
    if channel.kind == NotificationChannel.ChannelKind.CHAT:  # in what follows nearly all may be a secret
        return f"{text.partition('://')[0].lower()}://…"
    return urlsplit(text).netloc if channel.kind == NotificationChannel.ChannelKind.WEBHOOK else text.replace(",", ", ")


def _said(rule: NotificationRule) -> dict[str, Any]:
    kinds = [KINDS[kind].sentence for kind in rule.kinds if kind in KINDS]
    return {
        "number": rule.pk,
        "kinds": kinds or ["Everything"],
        "severity": rule.get_severity_display(),
        "clusterset": rule.clusterset,
    }


def _log(rows: Any) -> list[dict[str, Any]]:
    found = rows.select_related("message").order_by("-pk")[:SHOWN]
    return [
        {
            "row": each,
            "text": channels.sentence_of(each.message),
            "may_replay": each.state not in {State.WAITING, State.HELD},
            "tone": {State.TAKEN: "ok", State.REFUSED: "danger", State.GIVEN_UP: "danger"}.get(
                State(each.state), "quiet"
            ),
        }
        for each in found
    ]


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def add(request: HttpRequest) -> HttpResponse:
    actor = _admin(request)
    form = ChannelForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            secret = services.create_channel(actor, given["name"], given["kind"], given["address"])
        except errors.ApiError as error:
            form.add_error(None, error.message)
        else:
            return _made(request, given["name"], secret)
    context = {"form": form, "lacks": [lack for kind in NotificationChannel.ChannelKind if (lack := _lack(kind))]}
    return render(request, "notifications/add.html", context, status=400 if form.errors else 200)


def _lack(kind: str) -> str:
    """Why this hub cannot send by this way."""
    if kind == NotificationChannel.ChannelKind.MAIL and settings.OCMCONSOLE_MAIL is None:
        return "Mail needs a server: this hub has no OCMCONSOLE_MAIL."
    if kind == NotificationChannel.ChannelKind.CHAT and not chat.is_installed():
        return f"Chat needs a package. {chat.MISSING}."
    return ""


def _made(request: HttpRequest, name: str, secret: str) -> HttpResponse:
    if not secret:
        messages.success(request, f"The channel {name} hears of everything from warnings on.")
        return redirect("notifications:channel", name=name)
    return render(request, "notifications/secret.html", {"name": name, "secret": secret})


@login_required
@require_GET
def channel(request: HttpRequest, name: str) -> HttpResponse:
    _, found = _admin_of(request, name)
    return _page(request, found)


def _page(request: HttpRequest, found: NotificationChannel, status: int = 200, **forms: Any) -> HttpResponse:
    row = _rows([found])[0]
    context = {
        **row,
        "is_webhook": found.kind == NotificationChannel.ChannelKind.WEBHOOK,
        "rule_form": RuleForm(),
        "quiet": [
            {"number": each.pk, "text": services.said_of(each), "breaks": each.get_breaks_display()}
            for each in found.quiet_hours.all()
        ],
        "quiet_form": QuietHoursForm(),
        "address_form": AddressForm(kind=found.kind),
        "deliveries": _log(found.deliveries.all()),
        "lost": services.lost_of(found).exists(),
        "audit_url": audit_url(services.PLURAL, found.name),
        "shown": SHOWN,
        **forms,
    }
    return render(request, "notifications/channel.html", context, status=status)


def _added(
    request: HttpRequest, found: NotificationChannel, form: Form, called: str, add: Callable[[], object]
) -> HttpResponse:
    """Add what a valid form asks for; a refusal is said in the form, which the page has under that name."""
    if form.is_valid():
        try:
            add()
        except errors.Invalid as error:
            form.add_error(None, error.message)
        else:
            return redirect("notifications:channel", name=found.name)
    return _page(request, found, 400, **{called: form})


# ---------------------------------------------------------------- acts


@login_required
@require_POST
def address(request: HttpRequest, name: str) -> HttpResponse:
    actor, found = _admin_of(request, name)
    form = AddressForm(request.POST, kind=found.kind)
    if not form.is_valid():
        return _page(request, found, 400, address_form=form)
    services.change_address(actor, name, form.cleaned_data["address"])
    messages.success(request, "What waits and what comes goes to the new address.")
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def rule(request: HttpRequest, name: str) -> HttpResponse:
    actor, found = _admin_of(request, name)
    form = RuleForm(request.POST)

    def add() -> None:
        given = form.cleaned_data
        services.add_rule(actor, name, given["kinds"], given["severity"], given["clusterset"])

    return _added(request, found, form, "rule_form", add)


@login_required
@require_POST
def remove_rule(request: HttpRequest, name: str, number: int) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.remove_rule(actor, name, number)
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def quiet(request: HttpRequest, name: str) -> HttpResponse:
    actor, found = _admin_of(request, name)
    form = QuietHoursForm(request.POST)
    return _added(request, found, form, "quiet_form", lambda: services.add_quiet_hours(actor, name, form.hours))


@login_required
@require_POST
def remove_quiet(request: HttpRequest, name: str, number: int) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.remove_quiet_hours(actor, name, number)
    return redirect("notifications:channel", name=name)


@login_required
@never_cache
@require_POST
def secret(request: HttpRequest, name: str) -> HttpResponse:
    """The former one goes on signing too, until it is forgotten."""
    actor, _ = _admin_of(request, name)
    return render(
        request,
        "notifications/secret.html",
        {"name": name, "secret": services.rotate_secret(actor, name), "is_rotated": True},
    )


@login_required
@require_POST
def forget(request: HttpRequest, name: str) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.forget_former_secret(actor, name)
    messages.success(request, "Only the new secret signs from now on.")
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def switch(request: HttpRequest, name: str) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.switch_channel(actor, name, on=request.POST.get("to") == "on")
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def test(request: HttpRequest, name: str) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.test_channel(actor, name)
    _sent(request, name, "A test is on its way; the log below says what the receiver answers.")
    return redirect("notifications:channel", name=name)


def _sent(request: HttpRequest, name: str, text: str) -> None:
    """``text``, or why what was asked for waits."""
    kind = NotificationChannel.objects.get(name=name).kind
    if why := NOT_ACTIVATED if incarnations.is_quiet() else _lack(kind):
        messages.warning(request, f"It waits. {why}")
    else:
        messages.success(request, text)


@login_required
@require_POST
def replay(request: HttpRequest, number: int) -> HttpResponse:
    name = services.replay(_admin(request), number)
    _sent(request, name, "The message is sent again, under the id that it had.")
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def replay_all(request: HttpRequest, name: str) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    if count := services.replay_all(actor, name):
        _sent(request, name, f"Sent again, each under the id that it had: {count}.")
    else:
        messages.info(request, "Nothing is left that was refused or given up.")
    return redirect("notifications:channel", name=name)


@login_required
@require_POST
def delete(request: HttpRequest, name: str) -> HttpResponse:
    actor, _ = _admin_of(request, name)
    services.delete_channel(actor, name)
    messages.success(request, f"The channel {name} is deleted.")
    return redirect("notifications:list")
