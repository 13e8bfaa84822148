"""What an act says travels as its arguments: a value of the context or of a thread is there for one argued reason each."""

from __future__ import annotations

import ast

from tests.architecture.test_repository import ROOT, tracked

ARGUED = {
    "ocmconsole/kubeapi/abandoned_requests.py": "whether the client of the request has gone",
    "ocmconsole/kubeapi/access/request_limits.py": "CPU seconds that the request has cost so far",
    "ocmconsole/kubeapi/admission.py": "warnings for the response, which any validator may add",
    "ocmconsole/kubeapi/health/outages.py": "the deadline of the statements of a thread",
    "ocmconsole/kubeapi/clock.py": "how far a demonstration that lives through its past is behind",
    "ocmconsole/kubeapi/models.py": "that the store writes: save() raises anywhere else",
    "ocmconsole/kubeapi/request_cache.py": "what the request has read already",
    "ocmconsole/second_approval/gate.py": "which proposal a page has shown; that the host does an act alone, and why",
    "placements/scheduler/expressions.py": "CEL calls our functions with values of CEL alone",
}


def test_nothing_else_is_kept_in_the_context_or_in_a_thread() -> None:
    found: set[str] = set()
    for path in tracked("ocmconsole/*.py", "clusters/*.py", "clustersets/*.py", "placements/*.py", "registration/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {
                "ContextVar",
                "local",
                "Local",
            }:
                found.add(str(path.relative_to(ROOT)))
    assert found == set(ARGUED)


def test_one_clock_says_what_time_it_is() -> None:
    """So that a demonstration can live through a past; ``monotonic`` measures, and sessions count real seconds."""
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in tracked(
            "ocmconsole/*.py", "clusters/*.py", "clustersets/*.py", "placements/*.py", "registration/*.py"
        )
        if path.name != "clock.py" and "migrations" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"timezone.now", "datetime.now", "datetime.utcnow"}
    ]
    assert asked == []
