"""Subjects of certificate requests that are near an agent's: everything that a careless comparison could take for it."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import assume
from hypothesis import strategies as st

from registration.pki import agent_names
from tests import requests

MINE, OTHER = "c1", "c2"
PREFIX = agent_names.USER_PREFIX
KEY = ec.generate_private_key(ec.SECP256R1())
TYPES = [_ASN1Type.UTF8String, _ASN1Type.PrintableString, _ASN1Type.T61String, _ASN1Type.BMPString]


@dataclass(frozen=True)
class Asked:
    """A subject, part by part, and what stands around it."""

    parts: tuple[tuple[x509.ObjectIdentifier, str], ...]
    label: str = MINE
    dns: tuple[str, ...] = ()
    together: bool = False  # all parts in one relative name
    form: _ASN1Type = _ASN1Type.UTF8String
    usages: tuple[str, ...] = tuple(requests.USAGES)

    def pem(self) -> bytes:
        attributes = [x509.NameAttribute(oid, value, _type=self.form, _validate=False) for oid, value in self.parts]
        relatives = (
            [x509.RelativeDistinguishedName(attributes)]
            if self.together
            else [x509.RelativeDistinguishedName([each]) for each in attributes]
        )
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(relatives))
        if self.dns:
            names = x509.SubjectAlternativeName([x509.DNSName(each) for each in self.dns])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


# ---------------------------------------------------------------- near names

LOOKALIKES = str.maketrans(
    {"c": "\u0441", "o": "\u043e", "e": "\u0435", "s": "\u0455", "1": "\u217c", ":": "\uff1a", "-": "\u2010"}
)


def _mutations(name: str) -> st.SearchStrategy[str]:
    """Everything that a careless comparison could take for the name."""
    ends = st.sampled_from(
        ["", " ", "\t", ".", ":", "\u200b", "\u00ad", "\ufeff", "x", "1", "\u0301", "\x00", "\n", "/"]
    )
    return st.one_of(
        st.just(name),
        st.builds(lambda before, after: before + name + after, ends, ends),
        st.sampled_from([name.upper(), name.title(), name.swapcase(), name.translate(LOOKALIKES), name[:-1], name[1:]]),
        st.integers(0, len(name)).flatmap(
            lambda at: st.sampled_from(
                [name[:at] + "\u0430" + name[at:], name[:at] + ":" + name[at:], name[:at] + name[at + 1 :]]
            )
        ),
        st.sampled_from([name.replace(":", "::"), name.replace(MINE, OTHER), name.replace(MINE, f"{MINE}:{OTHER}")]),
        st.sampled_from(
            [name.replace("system:", ""), f"{PREFIX}{name}", name.replace(MINE, f"{MINE},O={PREFIX}{OTHER}")]
        ),
    )


GROUP = agent_names.group_of(MINE)
common_names = st.one_of(
    _mutations(f"{GROUP}:agent"),
    _mutations(f"{PREFIX}{OTHER}:agent"),
    st.sampled_from([GROUP, "root", "", f"{GROUP}:"]),
)
organizations = st.one_of(
    _mutations(GROUP),
    _mutations(agent_names.group_of(OTHER)),
    st.sampled_from(
        [agent_names.MANAGED_CLUSTERS, "open-cluster-management:c2", "open-cluster-management:c1", "system:masters"]
    ),
)
part = st.one_of(
    st.tuples(st.just(NameOID.ORGANIZATION_NAME), organizations),
    st.tuples(st.just(NameOID.ORGANIZATION_NAME), st.just(GROUP)),
    st.tuples(st.just(NameOID.COMMON_NAME), common_names),
    st.tuples(
        st.sampled_from([NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.SERIAL_NUMBER, NameOID.USER_ID]), organizations
    ),
)
PLAIN = ((NameOID.ORGANIZATION_NAME, GROUP), (NameOID.COMMON_NAME, f"{GROUP}:agent"))
subjects = st.one_of(
    st.lists(part, min_size=1, max_size=5).map(tuple),
    # nearly right: the plain subject with one part more, less, or changed
    st.builds(lambda extra, at: (*PLAIN[:at], extra, *PLAIN[at:]), part, st.integers(0, 2)),
    st.builds(
        lambda changed, at: tuple(changed if i == at else each for i, each in enumerate(PLAIN)), part, st.integers(0, 1)
    ),
    st.just(PLAIN),
)
asked = st.builds(
    Asked,
    parts=subjects,
    label=st.sampled_from([MINE, MINE, MINE, OTHER]),
    dns=st.sampled_from([(), (), (), ("hub.example.com",)]),
    together=st.booleans(),
    form=st.sampled_from([_ASN1Type.UTF8String, *TYPES]),
    usages=st.sampled_from([tuple(requests.USAGES), (*requests.USAGES, "server auth")]),
)


def written(wanted: Asked) -> bytes:
    """Some texts have no form in some types; those nobody can send."""
    try:
        return wanted.pem()
    except (ValueError, UnicodeError):
        assume(False)
        raise
