"""``python -m tests.crash.again``: run every reconciler twice on every key that the log gives reason for.

Beside a hub at rest, in its environment. Prints how often one ran, and the changes that were written, of which there
should be none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from ocmconsole.kubeapi.writes.store import Write


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ocmconsole.settings")
    django.setup()
    from ocmconsole.kubeapi.control import controllers
    from ocmconsole.kubeapi.models import Change, Revision

    before = Revision.objects.get().value
    work = sorted(controllers.caused_by(_log()))
    for name, key in work:
        found = controllers.find_reconciler(name)
        assert found is not None
        found.reconcile(key)
        found.reconcile(key)
    written = Change.objects.filter(revision__gt=before).values_list("verb", "resource", "namespace", "name", "wire")
    ran = {name: sum(each == name for each, _ in work) for name in controllers.names()}
    json.dump({"ran": ran, "written": list(written)}, sys.stdout)


def _log() -> Iterator[Write]:
    """Each change as if the object had just come, and as if it had just gone: its reconcilers must run again."""
    from ocmconsole.core.garbage_collection import collector
    from ocmconsole.kubeapi import kinds
    from ocmconsole.kubeapi.kinds import Key
    from ocmconsole.kubeapi.models import Change
    from ocmconsole.kubeapi.writes.store import Write

    for change in Change.objects.order_by("revision").iterator():
        kind, key, doc = kinds.by_resource(change.resource), Key(change.namespace, change.name), json.loads(change.wire)
        for old, new in ((None, doc), (doc, None)):
            yield Write(kind, key, None, old, new, collector, verb="", act="")


if __name__ == "__main__":
    main()
