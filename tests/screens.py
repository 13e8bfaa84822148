"""``make screens``: pictures of every page of the console, light and dark, into docs/screens.

``python -m tests.screens NAME…`` takes those pages alone.

The hub is filled by ``manage.py demo`` and keeps its heartbeats going. A page about one cluster or one request is
found as a person finds it: by the first link of a list, so that the names of the pictures never change.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests import hub as hubs
from tests import tools
from tests.browser import tour
from tests.browser.conftest import ARGUMENTS
from tests.browser.people import Console
from tests.hub import ROOT, Hub

Theme = Literal["light", "dark"]

SCREENS = ROOT / "docs" / "screens"
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDE, NARROW = ViewportSize(width=1440, height=900), ViewportSize(width=360, height=760)
TALLEST, WHOLE = 1600, 2800  # pixels of a picture
COLOURS, EXACT = 256, 24
CLUSTERS, SEED = 200, 5


@dataclass(frozen=True)
class Shot:
    """An address, then perhaps the first link that fits, something below it, and an act before the picture."""

    path: str
    link: str = ""
    below: str = ""
    act: Callable[[Page], None] | None = None
    tallest: int = TALLEST

    def open(self, console: Console) -> None:
        console.open(self.path)
        if self.link:
            href = console.page.locator(self.link).first.get_attribute("href")
            console.open(f"{(href or '').partition('?')[0]}{self.below}")
        if self.act:
            self.act(console.page)


def _select_safe(page: Page) -> None:
    """As a person does who has read them."""
    boxes = page.locator("#rows input[data-verdict=safe]").all()[:4]
    for box in boxes:
        box.check()
    page.locator("#bar b", has_text=f"{len(boxes)} selected").wait_for()


def _preview(page: Page) -> None:
    _select_safe(page)
    page.get_by_role("button", name="Preview and accept").click()
    page.wait_for_load_state()


def _select_clusters(page: Page) -> None:
    for box in page.locator("#clusters tbody input[type=checkbox]").all()[:3]:
        box.check()
    page.wait_for_timeout(400)


def _preview_act(page: Page, act: str) -> None:
    page.get_by_label("What to do with the selected clusters").select_option(act)
    page.get_by_role("button", name="Preview…").click()
    page.wait_for_load_state()


def _maintain_several(page: Page) -> None:
    _select_clusters(page)
    _preview_act(page, "maintenance")


def _label_many(page: Page) -> None:
    """Begun, and not yet done; each time with a label that none of them has yet."""
    page.get_by_label("Select all on this page").check()
    _preview_act(page, "label")
    page.get_by_label("Key").fill(
        "owner" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "cost-centre"
    )
    page.get_by_label("Value").fill("4711")
    if (count := page.get_by_label("Type how many clusters it concerns")).count():
        count.fill(re.sub(r"\D", "", page.locator("form button[type=submit]").last.inner_text()))
    page.locator("form button[type=submit]").last.click()
    page.wait_for_load_state()


def _go_on(steps: int) -> Callable[[Page], None]:
    """So many steps of the wizard."""

    def act(page: Page) -> None:
        page.get_by_role("textbox", name="Name").first.fill("eu-web-99")
        for _ in range(steps):
            page.locator("main .pf-v6-c-button.pf-m-primary").last.click()
            page.wait_for_load_state()

    return act


def _follow(words: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_role("link", name=words).first.click()
        page.wait_for_load_state()

    return act


def _try(page: Page) -> None:
    """Fewer conditions pass, two more clusters are wanted, a set is not bound, and one thing is pretended."""
    page.get_by_label("Number of clusters").fill("5")
    page.get_by_label("Other sets").fill("web stores-de lab")
    page.get_by_role("button", name="Work it out").last.click()
    page.get_by_label("What to pretend").select_option("taint")
    page.get_by_label("Of which cluster or set").fill("stores-de")
    page.get_by_label("What is pretended").fill("rack/power=off:NoSelect")
    page.get_by_role("button", name="Pretend", exact=True).click()
    page.locator(".oc-pretend").first.wait_for()


def _taint(page: Page) -> None:
    page.get_by_label("Key").fill("rack/power")
    page.get_by_role("button", name="Show what it does").click()
    page.locator("#impact").wait_for()


def _review(page: Page) -> None:
    _try(page)
    page.get_by_role("button", name="Review and save…").click()
    page.locator("#review").wait_for()


ROW = "tbody a.oc-name"
REQUEST = "#rows a.oc-name"
LAST_CHOSEN = "#decisions tbody tr:last-child a.oc-name"  # the worst come first, so it is healthy
BLOCKED, CHECK, SAFE = (f"/approvals/?verdict={verdict}" for verdict in ("blocked", "check", "safe"))
SILENT, TENDED, HEALTHY = (f"/clusters/?status={word}" for word in ("silent", "maintenance", "healthy"))
PAGES: Mapping[str, Shot] = {
    "overview": Shot("/"),
    "attention": Shot("/attention/"),
    "search": Shot("/search/?q=store"),
    "approvals": Shot("/approvals/", act=_select_safe),
    "approvals-decided": Shot("/approvals/-/decided/"),
    "approvals-superseded": Shot("/approvals/-/superseded/"),
    "approvals-together": Shot("/approvals/", act=_preview),
    "request": Shot("/approvals/payments-eu/"),
    "request-check": Shot(CHECK, REQUEST),
    "request-safe": Shot(SAFE, REQUEST),
    "clusters": Shot("/clusters/"),
    "clusters-selected": Shot("/clusters/", act=_select_clusters),
    "clusters-maintenance": Shot("/clusters/", act=_maintain_several),
    "cluster": Shot(TENDED, ROW),
    "cluster-silent": Shot(SILENT, ROW),
    "cluster-health": Shot(TENDED, ROW, "health/"),
    "cluster-identity": Shot(TENDED, ROW, "identity/"),
    "cluster-taints": Shot(TENDED, ROW, "taints/"),
    "cluster-taint-preview": Shot("/placements/shop/checkout/", LAST_CHOSEN, "taints/", act=_taint),
    "cluster-claims": Shot(TENDED, ROW, "claims/"),
    "cluster-sets": Shot(TENDED, ROW, "sets/"),
    "cluster-events": Shot(TENDED, ROW, "events/"),
    "cluster-yaml": Shot(TENDED, ROW, "yaml/"),
    "cluster-edit": Shot(TENDED, ROW, "yaml/edit/"),
    "cluster-maintenance": Shot(HEALTHY, ROW, "maintenance/"),
    "cluster-disconnect": Shot(HEALTHY, ROW, "disconnect/"),
    "cluster-remove": Shot(HEALTHY, ROW, "remove/"),
    "cluster-move": Shot(HEALTHY, ROW, "set/"),
    "certificates": Shot("/certificates/"),
    "certificate-revoke": Shot(HEALTHY, ROW, "identity/", act=_follow("Revoke now")),
    "ca": Shot("/ca/"),
    "wizard": Shot("/clusters/add/"),
    "wizard-token": Shot("/clusters/add/", act=_go_on(1)),
    "wizard-run": Shot("/clusters/add/", act=_go_on(2)),
    "wizard-watch": Shot("/clusters/add/", act=_go_on(3)),
    "tokens": Shot("/tokens/"),
    "token-mint": Shot("/tokens/mint/"),
    "token-revoke": Shot("/tokens/", "a[href$='/revoke/']"),
    "policies": Shot("/policies/"),
    "policy-new": Shot("/policies/-/new/"),
    "sets": Shot("/sets/"),
    "sets-map": Shot("/sets/", act=_follow("Map")),
    "set": Shot("/sets/stores-fr/"),
    "set-definition": Shot("/sets/production/definition/"),
    "set-people": Shot("/sets/stores-fr/people/"),
    "set-bindings": Shot("/sets/stores-fr/bindings/"),
    "set-new": Shot("/sets/_new/"),
    "set-add": Shot("/sets/stores-fr/_add/"),
    "set-delete": Shot("/sets/lab/_delete/"),
    "namespaces": Shot("/namespaces/"),
    "namespace": Shot("/namespaces/shop/"),
    "unbind": Shot("/namespaces/shop/", act=_follow("Unbind")),
    "bind": Shot("/namespaces/_bind/"),
    "claims": Shot("/claims/"),
    "placements": Shot("/placements/"),
    "placement": Shot("/placements/shop/checkout/"),
    "placement-groups": Shot("/placements/shop/catalog/"),
    "placement-group": Shot("/placements/shop/catalog/?group=1"),
    "placement-history": Shot("/placements/shop/checkout/history/"),
    "placement-misconfigured": Shot("/placements/shop/loyalty/"),
    "playground": Shot("/placements/playground/?from=shop/checkout", tallest=WHOLE),
    "playground-tried": Shot("/placements/playground/?from=shop/checkout", act=_try, tallest=WHOLE),
    "playground-unbound": Shot("/placements/playground/?from=sandbox/first-steps"),
    "placement-review": Shot("/placements/playground/?from=shop/checkout", act=_review),
    "placement-why": Shot("/placements/shop/checkout/why/"),
    "access": Shot("/access/"),
    "access-person": Shot("/access/users/ana/"),
    "access-group": Shot("/access/groups/operators/"),
    "access-explain": Shot(
        "/access/explain/?who=user:raj&verb=update&resource=managedclusters/accept.register.open-cluster-management.io"
    ),
    "access-resources": Shot("/access/resources/"),
    "access-risks": Shot("/access/risks/"),
    "access-requests": Shot("/access/requests/"),
    "access-give": Shot("/access/give/"),
    "access-add-person": Shot("/access/add/person/"),
    "activity": Shot("/activity/"),
    "report": Shot("/activity/report/?from=2020-01-01&to=2099-01-01"),
    "hub": Shot("/hub/"),
    "demo": Shot("/demo/"),
    "help": Shot("/help/"),
    "preferences": Shot("/preferences/"),
    "account": Shot("/account/"),
    "account-passkeys": Shot("/account/passkeys/"),
    "account-sessions": Shot("/account/sessions/"),
    "account-password": Shot("/account/password/"),
    "not-found": Shot("/clusters/nobody/"),
    "admin": Shot("/admin/"),
}
# What they do shows elsewhere, so they come last.
CHANGING: Mapping[str, Shot] = {"bulk": Shot("/clusters/", act=_label_many), "bulk-acts": Shot("/bulk/")}
# After most clusters have fallen silent at once (D27).
HELD: Mapping[str, Shot] = {
    "placement-held": Shot("/placements/shop/catalog/"),
    "placements-held": Shot("/placements/held/"),
    "placements-list-held": Shot("/placements/"),
    "overview-held": Shot("/"),
}
# Of a hub where policies take two people, and which notifies some by itself.
TOGETHER: Mapping[str, Shot] = {
    "second-approvals": Shot("/second-approval/"),
    "second-approval": Shot("/second-approval/", "#list a[href$='/1/']"),
    "second-approval-own": Shot("/second-approval/", "#list a[href$='/3/']"),
    "second-approvals-closed": Shot("/second-approval/closed/"),
    "notifications": Shot("/notifications/"),
    "notifications-channel": Shot("/notifications/on-call/", tallest=WHOLE),
    "notifications-new": Shot("/notifications/-/add/"),
}
SOME = 30  # clusters of that hub
HAPPENED = """
from contextlib import suppress
from datetime import time, timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from ocmconsole.accounts.acting_command import PROVEN
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.models import OutboundPosition
from ocmconsole.models import NotificationDelivery as Delivery, NotificationMessage as Message, NotificationQuietHours as Hours
from ocmconsole.notifications import services
from ocmconsole.notifications.channels import key_of
from ocmconsole.second_approval import decisions
from ocmconsole.second_approval.gate import Waits
from ocmconsole.second_approval.models import ProposedAct
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput

def person(name):
    return actor_for(User.objects.get(username=name), entry_point=EntryPoint.CLI, credential=PROVEN)

User.objects.create_superuser("ben", password="{password}")
admin, ben, now = person("admin"), person("ben"), timezone.now()

def propose(who, name, pattern, reason):
    rule = PolicyInput(name=name, pattern=pattern, reason=reason, expires=now + timedelta(days=9))
    with suppress(Waits):
        policy_services.create_policy(who, rule)

propose(ben, "new-shops", "store-fr-*", "The shops that open this month; Raj has the list.")
propose(ben, "anything", "store-*", "So that nobody has to click.")
decisions.decline(admin, ProposedAct.objects.get(subject="anything").pk, "That lets anybody in.")
propose(admin, "lab", "lab-*", "Machines of the lab come and go.")

services.create_channel(admin, "on-call", "webhook", "https://pager.example/hooks/4711")
services.create_channel(admin, "team", "chat", "mmosts://chat.example/abcdefghijklmnopqrstuvwxyz")
services.create_channel(admin, "auditors", "mail", "audit@example.com,ciso@example.com")
services.switch_channel(admin, "auditors", on=False)
services.add_rule(admin, "on-call", ["cluster.silent", "cluster.recovered"], 1, "stores-fr")
services.add_quiet_hours(admin, "on-call", Hours(days=[0, 1, 2, 3, 4], begins=time(22), ends=time(7), zone="Europe/Berlin", breaks=3))
services.add_quiet_hours(admin, "on-call", Hours(days=[5, 6], begins=time(0), ends=time(0), zone="Europe/Berlin", breaks=3))
for minutes, kind, severity, where, names, count, state, answer, tries, channel in (
    (300, "cluster.recovered", 1, "stores-fr", ["store-fr-003"], 1, "grouped", "", 0, "on-call"),
    (260, "cluster.recovered", 1, "stores-fr", ["store-fr-007", "store-fr-011"], 2, "grouped", "", 0, "on-call"),
    (190, "cluster.recovered", 1, "stores-fr", ["store-fr-003", "store-fr-007", "store-fr-011"], 3, "taken", "", 1, "on-call"),
    (120, "hub.activated", 2, "", [], 1, "taken", "", 2, "team"),
    (95, "key.overridden", 3, "", ["payments-eu"], 1, "given-up", "it answered 500", 11, "team"),
    (60, "certificate.ending", 2, "web", [f"eu-web-{{number:03}}" for number in range(1, 11)], 26, "refused", "it answered 413", 1, "on-call"),
    (12, "cluster.silent", 3, "stores-fr", [f"store-fr-{{number:03}}" for number in range(1, 11)], 37, "taken", "", 1, "on-call"),
    (11, "cluster.silent", 3, "stores-fr", [f"store-fr-{{number:03}}" for number in range(1, 11)], 37, "taken", "", 1, "team"),
):
    at = now - timedelta(minutes=minutes)
    message = Message.objects.create(
        uid=f"{{minutes}}", kind=kind, severity=severity, clusterset=where, minute=at, closes=at, sealed=True,
        count=count, names=names, first=at, last=at,
    )
    Delivery.objects.create(
        channel_id=channel, message=message, state=state, answer=answer, attempts=tries, created=at, key=key_of(message),
        tried=at + timedelta(minutes=1) if tries else None,
    )
for name, minutes in (("on-call", 11), ("team", 10)):
    OutboundPosition.objects.update_or_create(outlet=f"to-{{name}}", defaults={{"taken_at": now - timedelta(minutes=minutes)}})
"""
LOGIN = Shot("/login/")
ON_PHONES = (
    "overview",
    "approvals",
    "request",
    "clusters",
    "cluster",
    "sets",
    "placements",
    "placement",
    "placement-history",
    "placement-misconfigured",
    "placement-why",
    "placement-held",
    "playground",
    "cluster-taint-preview",
    "wizard",
    "second-approvals",
    "second-approval",
    "notifications",
    "notifications-channel",
)


@contextmanager
def hub_with_fleet(clusters: int = CLUSTERS, happened: str = "", **settings: str) -> Iterator[Hub]:
    """Filled before it is served: a hub's authority is as old as its first start, and so is what it can have signed."""
    with tempfile.TemporaryDirectory(prefix="ocmconsole-screens-") as folder:
        hub = hubs.prepare(Path(folder), HUB_NAME="hub-eu-1", ENVIRONMENT="Production", **settings)
        assert _manage(hub, "demo", f"--clusters={clusters}", f"--seed={SEED}").wait() == 0, (
            "the hub could not be filled"
        )
        if happened:
            assert _manage(hub, "shell", "--no-imports", "-c", happened).wait() == 0, "not all has happened"
        with hubs.running(hub):
            yield hub


def _manage(hub: Hub, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "manage.py", *arguments], cwd=ROOT, env=dict(hub.environment))


def main(names: Collection[str]) -> None:
    """Every picture anew, or those of these pages; where all are, those of pages that are gone go."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    done: set[Path] = set()
    if not names or set(names) - TOGETHER.keys():
        with hub_with_fleet() as hub:
            done |= shoot(hub, (PAGES, CHANGING, HELD), names)
    if not names or set(names) & TOGETHER.keys():
        happened = HAPPENED.format(password=tour.PASSWORD)
        with hub_with_fleet(SOME, happened, SECOND_APPROVAL="key-override,approval-policy") as hub:
            done |= shoot(hub, (TOGETHER,), names)
    for picture in set(SCREENS.glob("*.png")) - done if not names else ():
        picture.unlink()


def shoot(hub: Hub, series: Collection[Mapping[str, Shot]], names: Collection[str]) -> set[Path]:
    done: set[Path] = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=tools.chromium(), args=ARGUMENTS, chromium_sandbox=os.geteuid() != 0
        )
        for shots in series:
            wanted = {name: shot for name, shot in shots.items() if not names or name in names}
            if wanted and shots is HELD:
                with _console(browser, hub, "light", WIDE) as console:
                    console.sign_in_with_the_form()
                    tour.cut_off(hub, console.page)
            for theme in THEMES if wanted else ():
                done |= _series(browser, hub, wanted, theme)
        browser.close()
    return done


def _series(browser: Browser, hub: Hub, shots: Mapping[str, Shot], theme: Theme) -> set[Path]:
    done: set[Path] = set()
    with _console(browser, hub, theme, WIDE) as console:
        if "overview" in shots:
            done |= {_take(console, "login", LOGIN, theme)}
        console.sign_in_with_the_form()
        done |= {_take(console, name, shot, theme) for name, shot in shots.items()}
    if on_phones := [name for name in shots if name in ON_PHONES]:
        with _console(browser, hub, theme, NARROW) as console:
            console.sign_in_with_the_form()
            done |= {_take(console, name, shots[name], f"{theme}-phone") for name in on_phones}
    return done


@contextmanager
def _console(browser: Browser, hub: Hub, theme: Theme, size: ViewportSize) -> Iterator[Console]:
    context = browser.new_context(viewport=size, color_scheme=theme, locale="en-GB", reduced_motion="reduce")
    yield Console(context.new_page(), hub.console_url, hub.admin_password)
    context.close()


def _take(console: Console, name: str, shot: Shot, variant: str) -> Path:
    """The window grows to the page: what sticks to an edge then sticks to the edge of the picture."""
    page, path = console.page, SCREENS / f"{name}-{variant}.png"
    size = page.viewport_size
    assert size is not None
    shot.open(console)
    page.mouse.move(0, 0)
    height = page.evaluate("scrollTo(0, 0), document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), shot.tallest)})
    _save(page.screenshot(), path)
    page.set_viewport_size(size)
    return path


def _save(picture: bytes, path: Path) -> None:
    """With a palette: a third of the size, and no eye sees it, since large areas keep their colour exactly."""
    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    frequent = [colour for _, colour in sorted(image.getcolors(image.width * image.height) or [])[-EXACT:]]
    reduced = image.quantize(COLOURS - EXACT, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette = (reduced.getpalette() or [])[: 3 * (COLOURS - EXACT)]
    for index, colour in enumerate(frequent, start=len(palette) // 3):
        assert isinstance(colour, tuple)
        reduced.paste(index, mask=_where(image, colour))
        palette += [*colour]
    reduced.putpalette(palette)
    reduced.save(path, optimize=True)


def _where(image: Image.Image, colour: tuple[int, ...]) -> Image.Image:
    """A mask of the pixels of this colour."""
    red, green, blue = ImageChops.difference(image, Image.new("RGB", image.size, colour)).split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue).point([255] + [0] * 255)


if __name__ == "__main__":
    main(sys.argv[1:])
