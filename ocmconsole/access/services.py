"""Acts of the access pages: give a preset, take a source away, ask for access and answer such requests.

Everything is written by ``permissions`` or through the verbs as the person who acts, whose own rights bound what they
can hand out; what has no audit of its own gets an entry here. Called by the access pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, Permission, User
from django.db import IntegrityError, transaction

from ocmconsole.access import presets, who_can
from ocmconsole.access.presets import GrantPlan, Permitted
from ocmconsole.access.who_can import GrantSource, Source
from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import AuditTarget, Holder, PeoplePermission, PermissionAct, PermissionChange
from ocmconsole.core import kinds
from ocmconsole.core.models import AccessRequest
from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.core.rbac.known_rights import ALL, Question
from ocmconsole.core.rbac.policy_rules import PolicyRule
from ocmconsole.core.rbac.rule_index import SERVICE_ACCOUNT, Subject
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from ocmconsole.accounts.permissions import AuditRecord
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import AuditEvent

MOST_OPEN = 20  # requests for access of one person that wait
ASKING_ABOUT_OTHERS = Attributes("create", "authorization.k8s.io", "subjectaccessreviews")


def administers(actor: Actor) -> bool:
    """Whether the actor may change permissions at all; which, the actor's own rights decide."""
    return authorization.permitted(actor, PeoplePermission.CHANGE_PERMISSION).allowed


def sees_everyone(actor: Actor) -> bool:
    """Whether the actor sees others' rights: may change permissions, or create SubjectAccessReviews."""
    return administers(actor) or authorization.authorize(actor, ASKING_ABOUT_OTHERS).allowed


# ---------------------------------------------------------------- give


def give_plan(actor: Actor, plan: GrantPlan, *, records: Sequence[AuditRecord] = ()) -> int:
    """Give the whole plan in one transaction; returns how much of it was new.

    ``records`` make rows that are saved in the same transaction. Raises Forbidden, NotFound, AlreadyExists, and what
    ``records`` raise; then nothing was given.
    """
    if plan.permissions:
        holder = holder_of(plan.subject)
        changes = [_change(PermissionAct.GRANT, each, holder) for each in plan.permissions]
        return permissions.change_permissions(actor, changes, records=records)
    with verbs.batch(actor) as batch:
        for each in plan.documents:
            batch.create(each.kind, each.doc, namespace=each.namespace)
        batch.records.extend(records)
    return len(plan.documents)


def holder_of(subject: Subject) -> Holder:
    """The person or group of Django; RBAC's names need be nobody's here. Raises NotFound."""
    row: Holder | None = (
        User.objects.filter(username=subject.name).first()
        if subject.kind == "User"
        else Group.objects.filter(name=subject.name).first()
    )
    if row is None:
        word = "person" if subject.kind == "User" else "group"
        raise errors.NotFound(f"there is no {word} {quoted(subject.name)} on this hub to hold a Django permission")
    return row


def _change(act: PermissionAct, wanted: Permitted, holder: Holder) -> PermissionChange:
    app, _, codename = wanted.label.partition(".")
    permission = Permission.objects.get(content_type__app_label=app, codename=codename)
    obj = known_rights.object_of(wanted.group, wanted.plural, wanted.name)
    if wanted.name and obj is None:
        raise errors.not_found(wanted.group, wanted.plural, wanted.name)
    return PermissionChange(act, permission, holder, obj)


def obstacle_to_plan(actor: Actor, plan: GrantPlan) -> str:
    """Why the actor could not give the plan, as far as can be said before; empty when nothing stands in the way."""
    if actor.is_master:
        return ""
    if plan.permissions:
        if not administers(actor):
            return f"Giving Django permissions takes {PeoplePermission.CHANGE_PERMISSION}."
        lacking = [each for each in plan.permissions if not _holds(actor, each)]
        return f"You do not hold {lacking[0].label} {lacking[0].where} yourself." if lacking else ""
    for each in plan.documents:
        if not authorization.authorize(actor, verbs.attributes(each.kind, "create", Key(each.namespace, ""))).allowed:
            return f"You may not create {each.kind.plural}{f' in {each.namespace}' if each.namespace else ''}."
        rules = [PolicyRule.read(rule) for rule in each.doc.get("rules") or ()]
        if lacking_rules := rule_index.index.lacking(actor, rules, each.namespace):
            return f"You may not {who_can.sentence_of(lacking_rules[0], each.namespace)} yourself, as RBAC has it."
    return ""


def _holds(actor: Actor, wanted: Permitted) -> bool:
    obj = known_rights.object_of(wanted.group, wanted.plural, wanted.name)
    return authorization.permitted(actor, wanted.label, obj=obj, name=wanted.name).allowed


# ---------------------------------------------------------------- take away


def withdraw_source(actor: Actor, source: Source) -> None:
    """Take one source away. Raises Forbidden, NotFound, Conflict, and BadRequest for what is no grant."""
    if source.given_by is GrantSource.PERMISSION:
        obj_name = "" if ALL in source.names else source.names[0]
        plural, _, group = source.resource.partition(".")
        wanted = Permitted(source.label, group, plural, obj_name)
        permissions.change_permissions(actor, [_change(PermissionAct.REVOKE, wanted, holder_of(source.subject))])
    elif source.given_by is GrantSource.BINDING:
        _unbind(actor, source)
    else:
        raise errors.BadRequest("a superuser is one by the account: change that in Django admin")


def _unbind(actor: Actor, source: Source) -> None:
    """Off the binding's subjects; a binding without any goes."""
    assert source.binding is not None
    key = Key(*source.binding.place)
    kind = kinds.ROLE_BINDING if key.namespace else kinds.CLUSTER_ROLE_BINDING
    if len(source.binding.subjects) == 1:
        verbs.delete(actor, kind, key)
    else:
        verbs.edit(actor, kind, key, lambda doc: _without(doc, source.subject))


def _without(doc: Doc, subject: Subject) -> None:
    namespace = doc["metadata"].get("namespace", "")
    doc["subjects"] = [each for each in doc.get("subjects") or [] if _named(each, namespace) != subject]


def _named(doc: Doc, namespace: str) -> Subject:
    if doc["kind"] == "ServiceAccount":
        return Subject("User", f"{SERVICE_ACCOUNT}{doc.get('namespace') or namespace}:{doc['name']}")
    return Subject(doc["kind"], doc["name"])


# ---------------------------------------------------------------- requests


def requests_for(actor: Actor) -> QuerySet[AccessRequest]:
    """All requests for users who may change permissions, else the actor's own; newest first."""
    rows = AccessRequest.objects.order_by("-at", "-pk")
    return rows if administers(actor) else rows.filter(user=actor.user)


def requests_of(actor: Actor) -> QuerySet[AccessRequest]:
    return AccessRequest.objects.filter(user=actor.user)


def waiting_requests(actor: Actor) -> QuerySet[AccessRequest]:
    """Those that the actor could answer, oldest first."""
    rows = AccessRequest.objects.filter(answer="").exclude(user=actor.user).order_by("at", "pk")
    return rows if administers(actor) else rows.none()


def request_access(actor: Actor, asked: Question, reason: str) -> AccessRequest:
    """Ask for what was refused. Raises Conflict when it waits already, or when too much does."""
    if AccessRequest.objects.filter(user=actor.user, answer="").count() >= MOST_OPEN:
        raise errors.Conflict(f"{MOST_OPEN} of your requests wait already; wait for answers first")
    row = AccessRequest(
        user=actor.user[:320],
        verb=asked.verb,
        resource=asked.resource,
        namespace=asked.namespace,
        name=asked.name,
        reason=reason,
        at=clock.now(),
    )
    try:
        with transaction.atomic():
            row.save()
            _entry(actor, "ask", row, reason).save()
    except IntegrityError as error:
        raise errors.Conflict("you have asked for this already, and nobody has answered yet") from error
    return row


def question_of(row: AccessRequest) -> Question:
    return known_rights.question(row.verb, row.resource, name=row.name, namespace=row.namespace)


def plan_of(row: AccessRequest) -> GrantPlan:
    """The least that answers the request with yes: a Django permission where one means it, else a rule of RBAC."""
    asked, subject = question_of(row), Subject("User", row.user)
    sentences = (asked.sentence,)
    right = asked.right
    is_there = not asked.name or asked.object is not None
    if right and is_there and User.objects.filter(username=row.user).exists():
        return GrantPlan(
            subject, (Permitted(right.permission, right.group, right.plural, asked.name),), sentences=sentences
        )
    first = asked.asked[0]
    rule: Doc = {"apiGroups": [first.group], "resources": [first.full_resource], "verbs": [first.verb]}
    if first.name:
        rule["resourceNames"] = [first.name]
    name = f"{presets.RBAC_PREFIX}-request-{row.pk}"
    documents = presets.role_and_binding(name, subject, [rule], namespace=first.namespace)
    return GrantPlan(subject, documents=documents, sentences=sentences)


def grant_request(actor: Actor, row: AccessRequest) -> GrantPlan:
    """Give the right that was requested, if the actor may grant it. Raises Forbidden, Conflict."""
    _require_administrator(actor, row, "grant")
    _require_open(row)
    plan = plan_of(row)

    def answered() -> AuditEvent:
        """In the transaction of what is given, or another's no would stand beside it."""
        _claim(actor, row, AccessRequest.Answer.GRANTED, "")
        return _entry(actor, "grant", row, "")

    give_plan(actor, plan, records=[answered])
    return plan


def dismiss_request(actor: Actor, row: AccessRequest, reason: str) -> None:
    """Answer with no, and why; the person reads it. Raises Forbidden, Conflict."""

    def dismiss(actor: Actor) -> None:
        _require_administrator(actor, row, "dismiss")
        _require_open(row)
        with verbs.while_permitted(actor):
            _claim(actor, row, AccessRequest.Answer.DISMISSED, reason)
            _entry(actor, "dismiss", row, reason).save()

    verbs.with_present_rights(actor, dismiss)


def _require_open(row: AccessRequest) -> None:
    if row.answer:
        raise errors.Conflict(f"{row.answered_by} has answered this already: {row.answer}")


def _claim(actor: Actor, row: AccessRequest, answer: str, reason: str) -> None:
    """Of two who answer at once, one."""
    now = clock.now()
    columns = {"answer": answer, "answered_by": actor.user[:320], "answered_at": now, "answer_reason": reason}
    if not AccessRequest.objects.filter(pk=row.pk, answer="").update(**columns):
        raise errors.Conflict("somebody else has just answered this")


def _require_administrator(actor: Actor, row: AccessRequest, verb: str) -> None:
    if not administers(actor):
        asked = Attributes(verb, resource="accessrequests", name=row.user)
        authorization.refuse(actor, asked, f"the permission {PeoplePermission.CHANGE_PERMISSION} is missing")


def _entry(actor: Actor, verb: str, row: AccessRequest, reason: str) -> AuditEvent:
    place = AuditTarget("", "accessrequests", row.user, str(row.pk))
    diff = [
        {"path": path, "new": value}
        for path in ("verb", "resource", "namespace", "name")
        if (value := getattr(row, path))
    ]
    return permissions.audit_entry(actor, f"accessrequest:{verb}", place, diff=diff, reason=reason)


def find_source(subject: Subject, key: str) -> Source | None:
    """The source of the subject that ``key_of`` names."""
    return next((source for source in who_can.held_by([subject])[subject] if key_of(source) == key), None)


def key_of(source: Source) -> str:
    """What stands for the source in an address."""
    if source.binding:
        return f"binding:{source.binding.place[0]}/{source.binding.place[1]}"
    return f"permission:{source.label}@{'' if ALL in source.names else f'{source.resource}/{source.names[0]}'}"
