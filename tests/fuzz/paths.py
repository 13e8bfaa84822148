"""Paths and methods: what is served, and everything that only looks like it (W19, W183)."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import strategies as st

from tests.fuzz import world
from tests.fuzz.cases import BAD, JSON, MISSING, OK, Case, send_json
from tests.fuzz.texts import NAMES, PLAIN, Draw, mixed
from tests.fuzz.world import STANDING

NOT_ALLOWED = frozenset({405})
GONE = BAD | MISSING | NOT_ALLOWED
DOCUMENTS = [
    "/", "/version", "/version/", "/healthz", "/livez", "/readyz", "/readyz/ping", "/api", "/apis", "/api/v1", "/apis/cluster.open-cluster-management.io",
    "/apis/cluster.open-cluster-management.io/v1", "/apis/certificates.k8s.io/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1",
    "/openapi/v3/apis/cluster.open-cluster-management.io/v1", "/swagger-2.0.0.pb-v1", "//version", "/api//v1",
]  # fmt: skip
STANDING_SITES = [site for site in world.SITES if site is not world.NEW_EVENTS]
ODD_SEGMENTS = st.one_of(
    PLAIN.map(lambda text: quote(text, safe="")),
    st.sampled_from(["..", ".", "%2e%2e", "%2f", "%5c", "%25", "%20", "x" * 300, "x" * 20_000, "%c3%a9", "%ff", "%ed%a0%80", "*", "~", ";a=b", "%3f", "+", "$", "'", '"', "-", "%E2%80%AE"]),
)  # fmt: skip


def _document(draw: Draw) -> Case:
    accept = draw(
        st.sampled_from(
            [
                "",
                "application/json",
                "*/*",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
            ]
        )
    )
    return Case(
        method=draw(st.sampled_from(["GET", "HEAD"])),
        path=draw(st.sampled_from(DOCUMENTS)),
        headers=(("Accept", accept),),
        codes=OK,
    )


def _object(draw: Draw) -> Case:
    site = draw(st.sampled_from(STANDING_SITES))
    path = draw(
        st.sampled_from(
            [
                site.path,
                f"{site.path}/{STANDING}",
                f"{site.path}/{STANDING}/",
                f"{site.path}/%73tanding",
                f"/{site.path}//{STANDING}",
            ]
        )
    )
    return Case(method=draw(st.sampled_from(["GET", "HEAD"])), path=path, codes=OK)


def _subresource(draw: Draw) -> Case:
    path = draw(
        st.sampled_from(
            [
                f"{site.path}/{STANDING}/{sub.name}"
                for site in STANDING_SITES
                for sub in site.served.kind.subresources
                if "get" in sub.verbs
            ]
        )
    )
    return Case(method="GET", path=path, codes=OK)


def _public(draw: Draw) -> Case:
    """Anybody may know that a hub is here."""
    path = draw(st.sampled_from(["/version", "/healthz", "/livez", "/readyz"]))
    return Case(actor="anonymous", method="GET", path=path, codes=OK)


# ---------------------------------------------------------------- must be refused


def _unknown(draw: Draw) -> Case:
    name = draw(NAMES)
    path = draw(
        st.sampled_from(
            [
                f"/zz{name}", f"/apis/zz{name}", f"/apis/zz{name}/v1", f"/apis/zz{name}/v1/things", f"/api/v1/zz{name}", f"/api/v2{name}", f"/api/v2{name}/pods",
                f"/apis/cluster.open-cluster-management.io/v9{name}/managedclusters", f"{world.CLUSTERS.path}/{STANDING}/zz{name}", "/api/v1/namespaces/a/b/c/d/e",
                f"{world.CONFIG_MAPS.path}/zz{name}", f"/api/v1/namespaces/fuzz/managedclusters/{name}", f"/apis/cluster.open-cluster-management.io/v1/namespaces/a/managedclusters/{name}",
                f"/api/v1/configmaps/{name}", f"/openapi/zz{name}", f"/openapi/v3/zz{name}", f"/healthz/zz{name}", f"/version/zz{name}", "/api/v1/namespaces/fuzz/namespaces/x",
                f"/admin/{name}", f"/accounts/{name}", f"/static/{name}", "/clusters", "/live", f"/metrics/{name}",
            ]
        )
    )  # fmt: skip
    return Case(method=draw(st.sampled_from(["GET", "HEAD"])), path=path, codes=MISSING)


def _controls(draw: Draw) -> Case:
    at = draw(
        st.sampled_from(
            [
                "%00",
                "a%00b",
                "%0a",
                "%0d%0a",
                "%1b",
                "%7f",
                "%c2%80",
                "%c2%85",
                "%e2%80%a8",
                "%f3%a0%80%81",
                "%ef%bf%bf",
                "%ee%80%80",
            ]
        )
    )
    path = draw(
        st.sampled_from(
            [
                "/",
                "/api/v1/",
                f"{world.CLUSTERS.path}/",
                "/apis/",
                f"{world.CONFIG_MAPS.path}/standing/",
                "/openapi/v3/",
            ]
        )
    )
    return Case(method=draw(st.sampled_from(["GET", "DELETE", "HEAD"])), path=path + at, codes=BAD)


def _odd(draw: Draw) -> Case:
    """Segments that name nothing, in every place of a path."""
    odd = draw(ODD_SEGMENTS)
    shape = draw(
        st.sampled_from(
            [
                "/zz{}", "/apis/zz{}", "/apis/zz{}/v1/x", "/api/v1/zz{}", "/api/v1/namespaces/zz{}/configmaps/x", f"{world.CONFIG_MAPS.path}/zz{{}}",
                f"{world.CLUSTERS.path}/zz{{}}", f"{world.CLUSTERS.path}/{STANDING}/zz{{}}", f"{world.REQUESTS.path}/zz{{}}", "/openapi/v3/zz{}", "/readyz/zz{}",
            ]
        )
    )  # fmt: skip
    return Case(method="GET", path=shape.replace("{}", odd), codes=GONE)


def _odd_write(draw: Draw) -> Case:
    odd = draw(ODD_SEGMENTS)
    site = draw(st.sampled_from([site for site in world.SITES if not site.served.kind.create_on_update]))
    method = draw(st.sampled_from(["PUT", "DELETE"]))
    name = f"zz{odd}"
    return send_json(
        method, f"{site.path}/{name}", site.document("x") if method == "PUT" else b"", GONE, query="dryRun=All"
    )


def _odd_create_by_put(draw: Draw) -> Case:
    """A PUT that would make an object of that name, were it one."""
    site = draw(st.sampled_from([world.LEASES, world.ROLES, world.CLUSTER_ROLES, world.EVENTS]))
    odd = draw(
        st.sampled_from(
            [
                "x" * 300,
                "A%00",
                "%ed%a0%80",
                "a%20b" if site is world.LEASES else "%00",
                "%2e%2e%2f",
                "UPPER" if site is world.LEASES else "x" * 254,
            ]
        )
    )
    doc = site.document("x")
    del doc["metadata"]["name"]
    return send_json("PUT", f"{site.path}/{odd}", doc, frozenset({400, 404, 405, 422}))


def _odd_namespace(draw: Draw) -> Case:
    site = draw(st.sampled_from([world.CONFIG_MAPS, world.LEASES, world.ROLES, world.SET_BINDINGS]))
    odd = draw(st.sampled_from(["x" * 64, "x" * 5_000, "UPPER", "a.b", "é", "%ff", "%20", "-"]))
    path = site.path.replace(f"/{world.NAMESPACE}/", f"/{odd if odd != 'é' else '%c3%a9'}/")
    method = draw(st.sampled_from(["POST", "PUT", "DELETE"]))
    return send_json(
        method, path if method == "POST" else f"{path}/x", site.document("x") if method != "DELETE" else b"", MISSING
    )


def _method(draw: Draw) -> Case:
    method, path = draw(
        st.sampled_from(
            [(method, path) for method in ("OPTIONS", "TRACE", "CONNECT", "FLY", "É") for path in (world.CLUSTERS.path, f"{world.CLUSTERS.path}/{STANDING}")]
            + [(method, path) for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FLY") for path in ("/", "/version", "/api/v1", "/openapi/v3", "/healthz")]
            + [("POST", f"{site.path}/{STANDING}") for site in world.SITES]
            + [("POST", f"{world.CLUSTERS.path}/{STANDING}/status"), ("DELETE", f"{world.CLUSTERS.path}/{STANDING}/status"), ("DELETE", world.NAMESPACES.path)]
            + [("PATCH", f"{world.NAMESPACES.path}/{STANDING}/finalize"), ("GET", f"{world.ACCOUNTS.path}/{STANDING}/token"), ("PUT", f"{world.ACCOUNTS.path}/{STANDING}/token")]
            + [("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), ("POST", "/api/v1/services")]
        )
    )  # fmt: skip
    return Case(method=method, path=path, headers=(("Content-Type", JSON),), body=b"{}", codes=NOT_ALLOWED)


def _collection(draw: Draw) -> Case:
    site = draw(st.sampled_from(world.SITES))
    method = draw(st.sampled_from(["PUT", "PATCH"]))
    return Case(method=method, path=site.path, headers=(("Content-Type", JSON),), body=b"{}", codes=site.nameless)


def _not_allowed(draw: Draw) -> Case:
    """W20: what one may not see, one does not learn the absence of."""
    odd = draw(ODD_SEGMENTS)
    path = draw(
        st.sampled_from(
            [
                f"{world.CLUSTERS.path}/zz{odd}",
                f"{world.SECRETS.path}/zz{odd}",
                f"/apis/zz{odd}/v1/x",
                "/api/v1/nodes",
                f"/zz{odd}",
            ]
        )
    )
    method = draw(st.sampled_from(["GET", "PUT", "DELETE"]))
    return Case(
        actor=draw(st.sampled_from(["anonymous", "agent"])), method=method, path=path, codes=frozenset({400, 403})
    )


def cases() -> st.SearchStrategy[Case]:
    valid = [_document, _object, _object, _subresource, _public]
    refused = [
        _unknown,
        _unknown,
        _controls,
        _odd,
        _odd,
        _odd_write,
        _odd_create_by_put,
        _odd_namespace,
        _method,
        _method,
        _collection,
        _not_allowed,
    ]
    return mixed(valid, refused)
