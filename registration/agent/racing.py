"""Several coroutines of which the first to end decides. Called by ``serving`` and ``agent``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


async def first_of(
    ends: Sequence[Coroutine[Any, Any, Result]], others: Sequence[Coroutine[Any, Any, None]] = ()
) -> Result:
    """What the first of ``ends`` returns; all else is cancelled then. What any of them raises is raised as a group."""
    async with asyncio.TaskGroup() as group:
        rest = [group.create_task(each) for each in others]
        tasks = [group.create_task(each) for each in ends]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in [*tasks, *rest]:
            task.cancel()
    return next(iter(done)).result()
