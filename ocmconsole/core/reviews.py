"""Review kinds, which are answered and not stored: access reviews, SelfSubjectReview, TokenReview, TokenRequest.

Each ``answer(actor, namespace, name, doc)`` returns the filled document (W26, W126). Registered here with the
machinery's ``virtual_resources`` endpoints.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ocmconsole.core import protobuf_fields
from ocmconsole.core.kinds import SCHEMA_FILES
from ocmconsole.core.models import ServiceAccount
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.tokens import token_formats, tokens
from ocmconsole.kubeapi import clock, errors, virtual_resources
from ocmconsole.kubeapi.access import authentication, authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.schema.times import timestamp
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Cause, Doc

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
SCHEMAS = {
    kind: schema_files.load(SCHEMA_FILES / f"{kind.lower()}s.v1.yaml", name=f"io.k8s.api.{package}.v1.{kind}")
    for package, kind in (
        ("authorization", "SelfSubjectAccessReview"),
        ("authorization", "SubjectAccessReview"),
        ("authorization", "LocalSubjectAccessReview"),
        ("authorization", "SelfSubjectRulesReview"),
        ("authentication", "SelfSubjectReview"),
        ("authentication", "TokenReview"),
        ("authentication", "TokenRequest"),
    )
}
SHORTEST_TOKEN = 600  # seconds, as in Kubernetes
LONGEST_TOKEN = 1 << 32  # seconds, as in Kubernetes


# ---------------------------------------------------------------- access reviews


def self_subject_access_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHORIZATION, "SelfSubjectAccessReview", doc)
    _check(doc, _question_causes(doc["spec"]))
    return _answered(doc, actor)


def subject_access_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHORIZATION, "SubjectAccessReview", doc)
    _check(doc, [*_question_causes(doc["spec"]), *_subject_causes(doc["spec"])])
    return _answered(doc, _subject(doc["spec"]))


def local_subject_access_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHORIZATION, "LocalSubjectAccessReview", doc)
    spec = doc["spec"]
    causes = [*_question_causes(spec), *_subject_causes(spec)]
    if spec.get("nonResourceAttributes"):
        text = "disallowed on this kind of request"
        causes.append(errors.invalid_field("spec.nonResourceAttributes", quoted(spec["nonResourceAttributes"]), text))
    _check(doc, causes)
    if (spec["resourceAttributes"].get("namespace") or "") != namespace:
        raise errors.BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    doc["metadata"]["namespace"] = namespace
    return _answered(doc, _subject(spec))


def _answered(doc: Doc, actor: Actor) -> Doc:
    decision = authorization.authorize(actor, _question(doc["spec"]))
    doc["status"] = {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})
    return doc


def _question(spec: Doc) -> authorization.Attributes:
    if about := spec.get("nonResourceAttributes"):
        return authorization.Attributes(verb=about.get("verb", ""), path=about.get("path", ""))
    about = spec["resourceAttributes"]
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return authorization.Attributes(
        **{field: about.get(field) or "" for field in fields}, version=about.get("version") or "*"
    )


def _question_causes(spec: Doc) -> list[Cause]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [errors.invalid_field("spec.nonResourceAttributes", quoted(other), text)]
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [errors.invalid_field("spec.resourceAttributes", "null", text)]
    return []


def _subject_causes(spec: Doc) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [errors.invalid_field("spec.user", '""', "at least one of user or group must be specified")]


def _subject(spec: Doc) -> Actor:
    return Actor(user=spec.get("user") or "", groups=tuple(spec.get("groups") or ()), uid=spec.get("uid") or "")


def self_subject_rules_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHORIZATION, "SelfSubjectRulesReview", doc)
    inside = doc["spec"].get("namespace")
    if not inside:
        raise errors.BadRequest("no namespace on request")
    rules = rule_index.index.rules_for(actor, inside)
    doc["status"] = {
        "resourceRules": [rule.wire() for rule in rules if not rule.paths],
        "nonResourceRules": [rule.wire() for rule in rules if rule.paths],
        "incomplete": False,
    }
    return doc


# ---------------------------------------------------------------- who am I, whose token


def self_subject_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHENTICATION, "SelfSubjectReview", doc)
    doc["metadata"]["creationTimestamp"] = timestamp(clock.now())
    doc["status"] = {"userInfo": _user_info(actor)}
    return doc


def token_review(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:  # noqa: ARG001 - the signature of answers
    doc = _read(AUTHENTICATION, "TokenReview", doc)
    token = doc["spec"].get("token")
    if not token:
        raise errors.BadRequest("token is required for TokenReview in authentication")
    wanted = doc["spec"].get("audiences") or []
    try:
        found, audiences = _owner(token, wanted)
    except errors.Unauthorized:
        doc["status"] = {"user": {}, "error": "invalid bearer token"}
    else:
        doc["status"] = {"authenticated": True, "user": _user_info(found), "audiences": audiences}
    return doc


def _owner(token: str, wanted: list[str]) -> tuple[Actor, list[str]]:
    """Whose token it is, and for which of the audiences; without any asked for, the hub is meant."""
    if not wanted or token_formats.AUDIENCE in wanted:
        return authentication.actor_of_token(token), [token_formats.AUDIENCE]
    for audience in wanted:
        with suppress(errors.Unauthorized):
            if found := tokens.service_account_actor(token, audience=audience):
                return found, [audience]
    raise errors.Unauthorized


def _user_info(actor: Actor) -> Doc:
    extra = {key: list(values) for key, values in actor.extra.items()}
    info = {"username": actor.user, "uid": actor.uid, "groups": list(actor.groups), "extra": extra}
    return {field: value for field, value in info.items() if value}


# ---------------------------------------------------------------- a token please


def token_request(actor: Actor, namespace: str, name: str, doc: Doc) -> Doc:
    """W26: a TokenRequest is answered with a token of the ServiceAccount, bound to a Secret if it names one.

    The body may name the account, and then only the one that the path names.
    """
    given = doc.get("metadata") or {}
    doc = _read(AUTHENTICATION, "TokenRequest", doc)
    spec = doc["spec"]
    if given.get("name") and given["name"] != name:
        text = "must match the service account name if specified"
        raise errors.is_invalid(
            AUTHENTICATION, "TokenRequest", name, [errors.invalid_field("metadata.name", quoted(given["name"]), text)]
        )
    seconds = 3600 if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    if not SHORTEST_TOKEN <= seconds <= LONGEST_TOKEN:
        limit = "less than 10 minutes" if seconds < SHORTEST_TOKEN else "larger than 2^32 seconds"
        text = f"may not specify a duration {limit}"
        _check(doc, [errors.invalid_field("spec.expirationSeconds", str(seconds), text)])
    account = ServiceAccount.objects.filter(namespace=namespace, name=name).first()
    if account is None:
        raise errors.not_found("", "serviceaccounts", name)
    if given.get("uid") and given["uid"] != account.uid:
        why = (
            f"the UID in the token request ({given['uid']}) does not match the UID of the service account "
            f"({account.uid})"
        )
        raise errors.conflict(AUTHENTICATION, "TokenRequest", name, why)
    text, claims = tokens.issue_account_token(
        actor,
        account,
        timedelta(seconds=seconds),
        audiences=spec.get("audiences") or (),
        bound=spec.get("boundObjectRef"),
    )
    doc["metadata"] = {
        "name": name,
        "namespace": namespace,
        "uid": account.uid,
        "creationTimestamp": timestamp(claims.issued),
    }
    spec.update(audiences=list(claims.audiences), expirationSeconds=seconds, boundObjectRef=spec.get("boundObjectRef"))
    doc["status"] = {"token": text, "expirationTimestamp": timestamp(claims.expires)}
    return doc


# ---------------------------------------------------------------- reading and registering


def _read(group: str, kind: str, doc: Any) -> Doc:
    """The body as the schema sees it; kind and apiVersion may be left out."""
    if not isinstance(doc, dict):
        raise errors.BadRequest(f"the body must be a {kind}")
    if doc.get("kind") not in (None, "", kind):  # a tuple: what was sent need not be hashable
        raise errors.BadRequest(f"the kind in the data ({doc['kind']}) does not match the expected kind ({kind})")
    schema = SCHEMAS[kind]
    pruned, _ = schema.prune(doc)
    pruned = schema.default(pruned)
    pruned.update(kind=kind, apiVersion=f"{group}/v1", metadata={})
    pruned.pop("status", None)
    _check(pruned, schema.validate(pruned))
    if "spec" in schema.root["properties"]:
        pruned["spec"] = pruned.get("spec") or {}
    return pruned


def _check(doc: Doc, causes: list[Cause]) -> None:
    if causes:
        group = doc["apiVersion"].partition("/")[0]
        raise errors.is_invalid(group, doc["kind"], "", causes)


for _group, _kind, _answer, _table in (
    (AUTHORIZATION, "SelfSubjectAccessReview", self_subject_access_review, protobuf_fields.SELF_SUBJECT_ACCESS_REVIEW),
    (AUTHORIZATION, "SubjectAccessReview", subject_access_review, protobuf_fields.SUBJECT_ACCESS_REVIEW),
    (
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        local_subject_access_review,
        protobuf_fields.LOCAL_SUBJECT_ACCESS_REVIEW,
    ),
    (AUTHORIZATION, "SelfSubjectRulesReview", self_subject_rules_review, protobuf_fields.SELF_SUBJECT_RULES_REVIEW),
    (AUTHENTICATION, "SelfSubjectReview", self_subject_review, protobuf_fields.SELF_SUBJECT_REVIEW),
    (AUTHENTICATION, "TokenReview", token_review, protobuf_fields.TOKEN_REVIEW),
):
    virtual_resources.register(
        virtual_resources.Endpoint(
            group=_group,
            version="v1",
            plural=f"{_kind.lower()}s",
            kind=_kind,
            namespaced=_kind.startswith("Local"),
            verbs=("create",),
            answer=_answer,
            protobuf=_table,
            schema=SCHEMAS[_kind],
        )
    )

virtual_resources.register(
    virtual_resources.Endpoint(
        group="",
        version="v1",
        plural="serviceaccounts",
        subresource="token",
        kind="TokenRequest",
        namespaced=True,
        verbs=("create",),
        answer=token_request,
        protobuf=protobuf_fields.TOKEN_REQUEST,
    )
)
