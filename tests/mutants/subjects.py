"""What may be replaced by something that does nothing: rules, reconcilers, authorizers, tasks, steps of the scheduler.

Each is found where it is registered, so nothing has to be listed by hand; its contract ids are those in the first
paragraph of its docstring. A step of the scheduler is a function whose docstring names an id; it finds nothing then. Used by the plugin, which silences one, and by the architecture tests.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

CONTRACT_ID = re.compile(r"\b[WTAHGPCSKDI]\d+[a-z]?\b")
SPAN = re.compile(r"\b([A-Z])(\d+) to \1(\d+)\b")
# One runs the reconcilers, each of which has its own ids; the other plays agents, which is no part of a hub.
NO_RULE = frozenset({"ocmconsole.kubeapi.tasks.drain", "ocmconsole.tasks.beat_demo"})

Function = Callable[..., Any]


@dataclass(frozen=True)
class Subject:
    """A registered function; ``silence`` makes it do nothing for the rest of the process."""

    name: str
    app: str
    ids: tuple[str, ...]
    silence: Callable[[], None]


def subjects() -> dict[str, Subject]:
    """By name, in the order of registration; a function that is registered for two kinds is one subject."""
    return {subject.name: subject for subject in (*_rules(), *_reconcilers(), *_tasks(), *_steps())}


def _rules() -> Iterator[Subject]:
    for place, silent in _places():
        for function in place:
            yield _subject(function, partial(_silence_rule, function, silent))


def _places() -> Iterator[tuple[list[Any], Function]]:
    """Every list of rules, and what stands for a rule of that list which has nothing to say."""
    from ocmconsole.kubeapi import admission
    from ocmconsole.kubeapi.access import authorization

    lists: tuple[dict[Any, list[Any]], ...] = (
        admission._defaulters,
        admission._validators,
        admission._delete_validators,
        admission._acts,
    )
    yield from ((place, _nothing) for by_kind in lists for place in by_kind.values())
    yield from ((place, _no_rows) for place in admission._records.values())
    yield from ((place, _nothing) for place in admission._companions.values())
    yield admission._create_validators, _nothing
    yield authorization._authorizers, _nothing


def _silence_rule(function: Function, silent: Function) -> None:
    for place, _ in _places():
        place[:] = [silent if each == function else each for each in place]
    _silence_name(function, silent)


def _reconcilers() -> Iterator[Subject]:
    from ocmconsole.kubeapi.control import controllers

    for found in controllers._reconcilers.values():
        yield _subject(found.reconcile, partial(_silence_reconciler, found.name, found.reconcile))


def _silence_reconciler(name: str, reconcile: Function) -> None:
    from ocmconsole.kubeapi.control import controllers

    controllers._reconcilers[name] = controllers.Reconciler(name, _nothing)
    _silence_name(reconcile, _nothing)


def _tasks() -> Iterator[Subject]:
    from django.utils.module_loading import import_string

    from ocmconsole.schedule import BEAT

    for name in sorted({str(entry["task"]) for entry in BEAT.values()} - NO_RULE):
        task = import_string(name)
        yield _subject(task, partial(setattr, task, "__code__", _nothing.__code__))  # also where it was imported


def _steps() -> Iterator[Subject]:
    """Functions and methods of the scheduler, and of what it writes, with an id in their docstring."""
    from placements.controller import decisions

    for module in (*scheduler_modules(), decisions):
        owned = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        inside = [each for owner in owned if inspect.isclass(owner) for each in vars(owner).values()]
        for function in filter(inspect.isfunction, map(_unwrapped, (*owned, *inside))):
            if _ids(function):
                silent = _finding_nothing(str(function.__annotations__.get("return", "")))
                yield _subject(function, partial(setattr, function, "__code__", silent.__code__))


def scheduler_modules() -> list[ModuleType]:
    from placements import scheduler

    return [import_module(f"{scheduler.__name__}.{each.name}") for each in pkgutil.iter_modules(scheduler.__path__)]


def _unwrapped(found: Any) -> Any:
    """The function of a property, cached or not, or of a class method."""
    for name in ("func", "fget", "__func__"):
        if not inspect.isfunction(found) and (function := getattr(found, name, None)) is not None:
            return function
    return found


def _finding_nothing(returns: str) -> Function:
    """A function without an effect whose answer has the type of an annotation."""
    for beginnings, silent in (
        (("list", "Sequence", "Iterator", "tuple"), _no_rows),
        (("set", "frozenset"), _no_members),
        (("Mapping", "dict", "Doc"), _no_entries),
        (("bool",), _no),
        (("int",), _zero),
    ):
        if returns.startswith(beginnings):
            return silent
    return _nothing


def _subject(function: Function, silence: Callable[[], None]) -> Subject:
    owner = getattr(function, "__self__", None)
    module = function.__module__ if owner is None else owner.app  # one method is an authorizer for each app's grants
    return Subject(f"{module}.{function.__qualname__}", _app(module), _ids(function), silence)


def _app(module: str) -> str:
    return module.removeprefix("ocmconsole.").partition(".")[0]


def _ids(function: Function) -> tuple[str, ...]:
    head = (function.__doc__ or "").partition("\n\n")[0]
    between = [
        f"{letter}{number}" for letter, first, last in SPAN.findall(head) for number in range(int(first), int(last) + 1)
    ]
    return tuple(dict.fromkeys((*CONTRACT_ID.findall(head), *between)))


def _silence_name(function: Function, silent: Function) -> None:
    """Tests that call a function by its name meet the silence too."""
    module = sys.modules[function.__module__]
    if getattr(module, function.__name__, None) == function:
        setattr(module, function.__name__, silent)


def _nothing(*_arguments: object, **_options: object) -> None:
    """The answer of a rule that agrees, a reconciler that is content, an authorizer without an opinion."""


def _no_rows(*_arguments: object, **_options: object) -> tuple[()]:
    return ()


def _no_members(*_arguments: object, **_options: object) -> frozenset[Any]:
    return frozenset()


def _no_entries(*_arguments: object, **_options: object) -> dict[str, Any]:
    return {}


def _no(*_arguments: object, **_options: object) -> bool:
    return False


def _zero(*_arguments: object, **_options: object) -> int:
    return 0
