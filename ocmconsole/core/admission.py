"""Rules of namespaces, secrets, config maps and events (W27, W28). RBAC's are in ``escalation``."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import orjson

from ocmconsole.core import kinds
from ocmconsole.core.models import Namespace, ServiceAccount
from ocmconsole.core.tokens import token_formats, tokens
from ocmconsole.kubeapi import admission, errors
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.names import key_flaws
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Cause, Doc
    from ocmconsole.kubeapi.kinds import Kind

NAME_LABEL = "kubernetes.io/metadata.name"
KUBERNETES = "kubernetes"
PERMANENT = frozenset({"default", "kube-system", "kube-public"})

ACCOUNT_UID = "kubernetes.io/service-account.uid"
LASTING = timedelta(days=3650)  # ten years: Kubernetes' tokens in Secrets have no end

MOST_BYTES = 1024 * 1024  # of data in a Secret or ConfigMap, as in Kubernetes
KEY = re.compile(r"[-._a-zA-Z0-9]+")
FROZEN = "field is immutable when `immutable` is set"


# ---------------------------------------------------------------- namespaces


@admission.create_validator
def namespace_is_open(kind: Kind, key: Key, earlier: admission.Earlier) -> None:
    """W27: nothing is created in a namespace that is missing (NotFound) or terminating (Forbidden).

    The namespace may be created in the same transaction.
    """
    if not kind.namespaced:
        return
    place = (kinds.NAMESPACE.resource, Key("", key.namespace))
    if place in earlier:
        coming = earlier[place]
        found = [coming["metadata"].get("deletionTimestamp")] if coming is not None else []
    else:
        found = list(Namespace.objects.filter(name=key.namespace).values_list("deleted_at", flat=True)[:1])
    if not found:
        raise errors.not_found("", "namespaces", key.namespace)
    if found[0] is not None:
        subject = f'{errors.qualified(kind.group, kind.plural)} "{key.name}"'
        ending = f"namespace {key.namespace} is being terminated"
        why = f"unable to create new content in namespace {key.namespace} because it is being terminated"
        raise errors.Forbidden(
            f"{subject} is forbidden: {why}",
            details={"name": key.name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {}),
            causes=[errors.Cause("NamespaceTerminating", ending, "metadata.namespace")],
        )


@admission.defaulter(kinds.NAMESPACE)
def namespace_is_stamped(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W27: a new namespace is Active, has the finalizer ``kubernetes``, and a label with its name."""
    metadata = new["metadata"]
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict):
        metadata["labels"] = labels | {NAME_LABEL: metadata["name"]}
    if old is not None:
        return
    new["status"] = {"phase": "Active"}
    spec = new.get("spec") or {}
    finalizers = (spec.get("finalizers") or []) if isinstance(spec, dict) else None
    if isinstance(finalizers, list) and KUBERNETES not in finalizers:
        new["spec"] = spec | {"finalizers": [*finalizers, KUBERNETES]}


@admission.delete_validator(kinds.NAMESPACE)
def permanent_namespace_stays(actor: Actor, old: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W27: the permanent namespaces cannot be deleted. Raises Forbidden."""
    name = old["metadata"]["name"]
    if name in PERMANENT:
        raise errors.Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            details={"name": name, "kind": "namespaces"},
        )


# ---------------------------------------------------------------- secrets and config maps


@admission.defaulter(kinds.SECRET)
def token_secret_is_filled(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W21: a new Secret of the ServiceAccount token type gets a token, the CA and the namespace."""
    if old is not None or new["type"] != token_formats.ACCOUNT_TYPE or not isinstance(new.get("data") or {}, dict):
        return
    metadata = new["metadata"]
    account = ServiceAccount.objects.filter(namespace=metadata["namespace"], name=account_of(metadata)).first()
    if account is None:
        return
    metadata["annotations"][ACCOUNT_UID] = account.uid
    bound = ("Secret", metadata["name"], metadata["uid"])
    filled = {
        "token": tokens.mint_token(account, LASTING, bound=bound)[0].encode(),
        "ca.crt": tokens.ca_certificate().encode(),
        "namespace": metadata["namespace"].encode(),
    }
    new["data"] = {key: _encoded(value) for key, value in filled.items()} | (new.get("data") or {})


@admission.validator(kinds.SECRET)
def token_secret_names_itsaccount_of(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W21: a Secret of the ServiceAccount token type names an account that exists. Raises Invalid."""
    if new["type"] != token_formats.ACCOUNT_TYPE:
        return
    field, name = f"metadata.annotations[{token_formats.ACCOUNT_NAME}]", account_of(new["metadata"])
    if not name:
        raise _invalid(new, [errors.required(field)])
    if old is None and ACCOUNT_UID not in new["metadata"]["annotations"]:
        raise _invalid(
            new, [errors.invalid_field(field, quoted(name), "there is no such service account in the namespace")]
        )


@admission.validator(kinds.SECRET)
def secret_type_stays(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W20: the type of a Secret is immutable. Raises Invalid."""
    if old is not None and old["type"] != new["type"]:
        raise _invalid(new, [errors.invalid_field("type", quoted(new["type"]), "field is immutable")])


@admission.validator(kinds.SECRET)
def secret_has_what_its_type_needs(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W20: a Secret of a known type has the keys that the type needs. Raises Invalid."""
    data = new.get("data") or {}
    causes: list[Cause] = []
    match new["type"]:
        case "kubernetes.io/dockercfg":
            causes = _registry_causes(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            causes = _registry_causes(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            causes = _missing("username", "password")
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            causes = _missing("ssh-privatekey")
        case "kubernetes.io/tls":
            causes = _missing(*(key for key in ("tls.crt", "tls.key") if key not in data))
    if causes:
        raise _invalid(new, causes)


def _missing(*keys: str) -> list[Cause]:
    return [errors.required(f"data[{key}]") for key in keys]


def _registry_causes(data: Doc, key: str) -> list[Cause]:
    """The passwords of registries, as JSON. What was sent is not shown."""
    if key not in data:
        return _missing(key)
    try:
        orjson.loads(base64.b64decode(data[key]))
    except ValueError as error:
        return [errors.invalid_field(f"data[{key}]", '"<secret contents redacted>"', str(error))]
    return []


@admission.validator(kinds.SECRET)
@admission.validator(kinds.CONFIG_MAP)
def data_is_storable(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W20: keys of Secrets and ConfigMaps can be file names, none comes twice, the size is limited. Raises Invalid."""
    causes: list[Cause] = []
    size = 0
    for field in ("data", "binaryData"):
        is_encoded = new["kind"] == "Secret" or field == "binaryData"
        for key, value in (new.get(field) or {}).items():
            size += len(value) * 3 // 4 - value[-2:].count("=") if is_encoded else len(value.encode())
            if not KEY.fullmatch(key) or key in {".", ".."} or len(key) > 253:  # noqa: PLR2004 - as a DNS name
                causes.append(errors.invalid_field(f"{field}[{key}]", quoted(key), _key_rule()))
    both = set(new.get("data") or {}) & set(new.get("binaryData") or {})
    causes += [
        errors.invalid_field(f"data[{key}]", quoted(key), "duplicate of key present in binaryData")
        for key in sorted(both)
    ]
    if size > MOST_BYTES:
        causes.append(errors.Cause("FieldValueTooLong", f"Too long: may not be more than {MOST_BYTES} bytes", "data"))
    if causes:
        raise _invalid(new, causes)


@admission.validator(kinds.SECRET)
@admission.validator(kinds.CONFIG_MAP)
def immutable_data_stays(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W20: an immutable Secret or ConfigMap keeps its data and stays immutable. Raises Invalid."""
    if old is None or not old.get("immutable"):
        return
    changed = [field for field in ("data", "binaryData") if (old.get(field) or {}) != (new.get(field) or {})]
    if not new.get("immutable"):
        changed.insert(0, "immutable")
    if changed:
        raise _invalid(new, [errors.forbidden_field(field, FROZEN) for field in changed])


# ---------------------------------------------------------------- events


@admission.validator(kinds.EVENT)
def event_is_beside_its_object(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W28: an Event is in the namespace of its object, or in one for cluster-scoped objects. Raises Invalid.

    One with an eventTime, as newer programs write it, says who reports it; it may be about an object elsewhere.
    """
    causes = [*_event_causes(new)]
    if causes and (old is None or causes != [*_event_causes(old)]):
        raise _invalid(new, causes)


def _event_causes(event: Doc) -> Iterator[Cause]:
    place, about = event["metadata"]["namespace"], event["involvedObject"].get("namespace") or ""
    is_new = event.get("eventTime") is not None
    allowed = {"default", "kube-system"} if is_new else {"default"}
    if (place not in allowed) if not about else (not is_new and place != about):
        yield errors.invalid_field("involvedObject.namespace", quoted(about), "does not match event.namespace")
    if is_new:
        yield from _reporter_causes(event)


def _reporter_causes(event: Doc) -> Iterator[Cause]:
    """In the words of the reference, which names the fields as the newer form does."""
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        yield errors.required("reportingController")
    yield from (errors.invalid_field("reportingController", quoted(reporter), flaw) for flaw in key_flaws(reporter))
    for field in ("reportingInstance", "action", "reason"):
        said = event.get(field) or ""
        if not said:
            yield errors.required(field)
        elif len(said) > kinds.LONGEST_EVENT_WORD:
            yield errors.invalid_field(field, '""', f"can have at most {kinds.LONGEST_EVENT_WORD} characters")
    if len(event.get("message") or "") > kinds.LONGEST_EVENT_NOTE:
        yield errors.invalid_field("message", '""', f"can have at most {kinds.LONGEST_EVENT_NOTE} characters")


def account_of(metadata: Doc) -> str:
    """The service account whose token a secret is for; empty when its annotation cannot name one."""
    annotations = metadata.get("annotations")
    name = annotations.get(token_formats.ACCOUNT_NAME) if isinstance(annotations, dict) else None
    return name if isinstance(name, str) and _is_encodable(name) and "\0" not in name else ""


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _key_rule() -> str:
    return (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  "
        f"or 'KEY_NAME',  or 'key-name', regex used for validation is '{KEY.pattern}')"
    )


def _invalid(doc: Doc, causes: list[Cause]) -> errors.Invalid:
    return errors.is_invalid("", doc["kind"], doc["metadata"]["name"], causes)
