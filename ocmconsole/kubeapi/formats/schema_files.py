"""Schema files: YAML in the form of a CustomResourceDefinition's ``openAPIV3Schema``, one file a kind and version.

They are packaged in the folder ``schemas`` of each app, named ``<plural>.<version>.yaml`` (and ``.<group>`` where two
groups share both), and leave out apiVersion, kind and metadata, which ``schema`` adds. Every file is read and checked
when its kind is registered, at the start of each process. Called by the modules that register kinds.
"""

from __future__ import annotations

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from ocmconsole.kubeapi.errors import ApiError
from ocmconsole.kubeapi.formats import documents
from ocmconsole.kubeapi.schema import structural
from ocmconsole.kubeapi.schema.compiled_schema import Schema


def load(path: Path, *, name: str) -> Schema:
    """The schema of one file; ``name`` is that of its OpenAPI definition.

    Raises ImproperlyConfigured, with the file and a line for each problem, when it cannot be read, is not YAML, has a
    key twice or is no structural schema that this hub implements.
    """
    try:
        root, doubled = documents.read_yaml(path.read_bytes())
    except (OSError, ApiError) as error:
        raise ImproperlyConfigured(f"schema file {path}: {error}") from error
    found = [f"{key}: stands twice" for key in doubled] or structural.problems(root)
    if found:
        raise ImproperlyConfigured("\n  ".join([f"schema file {path}:", *found]))
    return Schema(root, name=name)
