"""Names of Django permissions and the hub's taints have one definition; code, templates and documents agree with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

from clusters.kinds import ACCEPTS_CLIENT, HUB_TAINTS, TaintEffect
from ocmconsole.kubeapi.models import PermissionName
from tests.architecture.test_repository import ROOT, tracked

PRODUCT = ("ocmconsole", "clusters", "clustersets", "placements", "registration")
NAMES = [name for names in PermissionName.__subclasses__() for name in names]
DEFINITIONS = {
    "ocmconsole/accounts/permissions.py",
    "ocmconsole/core/models.py",
    "ocmconsole/kubeapi/models.py",
    "clusters/models.py",
    "clustersets/models.py",
    "registration/models.py",
}
LOOKS_LIKE_ONE = re.compile(r"\b([a-z]+)\.((?:view|add|change|delete|accept|join|bind|move)_[a-z]+)\b")


def permissions_of_models() -> set[str]:
    found: set[str] = set()
    for model in apps.get_models():
        meta = model._meta
        codenames = [f"{verb}_{meta.model_name}" for verb in meta.default_permissions]
        codenames += [codename for codename, _ in meta.permissions]
        found.update(f"{meta.app_label}.{codename}" for codename in codenames)
    return found


def texts(path: Path) -> Iterator[str]:
    """String constants of a module, without docstrings; of a template its lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def product() -> Iterator[tuple[str, Path]]:
    for path in tracked(*PRODUCT, "templates"):
        if path.suffix in {".py", ".html", ".txt"} and "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), path


def test_each_named_permission_is_one_of_a_model() -> None:
    assert len(NAMES) > 20
    assert set(NAMES) - permissions_of_models() == set()


def test_code_and_templates_spell_no_permission_themselves() -> None:
    words = "|".join(re.escape(word) for name in NAMES for word in (name.value, name.codename))
    spelled = re.compile(rf"(?<![\w.])(?:{words})(?![\w.])")
    found = [
        f"{name}: {match[0]}"
        for name, path in product()
        if name not in DEFINITIONS
        for text in texts(path)
        for match in [spelled.search(text)]
        if match
    ]
    assert found == []


def test_documents_name_permissions_that_there_are() -> None:
    labels = {model._meta.app_label for model in apps.get_models()}
    known, wrong = permissions_of_models(), []
    for path in [*tracked("docs"), ROOT / "README.md", ROOT / "THREAT_MODEL.md", ROOT / "CONTRIBUTING.md"]:
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            found = (match for match in LOOKS_LIKE_ONE.finditer(text) if match[1] in labels and "/" not in match[2])
            wrong += [f"{path.name}: {match[0]}" for match in found if match[0] not in known]
    assert wrong == []


def test_the_hubs_taints_effects_and_the_accepting_field_are_spelled_in_one_module() -> None:
    """Everything else takes them from ``clusters.kinds``; the agent imports nothing of the hub."""
    words = {ACCEPTS_CLIENT, *TaintEffect, *(taint["key"] for taint in HUB_TAINTS)}
    spelled = [
        f"{name}: {text}"
        for name, path in product()
        if path.suffix == ".py" and name != "clusters/kinds.py" and not name.startswith("registration/agent/")
        for text in texts(path)
        if text in words or text in {f"spec.{ACCEPTS_CLIENT}", f'{{"spec":{{"{ACCEPTS_CLIENT}":true}}}}'}
    ]
    assert spelled == []
