"""The rules of certificate requests: who asks, what may be asked, who may decide (W23, W24)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from django.conf import settings
from django.contrib.auth import get_user_model

from clusters.kinds import MANAGED_CLUSTER, is_accepted
from clusters.models import ClusterFacts, ClusterPermission
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import (
    admission,
    clock,
    errors,
    request_cache,
)
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import MASTERS, OWN_PREFIX
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.errors import Cause
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import plain_sql
from registration import queries
from registration.keys import certificate_register, key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import DECISIONS, adds, certificate_pem, conditions_of, request_pem
from registration.models import IssuedCertificate
from registration.pki import agent_names, ca

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

GROUP = "certificates.k8s.io"
SHORTEST_SECONDS = 600  # of a certificate, as in Kubernetes
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"
FINAL = (*DECISIONS, "Failed")
USAGES = frozenset(
    {
        "signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
        "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing",
        "email protection", "s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing",
        "microsoft sgc", "netscape sgc",
    }
)  # fmt: skip
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
SIGNER_PATH = re.compile(r"[a-zA-Z0-9._~-]+(/[a-zA-Z0-9._~-]+)*")


# ---------------------------------------------------------------- create


@admission.defaulter(CSR)
def stamp_requester(actor: Actor, old: Doc | None, new: Doc) -> None:
    """W23: ``spec.username``, ``uid``, ``groups`` and ``extra`` of a new CSR are the caller's, whatever it says."""
    if old is not None:
        return
    spec = new.setdefault("spec", {})
    if not isinstance(spec, dict):
        return  # for the schema to refuse
    spec["username"] = actor.user
    spec["groups"] = list(actor.groups)
    for name, value in (("uid", actor.uid), ("extra", {key: list(values) for key, values in actor.extra.items()})):
        if value:
            spec[name] = value
        else:
            spec.pop(name, None)


@admission.validator(CSR)
def request_is_well_formed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W23: a new CSR holds a readable request, known usages, a qualified signer and a sane lifetime. Raises Invalid."""
    if old is not None:
        return
    spec = new["spec"]
    causes = [*_request_causes(spec), *_usage_causes(spec), *_signer_causes(spec)]
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(errors.invalid_field("spec.expirationSeconds", str(seconds), text))
    if causes:
        raise errors.is_invalid(GROUP, CSR.kind, new["metadata"]["name"], causes)


def _request_causes(spec: Doc) -> list[Cause]:
    """RSA keys have 2,048 to 8,192 bits: another is not even stored."""
    try:
        flaw = ca.parse_request(request_pem({"spec": spec})).size_flaw
    except ValueError as error:
        flaw = str(error)
    return [errors.invalid_field("spec.request", f'"{spec.get("request") or ""}"'[:200], flaw)] if flaw else []


def _usage_causes(spec: Doc) -> list[Cause]:
    usages = spec.get("usages") or []
    if not usages:
        return [errors.required("spec.usages")]
    if len(usages) > len(USAGES):  # then one is unknown or said twice; naming each would cost more than was sent
        text = f"Too many: {len(usages)}: must have at most {len(USAGES)} items"
        return [Cause("FieldValueTooMany", text, "spec.usages")]
    unknown = [
        errors.unsupported(f"spec.usages[{index}]", f'"{usage}"', sorted(USAGES))
        for index, usage in enumerate(usages)
        if usage not in USAGES
    ]
    repeated = [
        Cause("FieldValueDuplicate", f'Duplicate value: "{usage}"', f"spec.usages[{index}]")
        for index, usage in enumerate(usages)
        if usage in usages[:index]
    ]
    return unknown + repeated


def _signer_causes(spec: Doc) -> list[Cause]:
    signer = spec.get("signerName") or ""
    domain, _, path = signer.partition("/")
    if signer == LEGACY_UNKNOWN:
        return [
            errors.invalid_field(
                "spec.signerName", f'"{signer}"', "the legacy signerName is not allowed via this API version"
            )
        ]
    if len(signer) <= 571 and DOMAIN.fullmatch(domain) and SIGNER_PATH.fullmatch(path):  # noqa: PLR2004 - Kubernetes' limit
        return []
    text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
    return [errors.invalid_field("spec.signerName", f'"{signer}"', text)]


@admission.validator(CSR)
def masters_are_not_signed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W24: no CSR for the hub's signer asks for the group ``system:masters``. Raises Forbidden."""
    spec = new["spec"]
    if old is not None or spec["signerName"] != agent_names.SIGNER:
        return
    if MASTERS in ca.parse_request(request_pem(new)).organizations:
        name = new["metadata"]["name"]
        text = f"use of {agent_names.SIGNER} signer with {MASTERS} group is not allowed"
        raise request_forbidden(name, text)


@admission.validator(CSR)
def names_of_the_hub_are_not_signed(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """D24: no CSR for the hub's signer asks for a name of the hub's own parts. Raises Forbidden."""
    if old is not None or new["spec"]["signerName"] != agent_names.SIGNER:
        return
    request = ca.parse_request(request_pem(new))
    if own := [each for each in (request.common_name, *request.organizations) if each.startswith(OWN_PREFIX)]:
        text = f"use of {agent_names.SIGNER} signer with {own[0]}, a name of the hub itself, is not allowed"
        raise request_forbidden(new["metadata"]["name"], text)


@admission.validator(CSR)
def token_is_for_this_request(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: a bootstrap token that was made for one cluster creates CSRs for its agent alone. Raises Forbidden."""
    bound = tokens.cluster_of(actor) if old is None else ""
    if bound and cluster_of(new) != bound:
        asked = Attributes("create", GROUP, CSR.plural, name=new["metadata"]["name"])
        raise authorization.forbidden_error(
            actor, asked, f"the bootstrap token is for the agent of the cluster {quoted(bound)} only"
        )


def request_forbidden(name: str, text: str) -> errors.Forbidden:
    return errors.Forbidden(
        f'{errors.qualified(GROUP, CSR.plural)} "{name}" is forbidden: {text}',
        details={"name": name, "group": GROUP, "kind": CSR.plural},
    )


# ---------------------------------------------------------------- decide


@admission.defaulter(CSR, subresource="approval")
@admission.defaulter(CSR, subresource="status")
def stamp_condition_times(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W23: conditions get ``lastUpdateTime`` and ``lastTransitionTime`` where they lack them."""
    now = times.timestamp(clock.now())
    for condition in conditions_of(new):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        condition["lastTransitionTime"] = condition.get("lastTransitionTime") or now


@admission.validator(CSR, subresource="approval")
def decision_needs_permission(actor: Actor, old: Doc | None, new: Doc) -> None:
    """W23: deciding needs ``approve`` on the signer, or the right to accept the cluster (D15). Raises Forbidden."""
    assert old is not None
    if conditions_of(old) == conditions_of(new) or actor.is_controller:
        return
    signer = new["spec"]["signerName"]
    if may_use_signer(actor, "approve", signer).allowed or _may_decide(actor, new).allowed:
        return
    name = new["metadata"]["name"]
    raise request_forbidden(name, f'user not permitted to approve requests with signerName "{signer}"')


@admission.validator(CSR, subresource="status")
def signing_needs_permission(actor: Actor, old: Doc | None, new: Doc) -> None:
    """W23: setting the certificate needs ``sign`` on the signer. Raises Forbidden."""
    assert old is not None
    signer = new["spec"]["signerName"]
    if (old.get("status") or {}).get("certificate") == (new.get("status") or {}).get(
        "certificate"
    ) or actor.is_controller:
        return
    if not may_use_signer(actor, "sign", signer).allowed:
        name = new["metadata"]["name"]
        raise request_forbidden(name, f'user not permitted to sign requests with signerName "{signer}"')


def may_use_signer(actor: Actor, verb: str, signer: str) -> AccessDecision:
    """W23: whether the actor may ``approve`` or ``sign`` for a signer, by its full name or ``<domain>/*``."""
    domain = signer.partition("/")[0]
    for name in (signer, f"{domain}/*"):
        decision = authorization.authorize(actor, Attributes(verb, group=GROUP, resource="signers", name=name))
        if decision.allowed:
            return decision
    return authorization.DENIED


@admission.validator(CSR, subresource="approval")
@admission.validator(CSR, subresource="status")
def conditions_are_lawful(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W23, W154: a decision is True, Approved and Denied exclude each other, none is removed. Raises Invalid."""
    assert old is not None
    causes = [*_condition_causes(new), *_kept_causes(old, new)]
    if causes:
        raise errors.is_invalid(GROUP, CSR.kind, new["metadata"]["name"], causes)


@admission.validator(CSR, subresource="status")
def status_takes_no_decision(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W154: ``/status`` adds no decision; that is done at ``/approval``, which needs another right. Raises Invalid."""
    assert old is not None
    causes = [
        errors.forbidden_field("status.conditions", f'updates may not add a condition of type "{decision}"')
        for decision in DECISIONS
        if adds(decision, old, new)
    ]
    if causes:
        raise errors.is_invalid(GROUP, CSR.kind, new["metadata"]["name"], causes)


def _condition_causes(new: Doc) -> list[Cause]:
    causes = []
    types = [condition.get("type") for condition in conditions_of(new)]
    for index, condition in enumerate(conditions_of(new)):
        field = f"status.conditions[{index}]"
        if not condition.get("type"):
            causes.append(errors.required(f"{field}.type"))
        status = condition.get("status")
        if not status:
            causes.append(errors.required(f"{field}.status"))
        elif condition.get("type") in FINAL and status != "True":
            causes.append(errors.unsupported(f"{field}.status", f'"{status}"', ("True",)))
        elif status not in {"True", "False", "Unknown"}:
            causes.append(errors.unsupported(f"{field}.status", f'"{status}"', ("True", "False", "Unknown")))
        if condition.get("type") in types[:index]:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{condition["type"]}"', f"{field}.type"))
    if {"Approved", "Denied"} <= set(types):
        text = "Approved and Denied conditions are mutually exclusive"
        causes.append(errors.invalid_field("status.conditions", '"Denied"', text))
    return causes


def _kept_causes(old: Doc, new: Doc) -> list[Cause]:
    types = {condition.get("type") for condition in conditions_of(new)}
    return [
        errors.forbidden_field("status.conditions", f'updates may not remove a condition of type "{condition["type"]}"')
        for condition in conditions_of(old)
        if condition.get("type") in FINAL and condition["type"] not in types
    ]


@admission.validator(CSR, subresource="status")
def certificate_is_pem(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """W23: a certificate is PEM and never changes once it is set. Raises Invalid."""
    assert old is not None
    before = (old.get("status") or {}).get("certificate")
    after = (new.get("status") or {}).get("certificate")
    if not after or after == before:
        return
    causes = []
    if before:
        causes.append(errors.forbidden_field("status.certificate", "updates may not modify a certificate that is set"))
    try:
        ca.parse_certificate(certificate_pem(new))
    except ValueError:
        causes.append(
            errors.invalid_field("status.certificate", '"…"', "must contain at least one CERTIFICATE PEM block")
        )
    if causes:
        raise errors.is_invalid(GROUP, CSR.kind, new["metadata"]["name"], causes)


@admission.names_act(CSR)
def decision_act(old: Doc | None, new: Doc | None) -> str | None:
    """D11: the audit names approval, denial, failure and signing of a CSR; None for any other write."""
    if old is None or new is None:
        return None
    acts = {"Approved": "approve", "Denied": "deny", "Failed": "fail"}
    for kind, act in acts.items():
        if adds(kind, old, new):
            return f"certificatesigningrequest:{act}"
    if (new.get("status") or {}).get("certificate") and not (old.get("status") or {}).get("certificate"):
        return "certificatesigningrequest:sign"
    return None


# ---------------------------------------------------------------- facts


@admission.records(MANAGED_CLUSTER)
def decision_is_remembered(actor: Actor, old: Doc | None, new: Doc | None) -> list[ClusterFacts]:
    """D10: the last decision about a name: who accepted or un-accepted the cluster, through any entry point."""
    before, after = is_accepted(old), is_accepted(new)
    if new is None or before == after:
        return []
    decision = ClusterFacts.Decision.ACCEPTED if after else ClusterFacts.Decision.DISCONNECTED
    return [record_decision(actor, new["metadata"]["name"], decision, "")]


def record_decision(
    actor: Actor, cluster: str, decision: ClusterFacts.Decision | Literal[""], reason: str
) -> ClusterFacts:
    """The last word about a name; empty when what was said is taken back."""
    facts = queries.facts_of(cluster)
    facts.decision = decision
    facts.decided_by = actor.user
    facts.decided_at = clock.now()
    facts.decision_reason = reason
    return facts


@admission.records(CSR)
def certificate_is_remembered(actor: Actor, old: Doc | None, new: Doc | None) -> list[Model]:
    """D9: the register keeps each certificate that a CSR got, no matter who signed it.

    D26: one of the hub's own CA only where it may have been signed for the hub (``_is_forged``).
    D19: one whose line of keys has ended since the approval is revoked from its beginning.
    """
    if old is None or new is None or certificate_pem(old) == certificate_pem(new):
        return []
    if _is_forged(actor, new):
        return []
    cluster, of_lines = cluster_of(new), key_lines.of_request(new)
    certificate = ca.parse_certificate(certificate_pem(new))
    issued = IssuedCertificate.of(certificate, cluster=cluster, request=new["metadata"]["name"])
    joined = [IssuedCertificate.lines.through(issuedcertificate_id=issued.pk, keyline_id=line.pk) for line in of_lines]
    if (line := key_lines.ended_among(of_lines)) is not None:
        return [*key_lines.revoked_rows(actor, issued, line.cluster, line.end_reason), *joined]
    if actor.is_controller and plain_sql.is_there(get_user_model(), username=issued.common_name):
        return list(
            certificate_register.ended_for_account(actor, issued)
        )  # an account was made while it was signed (D24)
    return [issued, *joined]


def _is_forged(actor: Actor, doc: Doc) -> bool:
    """D26: a certificate of the hub's CA that neither the hub nor the external signer in its place has signed.

    An entry in the register would have it honoured, although somebody else has the CA's key; without one it is refused.
    """
    is_ours = doc["spec"]["signerName"] == agent_names.SIGNER
    if actor.is_controller or (is_ours and settings.OCMCONSOLE_CSR_SIGNER == "external"):
        return False
    return ca.is_of(certificate_pem(doc), ca.client_file(Path(settings.OCMCONSOLE_HOME)).read_bytes())


# ---------------------------------------------------------------- the right to accept includes deciding


def cluster_of(doc: Doc) -> str:
    """The cluster whose agent a CSR speaks for; "" unless label, organization and common name agree (H35)."""
    cluster: str = (doc["metadata"].get("labels") or {}).get(agent_names.CLUSTER_LABEL, "")
    return cluster if cluster and not found_problems(doc, cluster) else ""


def found_problems(doc: Doc, cluster: str) -> list[str]:
    spec = doc["spec"]
    try:
        request = ca.parse_request(request_pem(doc))
    except ValueError as error:
        return [str(error)]
    return agent_names.identity_problems(
        request, cluster=cluster, signer=spec["signerName"], usages=spec.get("usages") or []
    )


def _may_decide(actor: Actor, doc: Doc) -> AccessDecision:
    cluster = cluster_of(doc)
    if not cluster:
        return authorization.DENIED
    row = request_cache.row_at(MANAGED_CLUSTER, Key("", cluster))
    return authorization.permitted(actor, ClusterPermission.ACCEPT, obj=row, name=cluster)


@authorization.authorizer
def acceptors_decide(actor: Actor, attributes: Attributes) -> AccessDecision | None:
    """D15: authorizer: the right to accept a cluster includes reading and deciding its CSRs. None is no grant."""
    if (attributes.group, attributes.resource) != (GROUP, CSR.plural) or not attributes.name:
        return None
    wanted: Callable[[], bool] = {
        "": lambda: attributes.verb == "get",
        "approval": lambda: attributes.verb in {"get", "update", "patch"},
    }.get(attributes.subresource, lambda: False)
    if not wanted():
        return None
    row: Any = request_cache.row_at(CSR, Key("", attributes.name))
    if row is None:
        return None
    decision = _may_decide(actor, row.doc)
    if not decision.allowed:
        return None
    fields = frozenset({"status.conditions"}) if attributes.subresource else None
    return AccessDecision(allowed=True, reason=f"may accept cluster {row.cluster}: {decision.reason}", fields=fields)
