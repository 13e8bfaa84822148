"""Migrations come in two steps, so that servers of the release before go on with the new schema while hosts are updated.

A release adds: tables, indexes, and columns that may be null or have a default in the database. What it no longer uses
is removed by the next one. ``BASELINE`` is the schema of the last release to which this applies; move it with a release.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import RunPython, RunSQL
from django.db.models import NOT_PROVIDED

# The newest migration of each app in the release before.
BASELINE = {
    "clusters": "0009_first_seen_by_the_hubs_clock",
    "clustersets": "0003_cluster_profiles",
    "corekinds": "0005_token_order",
    "kubeapi": "0012_incarnation",
    "ocmconsole": "0003_demo_fleet",
    "placements": "0003_eviction_brake",
    "registration": "0011_authority_of_certificates",
}
# What breaks the rule, with the reason why the release before goes on nevertheless. Empty it with each release.
LISTED: dict[str, str] = {}
# Migrations that change rows, with the reason why the release before reads and writes them nevertheless.
CHANGES_ROWS: dict[str, str] = {}


def test_what_the_release_before_needs_is_still_there() -> None:
    loader = MigrationLoader(None)
    assert BASELINE.items() <= loader.graph.nodes.keys(), "a migration of the release before was removed or renamed"
    before, after = loader.project_state([*BASELINE.items()]), loader.project_state()
    found = set()
    for name, old in before.models.items():
        if name[0] not in BASELINE:
            continue
        label = ".".join(name)
        if (new := after.models.get(name)) is None:
            found.add(f"{label}: removed")
            continue
        found |= {f"{label}.{each}: {flaw}" for each, flaw in flaws(old.fields, new.fields)}
        found |= {f"{label}: a new constraint" for each in constraints(new.options) - constraints(old.options) if each}
    assert found == {*LISTED}


def flaws(old: dict[str, models.Field], new: dict[str, models.Field]) -> list[tuple[str, str]]:  # type: ignore[type-arg]
    found = [(name, "removed") for name in old.keys() - new.keys()]
    for name, field in new.items():
        is_free = field.null or field.db_default is not NOT_PROVIDED or field.many_to_many
        if name not in old:
            if not is_free:
                found.append((name, "added, neither null nor with a default in the database"))
        elif shape(old[name]) != shape(field) and not is_wider(old[name], field):
            found.append((name, "changed"))
    return found


def shape(field: models.Field) -> tuple[object, ...]:  # type: ignore[type-arg]
    return field.get_internal_type(), field.db_column, field.null, field.unique, field.max_length


def is_wider(old: models.Field, new: models.Field) -> bool:  # type: ignore[type-arg]
    """Takes all that the old one took."""
    is_same = shape(old)[:2] == shape(new)[:2] and new.unique <= old.unique and new.null >= old.null
    return is_same and (new.max_length is None or (old.max_length is not None and new.max_length >= old.max_length))


def constraints(options: dict[str, Any]) -> set[str]:
    return {str(each) for name in ("constraints", "unique_together") for each in options.get(name) or ()}


def test_rows_are_changed_only_where_that_is_said() -> None:
    loader = MigrationLoader(None)
    before = {key for leaf in BASELINE.items() for key in loader.graph.forwards_plan(leaf)}
    found = {
        ".".join(key)
        for key in loader.graph.nodes.keys() - before
        if key[0] in BASELINE
        for operation in loader.graph.nodes[key].operations
        if isinstance(operation, RunPython | RunSQL)
    }
    assert found == {*CHANGES_ROWS}
