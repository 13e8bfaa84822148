"""Upstream's debugger of placements (P36), on the API listener: why a stored Placement, or one in the body, gets what.

``GET /debug/placements/<namespace>/<name>`` and ``POST /debug/placements/``, behind the gate PlacementDebugServer. The
fields are upstream's; what is added beside them are reasons, and how many clusters the caller may not see. Nothing is
written. The result is that of ``scheduling``, as the scheduler uses it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.http import HttpResponse

from clusters import queries
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.formats import negotiation
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.http.request_info import RequestInfo
from ocmconsole.kubeapi.http.views import TOO_LARGE, KubernetesView
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import times
from placements.controller import scheduling
from placements.explaining import reasons
from placements.kinds import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    from django.http import HttpRequest
    from rest_framework.request import Request

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from placements.scheduler.fleet import Cluster
    from placements.scheduler.pipeline import PlacementResult

GATE = "PlacementDebugServer"
LARGEST_BODY = 1024 * 1024  # bytes, as upstream
# What upstream calls the clusters that are left after each filter; an error of a filter ends the list before it.
FILTERS = (("Predicate", "matching"), ("Predicate,TaintToleration", "feasible"))


class DebugView(KubernetesView):
    """Upstream asks for the right to get placements in the namespace (GET), or to create them (POST)."""

    def initial(self, request: Request, *args: Any, **place: Any) -> None:  # noqa: ARG002 - the signature of DRF
        """With the gate off as for any path that is not served. Raises Unauthorized, Forbidden, NotFound."""
        outages.require_database()
        self.perform_authentication(request)
        self.info = RequestInfo((request.method or "").lower(), request.path.rstrip("/"))
        if not settings.OCMCONSOLE_FEATURE_GATES[GATE]:
            self.check_permissions(request)
            raise errors.unknown_path()
        if limit := request.META.get(TOO_LARGE):
            raise errors.RequestTooLarge(f"Request entity too large: limit is {limit}")

    def get(self, request: Request, namespace: str = "", name: str = "") -> HttpResponse:
        if not name:
            raise errors.BadRequest("invalid debug path: namespace and name required")
        actor = _allowed(request, "get", namespace)
        placement = verbs.find(PLACEMENT, Key(namespace, name))
        if placement is None:
            raise errors.NotFound(f"placement '{name}' not found")
        return _answer(actor, placement)

    def post(self, request: Request, **_place: str) -> HttpResponse:
        doc = _body(request)
        metadata = doc.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else ""
        actor = _allowed(request, "create", namespace if isinstance(namespace, str) else "")
        return _answer(actor, scheduling.checked(actor, doc))

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG002 - the signature of DRF
        raise errors.MethodNotAllowed(f"method {request.method} not allowed")

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override] # no Response of DRF, as ADR 19 says
        """A Status as everywhere, with upstream's field ``error`` beside it."""
        response = super().handle_exception(exc)
        assert isinstance(response, HttpResponse)
        status: Doc = orjson.loads(response.content)
        response.content = orjson.dumps(status | {"error": status["message"]})
        return response


def _allowed(request: Request, verb: str, namespace: str) -> Actor:
    """P36: as upstream the question names no object. Raises Forbidden."""
    actor: Actor = request.user  # type: ignore[assignment] # ``KubernetesAuthentication`` makes it an Actor
    version = PLACEMENT.storage
    asked = Attributes(verb, version.group, PLACEMENT.plural, namespace=namespace, version=version.version)
    try:
        authorization.require(actor, asked)
    except errors.Forbidden as error:
        text = f"user does not have permission to {verb} placements in namespace {namespace}: {error.message}"
        raise errors.Forbidden(text, details=error.details) from error
    return actor


def _body(request: Request) -> Doc:
    """JSON whatever media type it has, as upstream reads it, or YAML that says so. Raises BadRequest."""
    raw: bytes = request.body
    if len(raw) > LARGEST_BODY:
        raise errors.BadRequest(f"request body too large: exceeds maximum of {LARGEST_BODY} bytes")
    given = negotiation.media_type(request.content_type)
    media = given if given == "application/yaml" else "application/json"
    doc, _ = negotiation.read_body(raw, media, protobuf=None, expected=PLACEMENT.kind)
    return doc


def _answer(actor: Actor, placement: Doc) -> HttpResponse:
    result = scheduling.result_of(placement, clock.now())
    visible = frozenset(queries.clusters_for(actor).values_list("name", flat=True))
    doc = explanation(placement, result, visible)
    return HttpResponse(orjson.dumps(doc), content_type="application/json", headers={"Cache-Control": "no-store"})


def explanation(placement: Doc, result: PlacementResult, visible: frozenset[str]) -> Doc:
    """Upstream's fields with clusters of ``visible`` only, then ours.

    Ours are ``decisions``, ``heldClusters`` (D27; left out where there is none), ``reasons`` and ``hiddenClusters``. As
    upstream, a list that would be empty is left out, and so is what comes after an error in the configuration.
    """
    metadata = {part: value for part, value in placement["metadata"].items() if part in scheduling.METADATA}
    head = {part: placement[part] for part in ("apiVersion", "kind")}
    doc: Doc = {"placement": head | {"metadata": metadata, "spec": placement.get("spec") or {}}}
    plugin = result.plan.problem.partition(":")[0] if result.plan.problem else None
    filters = 0 if plugin == "Predicate" else 1 if plugin == "TaintToleration" else len(FILTERS)
    hidden: Doc = {}
    results = []
    for name, left in FILTERS[:filters]:
        clusters: list[Cluster] = list(getattr(result, left))
        shown = _names(clusters, visible)
        results.append({"name": name, "filteredClusters": shown})
        hidden[name] = len(clusters) - len(shown)
    if results:
        doc["filteredPipelineResults"] = results
    if filters == len(FILTERS) and (plugin is None or result.plan.prioritizers):
        doc |= _scores(result, visible)
    chosen = _names(result.chosen, visible)
    hidden["Decisions"] = len(result.chosen) - len(chosen)
    doc["decisions"] = chosen
    doc["conditions"] = [
        {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
        for each in result.conditions
    ]
    if result.held:  # D27
        names = sorted(result.held)
        hidden["Held"] = sum(name not in visible for name in names)
        doc["heldClusters"] = [
            {"clusterName": name, "until": times.timestamp(end) if (end := result.held[name].until) else None}
            for name in names
            if name in visible
        ]
    return doc | _reasons(result, visible, hidden)


def _names(clusters: Iterable[Cluster], visible: frozenset[str]) -> list[str]:
    return sorted(each.name for each in clusters if each.name in visible)


def _scores(result: PlacementResult, visible: frozenset[str]) -> Doc:
    found: Doc = {}
    prioritized = [
        {
            "name": prioritizer.name,
            "weight": prioritizer.weight,
            "scores": {name: score for name, score in scores.items() if name in visible},
        }
        for prioritizer, scores in result.scores
    ]
    if prioritized:
        found["prioritizeResults"] = prioritized
    shown = [(-total, name) for name, total in result.totals.items() if name in visible]
    if shown:
        found["aggregatedScores"] = [{"clusterName": name, "score": -total} for total, name in sorted(shown)]
    return found


def _reasons(result: PlacementResult, visible: frozenset[str], hidden: Doc) -> Doc:
    """Of each member of a bound set that is not chosen: the stage at which it fell out, and why.

    D12: why is empty for those that come after the time that one request may take.
    """
    listed, unnamed, is_time_up = [], Counter[str](), scheduling.timer(scheduling.PATIENCE)
    members = {each.name: each for clusters in result.scoring.fleet.members.values() for each in clusters}
    for name in sorted(members):
        step = result.step(members[name])
        if step is None:
            continue
        if name not in visible:
            unnamed[reasons.STAGES[step]] += 1
            continue
        reason = None if is_time_up() else result.reason(members[name])
        said = reasons.sentence(reason) if reason is not None else ""
        listed.append({"clusterName": name, "stage": reasons.STAGES[step], "reason": said})
    return {"reasons": listed, "hiddenClusters": {"left": hidden, "fellOut": dict(sorted(unnamed.items()))}}
