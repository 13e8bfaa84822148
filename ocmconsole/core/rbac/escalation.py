"""Rules of roles and bindings: well-formed, and nobody grants more than they hold (W22, W155)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ocmconsole.core import kinds
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.rbac.policy_rules import EVERYTHING, PolicyRule
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Cause, Doc
    from ocmconsole.kubeapi.kinds import Kind

SUBJECT_GROUPS = {"ServiceAccount": "", "User": rule_index.GROUP, "Group": rule_index.GROUP}


# ---------------------------------------------------------------- form


@admission.defaulter(kinds.ROLE_BINDING)
@admission.defaulter(kinds.CLUSTER_ROLE_BINDING)
def references_have_groups(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W22: API groups that a role reference or subject leaves out are filled in as in Kubernetes."""
    subjects = new.get("subjects")
    for reference in (new.get("roleRef"), *(subjects if isinstance(subjects, list) else ())):
        if (
            isinstance(reference, dict)
            and reference.get("apiGroup") in (None, "")
            and reference.get("kind") != "ServiceAccount"
        ):
            reference["apiGroup"] = rule_index.GROUP


@admission.validator(kinds.ROLE)
@admission.validator(kinds.CLUSTER_ROLE)
def role_is_well_formed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W22: each rule has verbs, and resources or paths, not both. Raises Invalid."""
    causes = [
        cause
        for position, rule in enumerate(new.get("rules") or [])
        for cause in _rule_causes(f"rules[{position}]", rule, namespaced=new["kind"] == "Role")
    ]
    if new.get("aggregationRule") is not None:
        causes += _aggregation_causes(new["aggregationRule"].get("clusterRoleSelectors") or [])
    if causes:
        raise _invalid(new, causes)


def _rule_causes(path: str, rule: Doc, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield errors.required(f"{path}.verbs", "verbs must contain at least one value")
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield errors.invalid_field(f"{path}.nonResourceURLs", json.dumps(urls), text)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield errors.invalid_field(f"{path}.nonResourceURLs", json.dumps(urls), text)
        return
    if not rule.get("apiGroups"):
        yield errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _aggregation_causes(selectors: list[Doc]) -> Iterator[Cause]:
    field = "aggregationRule.clusterRoleSelectors"
    if not selectors:
        yield errors.required(field, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for position, selector in enumerate(selectors):
        try:
            LabelSelector.from_wire(selector)
        except ValueError as error:
            yield errors.invalid_field(f"{field}[{position}]", json.dumps(selector), str(error))


@admission.validator(kinds.ROLE_BINDING)
@admission.validator(kinds.CLUSTER_ROLE_BINDING)
def binding_is_well_formed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W22: a binding names a role and subjects in valid form. Raises Invalid."""
    namespaced = new["kind"] == "RoleBinding"
    causes = [*_reference_causes(new["roleRef"], namespaced=namespaced)]
    for position, subject in enumerate(new.get("subjects") or []):
        causes += _subject_causes(f"subjects[{position}]", subject, namespaced=namespaced)
    if causes:
        raise _invalid(new, causes)


def _reference_causes(reference: Doc, *, namespaced: bool) -> Iterator[Cause]:
    if reference.get("apiGroup") != rule_index.GROUP:
        yield errors.unsupported("roleRef.apiGroup", quoted(reference.get("apiGroup")), [rule_index.GROUP])
    allowed = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if reference.get("kind") not in allowed:
        yield errors.unsupported("roleRef.kind", quoted(reference.get("kind")), allowed)
    if not reference.get("name"):
        yield errors.required("roleRef.name")


def _subject_causes(path: str, subject: Doc, *, namespaced: bool) -> Iterator[Cause]:
    kind = subject.get("kind", "")
    if not subject.get("name"):
        yield errors.required(f"{path}.name")
    if kind not in SUBJECT_GROUPS:
        yield errors.unsupported(f"{path}.kind", quoted(kind), SUBJECT_GROUPS)
        return
    if (subject.get("apiGroup") or "") != SUBJECT_GROUPS[kind]:
        yield errors.unsupported(f"{path}.apiGroup", quoted(subject.get("apiGroup")), [SUBJECT_GROUPS[kind]])
    if kind == "ServiceAccount" and not namespaced and not subject.get("namespace"):
        yield errors.required(f"{path}.namespace")


@admission.validator(kinds.ROLE_BINDING)
@admission.validator(kinds.CLUSTER_ROLE_BINDING)
def role_reference_stays(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """W22, W155: the ``roleRef`` of a binding is immutable. Raises Invalid."""
    if old is not None and old["roleRef"] != new["roleRef"]:
        raise _invalid(new, [errors.invalid_field("roleRef", json.dumps(new["roleRef"]), "cannot change roleRef")])


# ---------------------------------------------------------------- no escalation


@admission.validator(kinds.ROLE)
@admission.validator(kinds.CLUSTER_ROLE)
def role_grants_only_what_its_writer_holds(actor: Actor, old: Doc | None, new: Doc) -> None:
    """W22, W155: nobody writes rules into a role that they do not hold, unless they may ``escalate`` it.

    Raises Forbidden. Labels count as a grant too: they may put the rules into an aggregated role.
    """
    if _may_hand_out_anything(actor) or (old is not None and _granted(old) == _granted(new)):
        return
    kind = kinds.ROLE if new["kind"] == "Role" else kinds.CLUSTER_ROLE
    if authorization.authorize(actor, _about(kind, new, "escalate", new["metadata"]["name"])).allowed:
        return
    _require_held(actor, kind, new, [PolicyRule.read(rule) for rule in new.get("rules") or []])
    gathers = new.get("aggregationRule") or (old or {}).get("aggregationRule")
    if gathers and rule_index.index.lacking(actor, EVERYTHING):
        raise _refused(kind, new, "must have cluster-admin privileges to use an aggregationRule")


@admission.validator(kinds.ROLE_BINDING)
@admission.validator(kinds.CLUSTER_ROLE_BINDING)
@admission.reads_batch
def binding_grants_only_what_its_writer_holds(
    actor: Actor, old: Doc | None, new: Doc, earlier: admission.Earlier
) -> None:
    """W22, W155: nobody binds a role with rights that they do not hold without ``bind`` on it. Raises Forbidden.

    The role may be created in the same transaction.
    """
    if _may_hand_out_anything(actor) or (
        old is not None and (old.get("subjects") or []) == (new.get("subjects") or [])
    ):
        return
    reference = new["roleRef"]
    role_kind = kinds.ROLE if reference["kind"] == "Role" else kinds.CLUSTER_ROLE
    if authorization.authorize(actor, _about(role_kind, new, "bind", reference["name"])).allowed:
        return
    namespace = new["metadata"].get("namespace", "") if role_kind.namespaced else ""
    place = Key(namespace, reference["name"])
    coming = (role_kind.resource, place)
    role = earlier[coming] if coming in earlier else verbs.find(role_kind, place)
    if role is None:
        raise errors.not_found(rule_index.GROUP, role_kind.plural, reference["name"])
    kind = kinds.ROLE_BINDING if new["kind"] == "RoleBinding" else kinds.CLUSTER_ROLE_BINDING
    _require_held(actor, kind, new, [PolicyRule.read(rule) for rule in role.get("rules") or []])


def _may_hand_out_anything(actor: Actor) -> bool:
    return actor.is_controller or actor.is_master


def _granted(role: Doc) -> tuple[list[Doc], Doc | None, Doc]:
    return role.get("rules") or [], role.get("aggregationRule"), role["metadata"].get("labels") or {}


def _about(kind: Kind, doc: Doc, verb: str, name: str) -> Attributes:
    namespace = doc["metadata"].get("namespace", "")
    return Attributes(verb, rule_index.GROUP, kind.plural, namespace=namespace, name=name)


def _require_held(actor: Actor, kind: Kind, new: Doc, rules: list[PolicyRule]) -> None:
    if lacking := rule_index.index.lacking(actor, rules, new["metadata"].get("namespace", "")):
        groups = " ".join(json.dumps(group, ensure_ascii=False) for group in actor.groups)
        listed = "\n".join(sorted({str(rule) for rule in lacking}))
        who = f'user "{actor.user}" (groups=[{groups}])'
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}"
        raise _refused(kind, new, why)


def _refused(kind: Kind, new: Doc, why: str) -> errors.Forbidden:
    name = new["metadata"]["name"]
    subject = errors.qualified(rule_index.GROUP, kind.plural)
    return errors.Forbidden(
        f'{subject} "{name}" is forbidden: {why}',
        details={"name": name, "group": rule_index.GROUP, "kind": kind.plural},
    )


def _invalid(doc: Doc, causes: list[Cause]) -> errors.Invalid:
    return errors.is_invalid(rule_index.GROUP, doc["kind"], doc["metadata"]["name"], causes)
