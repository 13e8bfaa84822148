"""Label selectors as conditions on rows, so that the database does the choosing. Pure.

Agrees with ``selectors``, which stays the definition; Gt and Lt are left to it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.db.models import F, Func, Q, TextField
from django.db.models.lookups import In

from ocmconsole.kubeapi.storage.selectors import LabelSelector, Operator, Requirement

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.sql.compiler import SQLCompiler

EVERYTHING = Q(pk__isnull=False)
NOTHING = Q(pk__in=())


class LabelValue(Func):
    """The value of one label; Django's own lookup would take a key such as ``1`` for an index of a list."""

    output_field = TextField()

    def __init__(self, key: str) -> None:
        super().__init__(F("labels"))
        self.key = key

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        return f"JSON_EXTRACT({sql}, %s)", [*parameters, f"$.{json.dumps(self.key)}"]

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> Any:  # noqa: ARG002 - Django's signature
        sql, parameters = compiler.compile(self.get_source_expressions()[0])
        return f"({sql} ->> %s)", [*parameters, self.key]


def selector_condition(selector: LabelSelector) -> Q:
    """Never an empty Q, which Django would drop from an ``or``."""
    found = EVERYTHING
    for requirement in selector.requirements:
        found &= _condition(requirement)
    return found


def _condition(requirement: Requirement) -> Q:
    present = Q(labels__has_key=requirement.key)
    equal = Q(In(LabelValue(requirement.key), list(requirement.values))) if requirement.values else NOTHING
    match requirement.operator:
        case Operator.EQUALS | Operator.IN:
            return equal
        case Operator.NOT_EQUALS | Operator.NOT_IN:
            return ~present | ~equal
        case Operator.NOT_EXISTS:
            return ~present
        case _:
            return present
