"""Writes docs/guide/differences.md from differences.yaml, kept.yaml and scheduler.yaml: `python -m tests.conformance.replay.page`.

That the committed page is the one that this writes is looked after by test_replay, as is that each row is true.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.replay.comparing import FOLDER, Doc, kept_answers, listed_differences, scheduler_answers

PAGE = FOLDER.parents[2] / "docs" / "guide" / "differences.md"
HEAD = """# Where this hub answers otherwise than a real one

The traffic of the real registration agent and of the real clusteradm with a real Open Cluster Management hub was recorded. `tests/conformance` plays it
against this hub and compares every answer: status, content type, and the document as far as it was recorded, with its names, types, values, reasons and messages. What differs
is in this table, and a difference that is not there, or is there and does not show, fails the test.

Not compared are the values of what changes with every run: uids, resource versions, generations, times, tokens, certificates, generated names; that they
are there, and that a time looks like one, is. Of a watch, the kinds of events and their order are compared, and the object as it is before the next
request; the steps by which the hub's own writes lead there come in any order, as they do in the recording. The recording was made over HTTP/2, which here is
[the proxy's](production.md).

Nor is what the recording does not hold: managed fields, the events of watches of CertificateSigningRequests (the replay takes the agents' certificates from
them, so they do arrive), the ends of long lists and of one long watch, and whether a field was null, empty or left out where the answer was protobuf.
What a person did between two recorded requests is known by its effect alone; the replay does it in its own words. So as not to wait for minutes, some
renewals of leases carry a time that is seconds old.

| here | why | seen in | rules |
|---|---|---|---|
"""

NOT_BUILT = """
## Not built

| gate | why |
|---|---|
| `ClusterImporter` | The hub renders no charts and installs nothing on clusters. |
| `SIGPlacementDecision` | SIG Multicluster's PlacementDecision (KEP-5313) is provisional: `clusterProfileRef` has changed its type within `v1alpha1`, and `v1alpha2` refuses more. Tools read OCM's [PlacementDecisions](placements.md). |

ClusterProfile is served as `v1alpha1`, as OCM does; its `v1alpha2` is not.

"""

KEPT = """## Beyond the recordings

Answers were compared with those of a kube-apiserver 1.36, request by request, and with its source and that of OCM's hub. What this hub answers otherwise on purpose is in
this table, with the reason and the test that shows it.

| here | a kube-apiserver, or OCM's hub on it | why | shown by | rules |
|---|---|---|---|---|
"""

SCHEDULER = """
## Placements

OCM's placement controller, built from its source and unmodified, ran with this hub as its API server, and its decisions were compared with those of this hub's own
scheduler: each PlacementDecision with labels, owner and clusters, each status, after each of 20 kinds of change. What differs is in this table. Where one change
concerns several Placements, both take them in any order, and Balance counts what the others have at that moment: there two runs of either may differ.

| here | OCM's placement controller | why | shown by | rules |
|---|---|---|---|---|
"""


def render(differences: Iterable[Doc], kept: Iterable[Doc], scheduler: Iterable[Doc]) -> str:
    recorded = HEAD + "".join(map(_row, differences)) + NOT_BUILT
    return recorded + KEPT + "".join(map(_kept_row, kept)) + SCHEDULER + "".join(map(_kept_row, scheduler))


def _kept_row(kept: Doc) -> str:
    why = " ".join(kept["why"].split())
    return f"| {kept['here']} | {kept['there']} | {why} | `{kept['test']}` | {', '.join(kept.get('rules', []))} |\n"


def _row(difference: Doc) -> str:
    why = " ".join(difference["why"].split())
    return f"| {difference['what']} | {why} | {difference['where']} | {', '.join(difference.get('rules', []))} |\n"


if __name__ == "__main__":
    PAGE.write_text(render(listed_differences(), kept_answers(), scheduler_answers()))
