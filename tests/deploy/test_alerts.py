"""Each alert fires where its condition is caused, and none of a hub that is well. promtool evaluates the rules.

A hub is scraped before and after something happens to it; what was scraped becomes the series of a rule test: a gauge
stays as it was found, a counter goes on by as much each minute.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.health import disk_space, limit_records, metrics
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.outbound import positions
from ocmconsole.notifications import channels
from ocmconsole.notifications import services as notifications
from placements.kinds import PLACEMENT
from placements.models import EvictionBrake
from registration.certificates import ca_rotation, key_watch
from registration.pki import ca, external_keys
from tests import actors, requests, servers, softhsm, tools
from tests import factories as make
from tests.actors import signed_in
from tests.conftest import missing
from tests.hub import ROOT
from tests.security.callers import CLUSTERS, bearer

pytestmark = pytest.mark.django_db

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yaml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
RUNBOOKS = ROOT / "docs" / "guide" / "operations.md"
NAME = re.compile(r"\bocmconsole_[a-z_]+|\bscheduling_[a-z_]+")
MINUTES = 600  # longer than the longest ``for``
COUNTED = ("_total", "_bucket", "_count", "_sum")

Scrape = dict[str, float]
Act = Callable[[], timedelta | None]


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def scrape() -> Scrape:
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = {**sample.labels, "job": "ocmconsole", "instance": "hub-1"}
            shown = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
            found[f"{sample.name}{{{shown}}}"] = sample.value
    return found


def firing(before: Scrape, after: Scrape, folder: Path, *, is_up: bool = True) -> set[str]:
    """Alerts that fire after ten hours of it."""
    promtool = tools.promtool()
    if promtool is None:
        missing("promtool")
    series = {'up{job="ocmconsole",instance="hub-1"}': f"{int(is_up)}x{MINUTES}"}
    words = set(re.findall(r"\w+", RULES.read_text()))
    for name, value in after.items():
        if name.partition("{")[0] not in words:
            continue  # no rule reads it
        rises = value - before.get(name, 0.0) if name.partition("{")[0].endswith(COUNTED) else 0.0
        series[name] = f"{value!r}+{rises!r}x{MINUTES}"
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts()]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "5m",  # a quarter of what an evaluation each minute takes, and what is scraped goes on alike
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'max by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{MINUTES - 1}m",
                        "exp_samples": expected,
                    }
                ],
            }
        ],
    }
    file = folder / "alerts.yaml"
    file.write_text(yaml.safe_dump(test))
    said = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False, timeout=300)
    if said.returncode == 0:
        return set(alerts())
    _, _, got = said.stdout.partition("got:") if "got:" in said.stdout else said.stderr.partition("got:")
    assert got, said.stdout + said.stderr
    return set(re.findall(r'alertname="(\w+)"', got))


# ---------------------------------------------------------------- what happens to a hub


def nobody_works() -> timedelta:
    """An hour passes in which nobody sweeps, seals, reconciles or sends."""
    workqueue.put({("cluster", Key("", "web"))}, timezone.now())
    return timedelta(hours=1)


def a_cluster_falls_silent() -> None:
    make.available("web", "Unknown")


def a_brake_stands() -> None:
    now = timezone.now()
    EvictionBrake.objects.create(scope="", since=now, begun=now, silent=1, late=1, members=4)


def a_certificate_is_not_renewed() -> None:
    now = timezone.now()
    make.certificate("web", "1" * 64, begins=now - timedelta(days=30), ends=now + timedelta(days=3), serial="1")


def a_short_lived_certificate_is_in_its_last_week() -> None:
    """Its agent renews it when a fifth of its life is left."""
    now = timezone.now()
    make.certificate("web", "1" * 64, begins=now - timedelta(days=7), ends=now + timedelta(days=3), serial="1")


def a_short_lived_certificate_is_not_renewed() -> None:
    now = timezone.now()
    make.certificate("web", "1" * 64, begins=now - timedelta(days=9), ends=now + timedelta(days=1), serial="1")


def a_request_waits() -> None:
    make.cluster("new")
    requests.ask("new-1", requests.agent_pem("new"), cluster="new")


def passwords_are_tried() -> None:
    for _ in range(70):
        assert bearer("nonsense").get(CLUSTERS).code == HTTPStatus.UNAUTHORIZED


def somebody_asks_too_much() -> None:
    limit_records.write_counts({("mallory", "10.0.0.1", "OCMCONSOLE_LIMIT_REQUESTS"): 3})


def a_table_is_lost() -> None:
    """Pages of clusters fail."""
    if connection.vendor == "postgresql":
        pytest.skip("a statement that fails ends the transaction that this test runs in")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE clusters_managedcluster RENAME TO clusters_elsewhere")
    client = signed_in("root", is_superuser=True)
    client.raise_request_exception = False
    for _ in range(10):
        assert client.get("/clusters/").status_code == HTTPStatus.SERVICE_UNAVAILABLE
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE clusters_elsewhere RENAME TO clusters_managedcluster")


def a_receiver_takes_nothing() -> timedelta:
    """A quarter of an hour long."""
    the_receiver_says("it answered 503")
    return timedelta(minutes=15)


def a_message_is_refused() -> None:
    the_receiver_says("it answered 404", is_final=True)


def the_receiver_says(problem: str, *, is_final: bool = False) -> None:
    """Of a channel of notifications, to a test."""
    notifications.create_channel(actors.ROOT, "ops", "webhook", "https://receiver.example/")
    notifications.test_channel(actors.ROOT, "ops")
    (outlet,) = channels.due()
    row = positions.position_of(outlet.name)
    positions.claim(row, "this process")
    note = partial(outlet.note, outlet.next_batch(row), problem, is_final=is_final)
    positions.put_off(row, "this process", problem, None, note)


def answers_take_long() -> None:
    for _ in range(10):
        metrics.count_request("api", "GET", HTTPStatus.OK, 2.0)


# Of a hub in which a quarter of an hour passes and nobody works.
BY_TIME = {"LeasesNotLookedAt", "AuditNotTaken"}
HAPPENS: list[tuple[Act, set[str]]] = [
    (lambda: None, set()),
    (nobody_works, {"LeasesNotLookedAt", "WorkWaits", "AuditNotSealed", "AuditNotTaken"}),
    (a_receiver_takes_nothing, {"NotificationsNotTaken", *BY_TIME}),
    (a_message_is_refused, {"NotificationsRefused"}),
    (a_cluster_falls_silent, {"ManyClustersSilent"}),
    (a_brake_stands, {"EvictionBrakeStands"}),
    (a_certificate_is_not_renewed, {"ClientCertificatesEnd"}),
    (a_short_lived_certificate_is_in_its_last_week, set()),
    (a_short_lived_certificate_is_not_renewed, {"ClientCertificatesEnd"}),
    (a_request_waits, {"RequestsWait"}),
    (passwords_are_tried, {"CredentialsRefused"}),
    (somebody_asks_too_much, {"LimitsRefuse"}),
    (a_table_is_lost, {"RequestsFail"}),
    (answers_take_long, {"RequestsSlow"}),
]
ELSEWHERE = {"HubDown", "HubCertificateEnds", "DiskNearlyFull", "CAKeyAway"}


@pytest.fixture
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a hub with three healthy clusters, whose audit goes to a file too."""
    monkeypatch.setattr(key_watch, "watch", key_watch.KeyWatch())  # the other one knows the keys of an earlier home
    make.hub(tmp_path / "home", settings)
    settings.OCMCONSOLE_AUDIT_STREAM = tmp_path / "audit.jsonl"
    make.serve_since(timedelta(days=1))
    make.joined("web", "shop", "lab")
    return tmp_path / "home"


@pytest.mark.parametrize(("act", "expected"), HAPPENS, ids=lambda each: getattr(each, "__name__", ""))
def test_an_alert_fires_when_its_condition_is_there(act: Act, expected: set[str], home: Path, tmp_path: Path) -> None:
    before = scrape()
    later = act()
    with time_machine.travel(timezone.now() + (later or timedelta())):
        after = scrape()
    fires = firing(before, after, tmp_path)
    if act is a_table_is_lost:
        fires -= {"RequestsSlow"}  # its pages take what a busy machine makes of them
    assert fires == expected


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (a_certificate_is_not_renewed, 1.0),
        (a_short_lived_certificate_is_in_its_last_week, 0.0),
        (a_short_lived_certificate_is_not_renewed, 1.0),
    ],
)
def test_certificates_that_end_within_a_week_are_overdue_once_they_should_have_been_renewed(
    act: Callable[[], None], expected: float, home: Path
) -> None:
    act()
    found = {name.partition("{")[0]: value for name, value in scrape().items() if 'bucket="week"' in name}
    assert found["ocmconsole_client_certificates"] == 1.0
    assert scrape()['ocmconsole_client_certificates_overdue{job="ocmconsole",instance="hub-1"}'] == expected


def test_every_alert_is_caused_by_some_test() -> None:
    assert {name for _, names in HAPPENS for name in names} | ELSEWHERE == set(alerts())


def test_a_hub_that_cannot_be_scraped_is_down(home: Path, tmp_path: Path) -> None:
    assert firing({}, {}, tmp_path, is_up=False) == {"HubDown"}


def test_certificates_of_the_hub_end(home: Path, tmp_path: Path) -> None:
    serving, before = ca.parse_certificate((home / "serving.crt").read_bytes()), scrape()
    with time_machine.travel(serving.not_after - timedelta(days=10)):
        make.serve_since(timedelta(days=1))
        assert "HubCertificateEnds" in firing(before, scrape(), tmp_path)


@pytest.mark.contract("W24", "D22")
def test_a_ca_key_is_in_a_token_that_does_not_answer(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    if (module := tools.softhsm()) is None:
        missing("softhsm2")
    monkeypatch.setattr(key_watch, "PROBE_SECONDS", 0.0)
    token = softhsm.Token(tmp_path / "softhsm", module)
    token.make()
    uri = token.put("clients", ec.generate_private_key(ec.SECP256R1()))
    token.use(monkeypatch, settings)
    try:
        ca_rotation.rotate(actors.ROOT, ca.AuthorityRole.CLIENT, place=uri)
        before = scrape()
        assert answers(before) == {"client": 1.0, "serving": 1.0}
        assert firing(before, before, tmp_path) == set()
        token.take_away()
        softhsm.forget()
        away = scrape()
        assert answers(away) == {"client": 0.0, "serving": 1.0}
        assert firing(before, away, tmp_path) == {"CAKeyAway"}
        token.bring_back()
        softhsm.forget()
        assert answers(scrape()) == {"client": 1.0, "serving": 1.0}
    finally:
        softhsm.forget()


def test_a_ca_key_that_is_missing_is_away_and_hides_no_certificate_that_ends(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_watch, "PROBE_SECONDS", 0.0)
    serving, before = ca.parse_certificate((home / "serving.crt").read_bytes()), scrape()
    (home / "ca.key").unlink()
    with time_machine.travel(serving.not_after - timedelta(days=10)):
        make.serve_since(timedelta(days=1))
        assert {"CAKeyAway", "HubCertificateEnds"} <= firing(before, scrape(), tmp_path)


@pytest.mark.contract("W24")
def test_a_scrape_does_not_wait_for_a_token_that_hangs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, however many scrape meanwhile; its answer is taken when it comes."""
    begun, held, asked, watch = threading.Event(), threading.Event(), [], key_watch.KeyWatch()

    def hang(key: object) -> None:
        asked.append(key)
        begun.set()
        held.wait(60)

    monkeypatch.setattr(external_keys, "probe", hang)
    monkeypatch.setattr(key_watch, "WAIT_SECONDS", 0.05)
    none = dict.fromkeys(ca.AuthorityRole, False)
    assert watch.answering() == none
    assert begun.wait(60)
    assert watch.answering() == none
    assert len(asked) == 1
    held.set()
    monkeypatch.setattr(key_watch, "WAIT_SECONDS", 60.0)
    assert watch.answering() == dict.fromkeys(ca.AuthorityRole, True)


def answers(found: Scrape) -> dict[str, float]:
    named = {name: value for name, value in found.items() if name.startswith("ocmconsole_ca_key_answers{")}
    return {re.findall(r'ca="(\w+)"', name)[0]: value for name, value in named.items()}


def test_a_disk_is_nearly_full(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scrape()
    with servers.small_disk(tmp_path / "disk", "1m") as disk:
        (disk / "filler").write_bytes(b"0" * 1_000_000)
        monkeypatch.setattr(disk_space, "folder", lambda: disk)
        assert firing(before, scrape(), tmp_path) == {"DiskNearlyFull"}


# ---------------------------------------------------------------- names


def test_every_metric_that_a_rule_or_the_dashboard_names_is_there(home: Path) -> None:
    client = Client()
    client.get("/livez")
    somebody_asks_too_much()
    the_receiver_says("it answered 503")
    make.create(
        PLACEMENT,
        make.document(PLACEMENT, "checkout", spec={"numberOfClusters": 1}, namespace="shop"),
        namespace="shop",
    )
    make.settle()
    there = {name.partition("{")[0] for name in scrape()}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    asked += [rule["expr"] for rule in alerts().values()]
    named = {name for expression in asked for name in NAME.findall(expression)}
    assert named
    assert named - there == set()


def test_every_alert_has_a_runbook_of_its_name() -> None:
    headings = set(re.findall(r"^## (\w+)$", RUNBOOKS.read_text(), re.MULTILINE))
    assert headings == set(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook"] == f"docs/guide/operations.md#{name.lower()}"
