"""Lists of Django admin that stay fast however many rows a table has.

Invariant: a page of a list reads the rows that it shows, by an index, and counts at most ``COUNTED`` others; it never
sorts or counts a table. ``decorated`` adds what a column needs of other tables, with a fixed number of queries for a
page. Used by every ModelAdmin of the project through ``Fast``.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from django.http import HttpRequest

ROWS = 50  # of a page
COUNTED = 10_000  # rows that a list counts: 200 pages, further than anybody turns
# What an address may compare a column by; "id__exact" is how Django's own filter names a row of a relation.
COMPARISONS = frozenset(
    {
        "",
        "exact",
        "in",
        "isnull",
        "contains",
        "startswith",
        "gt",
        "gte",
        "lt",
        "lte",
        "year",
        "month",
        "day",
        "id__exact",
    }
)


class MoreThan(int):
    """A number that a count stopped at."""

    def __str__(self) -> str:
        return f"more than {int(self):,}"


class CappedPaginator(Paginator):  # type: ignore[type-arg] # one for every model
    """Counts ``COUNTED`` rows and no more. Rows beyond them are found with a search or a filter."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list  # a queryset
        found: int = rows.order_by().values("pk")[: COUNTED + 1].count()
        return MoreThan(COUNTED) if found > COUNTED else found


class AdminChangeList(ChangeList):
    """``dates`` is the date hierarchy from the first to the last row, found with one look at each end of the index.

    Django's own reads the whole table for the years, months or days that have rows.
    """

    def get_filters(self, request: HttpRequest) -> Any:
        try:
            return super().get_filters(request)
        except (OverflowError, ValueError) as error:  # the day after the one in the address does not exist
            raise IncorrectLookupParameters(error) from error

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        model_admin: Any = self.model_admin
        if not self.query and not self.has_active_filters:
            self.full_result_count = self.result_count  # nothing is left out, so there is nothing to show besides
        self.result_list: Any = model_admin.decorated(request, list(self.result_list))

    @cached_property
    def dates(self) -> dict[str, Any] | None:
        name = self.date_hierarchy
        if not name:
            return None
        rows = self.root_queryset.filter(**{f"{name}__isnull": False}).values_list(name, flat=True)
        first, last = rows.order_by(name).first(), rows.order_by(f"-{name}").first()
        if first is None or last is None:
            return None
        return self._level(name, _day(first), _day(last))

    def _level(self, name: str, first: date, last: date) -> dict[str, Any]:
        """The choices below the year, month or day that the address names, between the two days."""
        parts = ("year", "month", "day")
        asked = [str(self.params.get(f"{name}__{part}", "")) for part in parts]
        chosen: list[int] = []
        for text in asked:
            if not text.isdigit():
                break
            chosen.append(int(text))

        def link(*values: int) -> str:
            given = {f"{name}__{part}": value for part, value in zip(parts, values, strict=False)}
            return str(self.get_query_string(given, [f"{name}__"]))

        def choice(text: str, *values: int) -> dict[str, str]:
            return {"link": link(*values), "title": text}

        if not chosen:
            years = range(first.year, last.year + 1)
            return {"back": None, "choices": [choice(str(year), year) for year in years]}
        year = chosen[0]
        if len(chosen) == 1:
            months = [month for month in range(1, 13) if _month(first) <= (year, month) <= _month(last)]
            back = {"link": link(), "title": "All dates"}
            return {"back": back, "choices": [choice(f"{_MONTHS[month]} {year}", year, month) for month in months]}
        month = chosen[1]
        if len(chosen) == 2:  # noqa: PLR2004 - year and month
            days = [day for day in _days(year, month) if first <= day <= last]
            back = {"link": link(year), "title": str(year)}
            return {
                "back": back,
                "choices": [choice(f"{day.day} {_MONTHS[month]}", year, month, day.day) for day in days],
            }
        title = f"{_MONTHS.get(month, month)} {year}"
        return {"back": {"link": link(year, month), "title": title}, "choices": [{"title": f"{chosen[2]} {title}"}]}


_MONTHS = {month: datetime(2000, month, 1, tzinfo=UTC).strftime("%B") for month in range(1, 13)}


def _day(value: date | datetime) -> date:
    return value.astimezone(UTC).date() if isinstance(value, datetime) else value


def _month(day: date) -> tuple[int, int]:
    return day.year, day.month


def _days(year: int, month: int) -> Iterable[date]:
    """Of a month that exists; an address may name any."""
    if month not in _MONTHS or not date.min.year <= year <= date.max.year:
        return []
    return (date(year, month, day) for day in range(1, monthrange(year, month)[1] + 1))


class Fast(admin.ModelAdmin):  # type: ignore[type-arg] # one admin for every model
    """``lookups`` are the columns that an address may filter by besides the filters that the list shows."""

    paginator = CappedPaginator
    list_per_page = ROWS
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: ClassVar[Any] = ()
    lookups: ClassVar[tuple[str, ...]] = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002 - Django's signature
        return AdminChangeList

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - for admins with columns of other tables
        """The rows of one page, with what their columns need."""
        return rows

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature
        """Only columns that are named here, compared in a few ways, and never a column of another table.

        Django lets an address compare more: a digest or a secret behind a relation could be guessed digit by digit,
        and a pattern can keep SQLite, and with it the process, busy for as long as its author likes.
        """
        filters: list[Any] = list(self.list_filter)  # names of columns, and subclasses of ChoiceFilter
        names = (each if isinstance(each, str) else each.parameter_name for each in filters)
        column, _, comparison = lookup.partition("__")
        return column in {*self.lookups, *names, str(self.date_hierarchy)} and comparison in COMPARISONS


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with fixed choices; Django's own for a column of text reads the table for its values."""

    choices_of: tuple[tuple[str, str], ...] = ()
    parameter_name: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:  # noqa: ARG002 - Django's signature
        return self.choices_of

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002 - Django's signature
        value = self.value()
        return self.narrowed(queryset, value) if value in dict(self.lookup_choices) else queryset

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(**{self.parameter_name: value})


def status_label(label: str, tone: str, title: str = "") -> SafeString:
    """A status word as the pages show it, without its icon."""
    return format_html(
        '<span class="oc-status oc-t-{}"{}>{}</span>', tone, format_html(' title="{}"', title) if title else "", label
    )
