"""Headers: forms of answers, credentials, impersonation, and what proxies and browsers add (W2, W21)."""

from __future__ import annotations

import base64

from hypothesis import strategies as st

from tests.fuzz import world
from tests.fuzz.cases import BAD, CREATED, OK, Case, fresh, send_json
from tests.fuzz.texts import Draw, mixed
from tests.fuzz.world import STANDING

FORBIDDEN, UNKNOWN, UNACCEPTABLE, NOBODY = frozenset({403}), frozenset({415}), frozenset({406}), frozenset({401})
PATHS = [site.path for site in world.SITES] + [
    f"{site.path}/{STANDING}" for site in world.SITES if site is not world.NEW_EVENTS
]
# What a header can carry through the server in front: Latin-1 without controls.
LATIN = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters=[chr(code) for code in range(0x7F, 0xA0)]),
    max_size=20,
)
TOKEN_BYTES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)


def _get(draw: Draw, codes: frozenset[int], *headers: tuple[str, str], actor: str = "admin") -> Case:
    return Case(actor=actor, method="GET", path=draw(st.sampled_from(PATHS)), headers=headers, codes=codes)


def _accept(draw: Draw) -> Case:
    accept = draw(
        st.sampled_from(
            [
                "", "*/*", "application/*", "application/json", "application/yaml", "APPLICATION/JSON", "application/json;q=0.5",
                "text/html, application/json;q=0.1", "application/vnd.kubernetes.protobuf,application/json", "image/webp,*/*;q=0.8",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                "application/json;as=Other;v=v9;g=x,application/yaml", "application/json;;;=,;q=x", " , ,application/json", "application/json;q=1.0000",
                "application/json;stream=watch", "*/*;q=0.001", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, */*",
            ]
        )
    )  # fmt: skip
    return _get(draw, OK, ("Accept", accept))


def _harmless(draw: Draw) -> Case:
    """Headers that the hub does not look at, or only writes down."""
    name = draw(
        st.sampled_from(
            [
                "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Cookie", "Referer", "Origin", "Host", "If-None-Match", "Range",
                "X-HTTP-Method-Override", "Kubectl-Command", "X-Remote-User", "X-Remote-Group", "Accept-Language", "Accept-Encoding", "Expect",
                "Content-Length", "Transfer-Encoding", "X-CSRFToken", "Impersonate_User", "ocmconsole.listener", "Connection", "Audit-Id",
            ]
        )
    )  # fmt: skip
    return _get(draw, OK, (name, draw(LATIN)))


def _manager(draw: Draw) -> Case:
    """W29: without fieldManager the program's name is taken, whatever it calls itself."""
    agent = draw(LATIN | st.sampled_from(["kubectl/v1.32.0 (linux/amd64)", "/", "", "x" * 5_000, "/" * 300, "ÿ" * 300]))
    doc = world.CONFIG_MAPS.document(fresh())
    return send_json("POST", world.CONFIG_MAPS.path, doc, CREATED, headers=(("User-Agent", agent),))


def _content_type_of_read(draw: Draw) -> Case:
    """A read has no body, so nobody asks what it is."""
    return _get(draw, OK, ("Content-Type", draw(LATIN | st.just("multipart/form-data; boundary=x"))))


def _impersonate(draw: Draw) -> Case:
    headers = draw(
        st.sampled_from(
            [
                (("Impersonate-User", "someone"), ("Impersonate-Group", "system:masters")),
                (("Impersonate-User", "ÿé"), ("Impersonate-Group", "a"), ("Impersonate-Group", "system:masters")),
                (
                    ("Impersonate-User", "x" * 400),
                    ("Impersonate-Group", "system:masters"),
                    ("Impersonate-Uid", "u" * 400),
                ),
                (("Impersonate-User", "a"), ("Impersonate-Group", "system:masters"), ("Impersonate-Extra-a%2fb", "c")),
                (("Impersonate-User", ""),),
            ]
        )
    )
    if draw(st.booleans()) and len(headers) > 1:
        doc = world.CONFIG_MAPS.document(fresh())
        return send_json("POST", world.CONFIG_MAPS.path, doc, CREATED, headers=headers)
    return _get(draw, OK, *headers)


def _as_agent(draw: Draw) -> Case:
    return Case(
        actor="agent",
        method="GET",
        path=f"{world.CLUSTERS.path}/{world.CLUSTER}",
        headers=(("Accept", draw(st.sampled_from(["", "*/*"]))),),
        codes=OK,
    )


# ---------------------------------------------------------------- must be refused


def _not_acceptable(draw: Draw) -> Case:
    accept = draw(
        st.sampled_from(
            [
                "text/html", "application/xml", "application/vnd.kubernetes.protobuf", "application/json;q=0", "*/*;q=0", "x", "é", ";", ",,,", "application",
                "application/json;as=Other;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v9;g=meta.k8s.io", "application/json;as=", "a/b," * 2_000,
                "application/json;as=Table", "application/json;as=Table;v=v1", "text/*", "application/json ;as=é",
            ]
        )
    )  # fmt: skip
    return _get(draw, UNACCEPTABLE, ("Accept", accept))


def _wrong_content_type(draw: Draw) -> Case:
    media = draw(
        st.sampled_from(
            ["text/plain", "multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "é", ";", "application/jsn",
             "application/json,application/json", "application/strategic-merge-patch+json", "text/yaml", "application/x-yaml", "x" * 5_000]
        )
    )  # fmt: skip
    site = draw(st.sampled_from(world.SITES))
    codes = UNKNOWN if media != ";" else CREATED
    return send_json("POST", site.path, site.document(fresh()), codes, as_=media)


@st.composite
def authorizations(draw: Draw) -> str:
    def jwt(*parts: bytes) -> str:
        return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)

    made: str = draw(
        st.sampled_from(
            [
                "Basic YTpi", "Bearer", "Bearer ", "Bearer  ", "bearer x", "BEARER y z", "Negotiate x", "", "x", "Bearer é", "Bearer ÿÿ.ÿ", "Bearer a.b.c",
                "Bearer abcdef.0123456789abcdef", "Bearer ABCDEF.0123456789abcdef", "Bearer .", "Bearer ..", f"Bearer {'x' * 100_000}", f"Bearer {'.' * 9_000}",
                "Bearer " + jwt(b'{"alg":"none"}', b"{}", b""), "Bearer " + jwt(b'{"alg":"HS256","kid":5}', b"{}", b"x"), "Bearer " + jwt(b"[]", b"[]", b"x"),
                "Bearer " + jwt(b'{"alg":"ES256","kid":["a"]}', b"{}", b"x"), "Bearer " + jwt(b"[" * 20_000, b"{}", b"x"), "Bearer " + jwt(b"5", b"5", b"5"),
                "Bearer " + jwt(b'{"alg":{"a":1}}', b"{}", b"x"), "Bearer " + jwt(b"\xff", b"\xff", b"\xff"), "Bearer " + jwt(b"null", b"null", b""),
                f"Bearer {draw(TOKEN_BYTES)}", f"Bearer {draw(LATIN)}", f"{draw(TOKEN_BYTES)} {draw(TOKEN_BYTES)}",
            ]
        )
    )  # fmt: skip
    return made


def _wrong_credential(draw: Draw) -> Case:
    """Never anonymous: a bad credential is nobody's."""
    site = draw(st.sampled_from(world.SITES))
    method = draw(st.sampled_from(["GET", "POST", "DELETE"]))
    headers = (("Authorization", draw(authorizations())),)
    return Case(actor="anonymous", method=method, path=site.path, headers=headers, body=b"{}", codes=NOBODY)


def _impersonate_in_vain(draw: Draw) -> Case:
    actor, headers, codes = draw(
        st.sampled_from(
            [
                ("admin", (("Impersonate-User", "someone"),), FORBIDDEN), ("admin", (("Impersonate-User", "system:anonymous"),), FORBIDDEN),
                ("admin", (("Impersonate-Group", "system:masters"),), BAD), ("admin", (("Impersonate-Uid", "x"),), BAD),
                ("admin", (("Impersonate-Extra-a", "x"),), BAD), ("admin", (("Impersonate-User", "system:serviceaccount:a"),), FORBIDDEN),
                ("admin", (("Impersonate-User", "system:serviceaccount:a:b:c"),), FORBIDDEN), ("admin", (("Impersonate-User", "ÿ" * 400),), FORBIDDEN),
                ("admin", (("Impersonate-User", "someone"), ("Impersonate-Group", "a,b,,c"), ("Impersonate-Extra-%ff%00", "x")), FORBIDDEN),
                ("agent", (("Impersonate-User", "admin"),), FORBIDDEN), ("agent", (("Impersonate-User", "x" * 400),), FORBIDDEN),
                ("agent", (("Impersonate-User", "system:serviceaccount:a:b"),), FORBIDDEN), ("jane", (("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")), FORBIDDEN),
                ("bootstrap", (("Impersonate-User", "admin"),), FORBIDDEN), ("anonymous", (("Impersonate-User", "admin"),), FORBIDDEN),
                ("anonymous", (("Impersonate-Group", "é"),), BAD), ("jane", (("Impersonate-User", f"system:serviceaccount:{'n' * 400}:{'s' * 400}"),), FORBIDDEN),
            ]
        )
    )  # fmt: skip
    return _get(draw, codes, *headers, actor=actor)


def _no_certificate(draw: Draw) -> Case:
    return _get(draw, NOBODY, actor="stranger")


def cases() -> st.SearchStrategy[Case]:
    valid = [_accept, _accept, _harmless, _harmless, _manager, _content_type_of_read, _impersonate, _as_agent]
    refused = [
        _not_acceptable, _wrong_content_type, _wrong_credential, _wrong_credential, _wrong_credential, _impersonate_in_vain, _impersonate_in_vain,
        _no_certificate,
    ]  # fmt: skip
    return mixed(valid, refused)
