"""The one tree of errors, and their translation to a Kubernetes Status.

Validators and verbs raise these; every entry point translates them once: the API to a Status body, a page to a message
beside the field, the command line to an exit text. Texts are those of a kube-apiserver (W19).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason among several: ``field`` is a path such as ``spec.taints[0].effect``."""

    reason: str
    message: str
    field: str = ""

    def wire(self) -> Doc:
        body: Doc = {"reason": self.reason, "message": self.message}
        if self.field:
            body["field"] = self.field
        return body

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def required(field: str, text: str = "") -> Cause:
    return Cause("FieldValueRequired", "Required value" + (f": {text}" if text else ""), field)


def invalid_field(field: str, shown: str, text: str) -> Cause:
    """``shown`` is the offending value as JSON text, already quoted."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", field)


def forbidden_field(field: str, text: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {text}", field)


def unsupported(field: str, shown: str, allowed: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{value}"' for value in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {listed}", field)


class ApiError(Exception):
    """A refusal with an HTTP code and a machine-readable reason (W19)."""

    code = 500
    reason = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        details: Doc | None = None,
        causes: Iterable[Cause] = (),
        retry_after: int | None = None,
        metadata: Doc | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        self.causes = list(causes)
        self.retry_after = retry_after
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        """As it is now: a rule may have put more words before it."""
        return self.message

    def status(self) -> Doc:
        """The ``Status`` object that clients switch on."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [cause.wire() for cause in self.causes]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        body: Doc = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details:
            body["details"] = details
        return body


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"

    def __init__(self, message: str = "Unauthorized") -> None:
        super().__init__(message)


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Expired(ApiError):
    code, reason = 410, "Expired"


class RequestTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


def unable(cause: str, retry_after: int = 2) -> ServiceUnavailable:
    """In the words of a kube-apiserver; clients repeat the request after so many seconds."""
    message = f"the server is currently unable to handle the request: {cause}"
    return ServiceUnavailable(message, retry_after=retry_after)


class Timeout(ApiError):
    code, reason = 504, "Timeout"


class InsufficientStorage(ApiError):
    """Not one of Kubernetes' reasons: its etcd says 500. Clients go by the code, and by Retry-After."""

    code, reason = 507, "InsufficientStorage"


class Deferred(Exception):
    """Raised inside of a commit: a refusal that leaves something behind, which is stored when that is rolled back."""

    def settle(self) -> ApiError:
        """Called after the rollback, in no transaction; returns the error of the caller."""
        raise NotImplementedError


def of_code(code: int, message: str) -> ApiError:
    """The error of an HTTP code; 500 for a code that has none."""
    return next((each for each in ApiError.__subclasses__() if each.code == code), InternalError)(message)


def qualified(group: str, resource: str) -> str:
    """``managedclusters.cluster.open-cluster-management.io``; the core group has no suffix."""
    return f"{resource}.{group}" if group else resource


def _details(group: str, resource: str, name: str = "") -> Doc:
    details: Doc = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def not_found(group: str, resource: str, name: str) -> NotFound:
    return NotFound(f'{qualified(group, resource)} "{name}" not found', details=_details(group, resource, name))


def unknown_path() -> NotFound:
    return NotFound("the server could not find the requested resource")


def no_such_method() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def unknown_format(
    accepted: Iterable[str] = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"),
) -> UnsupportedMediaType:
    """415, which no client retries in another encoding (W2)."""
    listed = ", ".join(accepted)
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


def already_exists(group: str, resource: str, name: str) -> AlreadyExists:
    text = f'{qualified(group, resource)} "{name}" already exists'
    return AlreadyExists(text, details=_details(group, resource, name))


def conflict(group: str, resource: str, name: str, text: str = "") -> Conflict:
    """409; the default text is the one every client retries on (W14)."""
    text = text or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {text}'
    return Conflict(message, details=_details(group, resource, name))


def is_invalid(group: str, kind: str, name: str, causes: Iterable[Cause]) -> Invalid:
    """422 in the form ``Kind.group "name" is invalid: [...]`` (A11)."""
    listed = list(causes)
    text = str(listed[0]) if len(listed) == 1 else "[" + ", ".join(str(cause) for cause in listed) + "]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {text}'
    return Invalid(message, details=_details(group, kind, name), causes=listed)


def options_invalid(options: str, causes: Iterable[Cause]) -> Invalid:
    """422 for query options; ``options`` is ``ListOptions``, ``PatchOptions`` and so on."""
    return is_invalid("meta.k8s.io", options, "", causes)
