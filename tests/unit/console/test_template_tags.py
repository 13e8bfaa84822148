"""The console's template tags: safe markup from any value, and words a person can rely on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.template import Context, Template
from django.utils import timezone
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.templatetags import charts, console, timeline

NOW = datetime(2026, 11, 21, 2, 21, 11, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW)


def words(markup: str) -> str:
    return re.sub(r"<[^>]*>", "", markup)


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=2, seconds=10), "2 min"),
        (timedelta(hours=23, minutes=59), "23 h"),
        (timedelta(days=260), "260 d"),
        (timedelta(seconds=-5), "0 s"),
    ],
)
@pytest.mark.usefixtures("frozen")
def test_an_age_and_what_is_left_have_the_largest_whole_unit(length: timedelta, said: str) -> None:
    assert words(str(console.age(NOW - length))) == said
    assert console.left(NOW + length) == said


@pytest.mark.usefixtures("frozen")
def test_an_age_shows_the_exact_moment_on_demand() -> None:
    assert console.age(NOW - timedelta(minutes=4)) == (
        '<time datetime="2026-11-21T02:17:11Z" title="21 Nov 2026, 02:17:11 UTC" data-age>4 min</time>'
    )


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (NOW, "just now"),
        (NOW - timedelta(hours=3), "3 h ago"),
        (NOW + timedelta(days=39), "in 39 d"),
        ("2026-11-21T02:20:11Z", "1 min ago"),
        ("2026-11-21T02:20:11.500000Z", "59 s ago"),
        ("2026-11-21T03:20:11+01:00", "1 min ago"),
    ],
)
def test_times_are_shown_from_datetimes_and_from_the_wire(moment: object, said: str) -> None:
    assert words(console.ago(moment)) == said


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (NOW - timedelta(hours=2), "00:21"),
        (NOW - timedelta(hours=3), "20 Nov 23:21"),
        (NOW - timedelta(days=18), "3 Nov 02:21"),
        (NOW - timedelta(days=400), "17 Oct 2025"),
    ],
)
def test_a_moment_in_a_column_says_the_day_that_is_not_today(moment: datetime, said: str) -> None:
    assert words(console.brief_moment(moment)) == said


@pytest.mark.parametrize("shown", [console.age, console.ago, console.brief_moment, console.day, console.moment])
@pytest.mark.parametrize("nothing", [None, "", "yesterday", "2026-02-30T00:00:00Z", 7])
def test_what_is_no_time_is_shown_as_a_dash(shown: Any, nothing: object) -> None:
    assert shown(nothing) == "\N{EN DASH}"


def test_day_and_moment_are_in_utc_without_a_leading_zero() -> None:
    assert words(console.day("2026-03-03T10:00:00Z")) == "3 Mar 2026"
    assert words(console.moment("2026-03-03T00:30:00+01:00")) == "2 Mar 2026, 23:30 UTC"


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("issued", "ends", "width"),
    [
        (NOW - timedelta(days=50), NOW + timedelta(days=50), 50),
        (NOW - timedelta(days=2), NOW - timedelta(days=1), 0),
        (NOW + timedelta(days=1), NOW + timedelta(days=2), 100),
        (NOW, NOW, 0),
        (None, "never", 0),
    ],
)
def test_a_lifetime_bar_is_as_long_as_the_part_that_is_left(issued: object, ends: object, width: int) -> None:
    assert f'<rect width="{width}" height="6"/>' in console.lifetime(issued, ends)


@pytest.mark.parametrize(
    ("fingerprint", "short"),
    [
        ("SHA256:71aa0c3e9d5b44f0", "71aa 0c3e"),
        ("71AA0C3E", "71AA 0C3E"),
        ("SHA256:71:AA:0C:3E:9D", "71AA 0C3E"),
        ("71aa", "71aa"),
        ("", "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
    ],
)
def test_a_fingerprint_is_shortened_to_eight_characters(fingerprint: object, short: str) -> None:
    assert console.short_fingerprint(fingerprint) == short


def test_one_key_always_has_one_picture_and_two_keys_have_two() -> None:
    first, again, other = (console.key_picture(f"SHA256:{digits}") for digits in ("71aa", "71aa", "71ab"))
    assert first == again
    assert re.findall("<rect[^>]*>", first) != re.findall("<rect[^>]*>", other)
    assert first.count("<rect") == console.BARS


@given(texts)
def test_a_breakable_name_reads_as_it_was(name: str) -> None:
    assert console.breakable(name).replace("<wbr>", "") == escape(name)


@given(texts)
def test_a_command_reads_as_it_was(command: str) -> None:
    assert words(console.as_command(command)) == escape(command)


def test_a_short_option_of_a_command_is_never_broken() -> None:
    shown = console.as_command(f"kubectl patch managedcluster a-b --type=merge -p {{}} --token={'x' * 30} -v")
    option = '<span class="oc-nowrap">{}</span>'
    parts = option.format("--type=merge"), option.format("-p")
    assert shown == f"kubectl patch managedcluster a-b {' '.join(parts)} {{}} --token={'x' * 30} -v"


def test_a_breakable_name_breaks_after_its_separators() -> None:
    assert console.breakable("system:open-cluster") == "system:<wbr>open-<wbr>cluster"


@given(texts)
def test_whatever_a_value_holds_it_stays_text(value: str) -> None:
    template = Template(
        "{% load console %}{% icon v %}{{ v|age }}{{ v|ago }}{{ v|day }}{{ v|moment }}{{ v|breakable }}"
        "{{ v|short_fingerprint }}{{ v|last_segment }}{{ v|initials }}{{ v|grouped }}{% key_picture v %}{% lifetime v v %}"
    )
    drawn = template.render(Context({"v": f"<script>{value}</script>"}))
    assert "<script" not in drawn


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("cluster.open-cluster-management.io/unreachable", "unreachable"),
        ("dedicated", "dedicated"),
        ("a/", "a"),
        ("", ""),
    ],
)
def test_the_last_segment_of_a_qualified_name_is_what_people_read(name: str, last: str) -> None:
    assert console.last_segment(name) == last


@pytest.mark.parametrize(("value", "said"), [(9581, "9,581"), (0, "0"), ("about 10,000", "about 10,000")])
def test_counts_are_grouped_and_approximate_ones_left_alone(value: object, said: str) -> None:
    assert console.grouped(value) == said


@pytest.mark.usefixtures("frozen")
def test_a_fact_is_readable_whatever_its_value() -> None:
    assert words(str(console.readable(NOW - timedelta(hours=1)))) == "1 h ago"
    assert [console.readable(value) for value in ("token web-eu", 0, None, "")] == [
        "token web-eu",
        0,
        *["\N{EN DASH}"] * 2,
    ]


def test_requests_are_compared_line_by_line_and_lines_nobody_fills_are_left_out() -> None:
    lines = console.comparison(
        [
            {"fingerprint": "SHA256:71aa", "cn": "one", "usages": ["client auth"], "problems": []},
            {"fingerprint": "SHA256:c04e", "cn": "one", "usages": ["client auth"], "problems": ["unknown key"]},
        ]
    )
    assert [(line.label, line.differs) for line in lines] == [
        ("Key", True),
        ("CN", False),
        ("Usages", False),
        ("Problems", True),
    ]
    assert lines[0].cells == ["SHA256:71aa", "SHA256:c04e"]


def test_a_single_request_differs_from_nothing() -> None:
    assert not any(line.differs for line in console.comparison([{"fingerprint": "SHA256:71aa", "state": "Pending"}]))
    assert console.comparison(None) == []


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("moment", "said", "title"),
    [
        (NOW - timedelta(hours=2), "00:21", "21 Nov 2026, 00:21 UTC"),
        (NOW - timedelta(hours=3), "20 Nov, 23:21", "20 Nov 2026, 23:21 UTC"),
        (NOW - timedelta(days=16), "5 Nov, 02:21", "5 Nov 2026, 02:21 UTC"),
    ],
)
def test_a_gap_of_today_has_its_time_and_an_earlier_one_its_date(moment: datetime, said: str, title: str) -> None:
    shown = str(timeline.clock(moment))
    assert words(shown) == said
    assert f'title="{title}"' in shown
    assert f'datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"' in shown


def test_availability_is_all_of_it_only_where_nothing_is_missing() -> None:
    shares = {"1 Nov": 99.999, "2 Nov": 100.0, "3 Nov": None}
    days = [{"label": label, "share": share} for label, share in shares.items()]
    drawn = charts.availability_bars(days, counted="Time that it was not silent")
    assert re.findall(r"<td>([^<]+)</td>", drawn)[1::2] == ["99.99 %", "100.00 %", "not looked"]
    assert "Time that it was not silent" in drawn
    assert "Heartbeats" not in drawn
