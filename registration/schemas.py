"""Structural schema of certificates.k8s.io/v1 CertificateSigningRequest (W23). Its rules are in ``admission``."""

from __future__ import annotations

from ocmconsole.corekinds.shapes import int32, keyed, mapping, moment, octets, structure, text, texts
from ocmconsole.kubeapi.errors import Doc

_SPEC = structure(
    "What is asked for, and by whom. Cannot be changed.",
    {
        "request": octets("The PKCS#10 request in PEM."),
        "signerName": text("Who should sign, such as kubernetes.io/kube-apiserver-client."),
        "usages": texts("What the certificate is for, such as client auth."),
        "expirationSeconds": int32("How long the certificate should last. The signer may give less."),
        "username": text("Who asked. Set by the server."),
        "uid": text("The uid of who asked. Set by the server."),
        "groups": texts("The groups of who asked. Set by the server."),
        "extra": mapping(
            "What else is known of who asked. Set by the server.", {"type": "array", "items": {"type": "string"}}
        ),
    },
    required=("request", "signerName"),
)
_CONDITION = structure(
    "A decision, or a failure.",
    {
        "type": text("Approved, Denied or Failed; signers may add their own."),
        "status": text("True for these three."),
        "reason": text("Why, in a few words."),
        "message": text("Why, for people."),
        "lastUpdateTime": moment("When this was last written."),
        "lastTransitionTime": moment("When the status last became another one."),
    },
    required=("type", "status"),
)

CSR: Doc = structure(
    "Asks a signer of the hub for a certificate; someone with the right to do so approves or denies it.",
    {
        "spec": _SPEC,
        "status": structure(
            "What became of the request.",
            {
                "conditions": keyed("What was decided.", _CONDITION, ["type"]),
                "certificate": octets("The certificate in PEM, followed by those of its issuers."),
            },
        ),
    },
    required=("spec",),
)
