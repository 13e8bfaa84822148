"""Room for frames: calls from any depth of a thread ask the kernel for no memory."""

from __future__ import annotations

import resource
from threading import Thread

DEPTH, CALLS = 600, 1_000


def deeper(left: int) -> None:
    if left:
        for _ in range(CALLS):
            shallow()
        deeper(left - 1)


def shallow() -> None:
    pass


def test_calls_from_any_depth_of_a_thread_take_no_memory_from_the_kernel() -> None:
    faults: list[int] = []

    def run() -> None:
        deeper(DEPTH)  # touches the pages
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        deeper(DEPTH)
        faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert faults[0] < CALLS  # one a call from where a chunk ends
