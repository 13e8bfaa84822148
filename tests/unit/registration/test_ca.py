"""The hub's CA: its files, what it signs, what it reads, whom it trusts."""

from __future__ import annotations

import base64
import multiprocessing
import stat
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registration.pki import ca
from registration.pki.x509_reading import fingerprint_of

# What cryptography thinks of long names (certificates.py says why they are right) and of a damaged serial number.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Attribute's length must be"),
    pytest.mark.filterwarnings("ignore:Parsed a serial number"),
]

NOW = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = 365 * DAY
NAMES = ("hub.example.com", "127.0.0.1")
USAGES = ("digital signature", "key encipherment", "client auth")
AGENT_CN = "system:open-cluster-management:c1:agent1"
AGENT_O = ("system:open-cluster-management:c1", "system:open-cluster-management:managed-clusters")
KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
SECRETS = ("ca.key", "serving.key")


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in parts])


def agent_subject(common_name: str = AGENT_CN, organizations: tuple[str, ...] = AGENT_O) -> x509.Name:
    groups = [(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return name(*groups, (NameOID.COMMON_NAME, common_name))


def csr(
    subject: x509.Name | None = None,
    *,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey = KEY,
    alternative: list[x509.GeneralName] | None = None,
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(agent_subject() if subject is None else subject)
    if alternative:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM)


def certificate(
    subject: x509.Name,
    issuer: x509.Name,
    *,
    signer: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey = KEY,
    is_ca: bool = False,
    purposes: tuple[x509.ObjectIdentifier, ...] = (),
    until: datetime = NOW + YEAR,
    path_length: int | None = None,
    others: Iterable[x509.ExtensionType] = (),
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=path_length), critical=True)
    )
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    for other in others:
        builder = builder.add_extension(other, critical=isinstance(other, x509.NameConstraints))
    return builder.sign(signer, hashes.SHA256())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(item.public_bytes(serialization.Encoding.PEM) for item in certificates)


def der(chain_pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(chain_pem).public_bytes(serialization.Encoding.DER)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def authority(home: Path) -> ca.Authority:
    return ca.ensure_authority(home, NAMES, now=NOW)


def sign(authority: ca.Authority, request: bytes, *, lifetime: timedelta = YEAR) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.sign_client(request, usages=USAGES, lifetime=lifetime, now=NOW))


class Organisation:
    """A root and an intermediate, as somebody brings them."""

    def __init__(self, title: str = "Org") -> None:
        self.root_key, self.key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        root_name, middle_name = (name((NameOID.COMMON_NAME, f"{title} {part}")) for part in ("Root", "Issuing CA"))
        self.root = certificate(root_name, root_name, signer=self.root_key, key=self.root_key, is_ca=True)
        self.middle = certificate(middle_name, root_name, signer=self.root_key, key=self.key, is_ca=True)

    def place(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        (home / "ca.crt").write_bytes(pem(self.middle, self.root))
        (home / "ca.key").write_bytes(key_pem(self.key))


# ---------------------------------------------------------------- the files


class TestFiles:
    @pytest.mark.usefixtures("authority")
    def test_keys_are_for_their_owner_only_and_certificates_for_all(self, home: Path) -> None:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
        assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "serving.crt": 0o644, "serving.key": 0o600}

    def test_a_new_authority_is_a_p256_ca_for_ten_years(self, authority: ca.Authority) -> None:
        issuing = authority.certificate
        assert isinstance(authority.key, ec.EllipticCurvePrivateKey)
        assert authority.key.curve.name == "secp256r1"
        assert issuing.not_valid_after_utc == NOW + timedelta(days=3650)
        assert issuing.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    def test_a_second_start_changes_nothing(self, home: Path, authority: ca.Authority) -> None:
        before = {path.name: path.read_bytes() for path in home.iterdir()}
        assert ca.ensure_authority(home, reversed_names(), now=NOW + DAY).ca_pem == authority.ca_pem
        assert {path.name: path.read_bytes() for path in home.iterdir()} == before

    def test_the_serving_certificate_is_for_the_names_and_addresses(self, home: Path, authority: ca.Authority) -> None:
        leaf = x509.load_pem_x509_certificate((home / "serving.crt").read_bytes())
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["hub.example.com"]
        assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]
        assert ca.parse_certificate(pem(leaf)).client_auth is False
        leaf.verify_directly_issued_by(authority.certificate)

    @pytest.mark.parametrize(
        ("names", "later"), [(("other.example.com",), timedelta()), (NAMES, YEAR - timedelta(days=29))]
    )
    def test_the_serving_certificate_is_renewed_for_new_names_or_before_its_end(
        self, tmp_path: Path, names: tuple[str, ...], later: timedelta
    ) -> None:
        authority = ca.ensure_authority(tmp_path, NAMES, now=NOW)
        before = (tmp_path / "serving.crt").read_bytes()
        assert ca.ensure_authority(tmp_path, names, now=NOW + later).ca_pem == authority.ca_pem
        assert (tmp_path / "serving.crt").read_bytes() != before

    def test_a_certificate_that_ends_with_the_ca_is_not_issued_again_and_again(self, tmp_path: Path) -> None:
        ca.ensure_authority(tmp_path, NAMES, now=NOW)
        late = NOW + ca.CA_LIFETIME - timedelta(days=20)
        ca.ensure_authority(tmp_path, NAMES, now=late)
        before = (tmp_path / "serving.crt").read_bytes()
        ca.ensure_authority(tmp_path, NAMES, now=late + timedelta(days=10))
        assert (tmp_path / "serving.crt").read_bytes() == before

    @pytest.mark.parametrize("damage", [b"", b"nonsense"])
    @pytest.mark.parametrize("file", ["serving.crt", "serving.key"])
    def test_damaged_serving_files_are_made_again(self, tmp_path: Path, file: str, damage: bytes) -> None:
        ca.ensure_authority(tmp_path, NAMES, now=NOW)
        (tmp_path / file).write_bytes(damage)
        ca.ensure_authority(tmp_path, NAMES, now=NOW)
        leaf = x509.load_pem_x509_certificate((tmp_path / "serving.crt").read_bytes())
        key = serialization.load_pem_private_key((tmp_path / "serving.key").read_bytes(), None)
        assert leaf.public_key() == key.public_key()

    def test_an_organisations_intermediate_is_used_and_its_chain_served(self, tmp_path: Path) -> None:
        organisation = Organisation()
        organisation.place(tmp_path)
        authority = ca.ensure_authority(tmp_path, NAMES, now=NOW)
        served = x509.load_pem_x509_certificates((tmp_path / "serving.crt").read_bytes())
        assert served[1:] == [organisation.middle]
        assert authority.ca_pem == pem(organisation.middle, organisation.root)
        signed = authority.sign_client(csr(), usages=USAGES, lifetime=DAY, now=NOW)
        assert x509.load_pem_x509_certificates(signed)[1:] == [organisation.middle]

    def test_a_key_alone_is_an_interrupted_start_and_gets_its_certificate(self, tmp_path: Path) -> None:
        (tmp_path / "ca.key").write_bytes(key_pem(KEY))
        assert ca.ensure_authority(tmp_path, NAMES, now=NOW).certificate.public_key() == KEY.public_key()

    def test_a_key_of_another_certificate_is_refused(self, tmp_path: Path) -> None:
        Organisation().place(tmp_path)
        (tmp_path / "ca.key").write_bytes(key_pem(KEY))
        with pytest.raises(ca.AuthorityError, match=r"ca\.key is not the key"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW)

    def test_a_certificate_that_is_no_ca_is_refused(self, tmp_path: Path) -> None:
        own = name((NameOID.COMMON_NAME, "no CA"))
        (tmp_path / "ca.crt").write_bytes(pem(certificate(own, own, signer=KEY)))
        (tmp_path / "ca.key").write_bytes(key_pem(KEY))
        with pytest.raises(ca.AuthorityError, match="not a CA"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW)

    def test_a_certificate_without_its_key_is_refused(self, tmp_path: Path) -> None:
        Organisation().place(tmp_path)
        (tmp_path / "ca.key").unlink()
        with pytest.raises(ca.AuthorityError, match=r"ca\.key"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW)

    def test_a_chain_that_does_not_hang_together_is_refused(self, tmp_path: Path) -> None:
        organisation = Organisation()
        organisation.place(tmp_path)
        (tmp_path / "ca.crt").write_bytes(pem(organisation.middle, Organisation().root))
        with pytest.raises(ca.AuthorityError, match="not a chain"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW)

    def test_an_expired_authority_is_refused(self, tmp_path: Path) -> None:
        ca.ensure_authority(tmp_path, NAMES, now=NOW)
        with pytest.raises(ca.AuthorityError, match="not valid now"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW + 11 * YEAR)

    def test_an_encrypted_key_is_refused(self, tmp_path: Path) -> None:
        Organisation().place(tmp_path)
        locked = KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        (tmp_path / "ca.key").write_bytes(locked)
        with pytest.raises(ca.AuthorityError, match="cannot be read"):
            ca.ensure_authority(tmp_path, NAMES, now=NOW)

    @pytest.mark.parametrize("names", [(), ("exämple",)])
    def test_impossible_names_are_refused(self, tmp_path: Path, names: tuple[str, ...]) -> None:
        with pytest.raises(ca.AuthorityError):
            ca.ensure_authority(tmp_path, names, now=NOW)

    def test_processes_that_start_at_once_agree_on_one_authority(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        with context.Pool(2) as pool:
            found = pool.starmap(ensured, [(tmp_path,)] * 6)
        assert len(set(found)) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "ca.key", "serving.crt", "serving.key"]


def ensured(home: Path) -> bytes:
    return ca.ensure_authority(home, NAMES, now=NOW).ca_pem + (home / "serving.crt").read_bytes()


def reversed_names() -> list[str]:
    return [name.upper() for name in reversed(NAMES)]


# ---------------------------------------------------------------- signing


def near_misses() -> st.SearchStrategy[str]:
    """Names that folding, trimming, normalising or cutting would turn into the agent's."""
    extra = st.sampled_from([" ", ":", "-", "\u200b", "\u00a0", "\u0301", "\ufeff", "1"])
    places = st.integers(0, len(AGENT_CN))
    inserted = st.builds(lambda place, text: AGENT_CN[:place] + text + AGENT_CN[place:], places, extra)
    look_alikes = {"a": "а", "c": "ⅽ", "e": "е", "1": "１", ":": "：", "s": "ſ", "o": "ｏ"}  # noqa: RUF001 - the point
    folded = st.sampled_from(sorted(look_alikes)).map(lambda letter: AGENT_CN.replace(letter, look_alikes[letter], 1))
    cased = places.map(lambda place: AGENT_CN[:place] + AGENT_CN[place:].upper())
    cut = st.integers(1, len(AGENT_CN) - 1).map(lambda length: AGENT_CN[:length])
    return st.one_of(inserted, folded, cased, cut).filter(lambda other: other != AGENT_CN)


@pytest.mark.contract("W24")
class TestSigning:
    def test_the_certificate_carries_what_was_asked_and_nothing_else(self, authority: ca.Authority) -> None:
        leaf = sign(authority, csr(alternative=[x509.DNSName("evil.example.com")]))
        usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
        assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
        purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
        own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        above = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert above.key_identifier == own.digest
        with pytest.raises(x509.ExtensionNotFound):  # K12: an agent has no alternative names
            leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)

    def test_it_begins_five_minutes_ago_and_ends_as_asked(self, authority: ca.Authority) -> None:
        leaf = sign(authority, csr(), lifetime=DAY)
        assert leaf.not_valid_before_utc == NOW - timedelta(minutes=5)
        assert leaf.not_valid_after_utc == NOW + DAY

    def test_it_does_not_outlive_the_authority(self, authority: ca.Authority) -> None:
        leaf = sign(authority, csr(), lifetime=100 * YEAR)
        assert leaf.not_valid_after_utc == authority.certificate.not_valid_after_utc

    def test_serial_numbers_have_128_bits_and_differ(self, authority: ca.Authority) -> None:
        serials = {sign(authority, csr()).serial_number for _ in range(5)}
        assert len(serials) == 5
        assert {serial.bit_length() for serial in serials} == {128}

    def test_one_set_of_groups_with_mixed_string_types_is_copied_as_encoded(self, authority: ca.Authority) -> None:
        """Go puts all organizations into one set; agents of other languages choose other string types."""
        groups = x509.RelativeDistinguishedName(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENT_O[1], _type=_ASN1Type.PrintableString),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, AGENT_O[0], _type=_ASN1Type.UTF8String),
            ]
        )
        common = x509.NameAttribute(NameOID.COMMON_NAME, AGENT_CN, _type=_ASN1Type.PrintableString)
        subject = x509.Name([groups, x509.RelativeDistinguishedName([common])])
        leaf = sign(authority, csr(subject))
        assert leaf.subject.public_bytes() == subject.public_bytes()
        assert set(ca.parse_certificate(pem(leaf)).organizations) == set(AGENT_O)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        common_name=st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"]), min_size=1, max_size=120),
        groups=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=80), max_size=6),
        units=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20), max_size=2),
    )
    def test_every_subject_is_copied_byte_for_byte_and_in_order(
        self, authority: ca.Authority, common_name: str, groups: list[str], units: list[str]
    ) -> None:
        subject = name(
            *((NameOID.ORGANIZATION_NAME, group) for group in groups),
            *((NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units),
            (NameOID.COMMON_NAME, common_name),
        )
        request = csr(subject)
        asked, leaf = ca.parse_request(request), sign(authority, request)
        assert leaf.subject.public_bytes() == subject.public_bytes()
        got = ca.parse_certificate(pem(leaf))
        assert got.common_name == asked.common_name == common_name
        assert got.organizations == asked.organizations == tuple(groups)
        assert asked.organizational_units == tuple(units)
        assert got.key_fingerprint == asked.key_fingerprint

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(near_misses())
    def test_a_near_miss_of_a_name_stays_another_name(self, authority: ca.Authority, other: str) -> None:
        leaf = sign(authority, csr(agent_subject(other, organizations=(other,))))
        found, _ = ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)
        assert found.common_name == other != AGENT_CN
        assert found.organizations == (other,)

    @pytest.mark.parametrize(
        ("usages", "text"),
        [
            (("digital signature",), "client auth"),
            ((), "client auth"),
            ((*USAGES, "server auth"), "server auth"),
            ((*USAGES, "cert sign"), "cert sign"),
            ((*USAGES, "any"), "any"),
        ],
    )
    @pytest.mark.contract("K12")
    def test_other_usages_are_not_signed(self, authority: ca.Authority, usages: tuple[str, ...], text: str) -> None:
        with pytest.raises(ValueError, match=text):
            authority.sign_client(csr(), usages=usages, lifetime=DAY, now=NOW)

    def test_system_masters_is_not_signed(self, authority: ca.Authority) -> None:
        with pytest.raises(ValueError, match="system:masters"):
            sign(authority, csr(agent_subject(organizations=(*AGENT_O, "system:masters"))))

    def test_a_request_without_a_name_is_not_signed(self, authority: ca.Authority) -> None:
        with pytest.raises(ValueError, match="no common name"):
            sign(authority, csr(name((NameOID.ORGANIZATION_NAME, "o"))))

    def test_a_request_that_its_key_did_not_sign_is_not_signed(self, authority: ca.Authority) -> None:
        forged = forge_signature(csr())
        assert ca.parse_request(forged).signature_valid is False
        with pytest.raises(ValueError, match="not signed by the key"):
            sign(authority, forged)

    def test_a_short_key_is_not_signed(self, authority: ca.Authority) -> None:
        with pytest.raises(ValueError, match="RSA 1024"):
            sign(authority, csr(key=rsa.generate_private_key(65537, 1024)))  # noqa: S505 - that it is weak is the point

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            (KEY, "ECDSA P-256"),
            (ec.generate_private_key(ec.SECP384R1()), "ECDSA P-384"),
            (rsa.generate_private_key(65537, 2048), "RSA 2048"),
            (ed25519.Ed25519PrivateKey.generate(), "Ed25519"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_usual_keys_are_signed_and_named(
        self,
        authority: ca.Authority,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey,
        text: str,
    ) -> None:
        request = csr(key=key)
        assert ca.parse_request(request).key_text == text
        leaf = sign(authority, request)
        assert leaf.public_key() == key.public_key()
        assert ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)[1] == "hub"

    def test_a_lifetime_that_is_over_is_refused(self, authority: ca.Authority) -> None:
        with pytest.raises(ValueError, match="lifetime"):
            sign(authority, csr(), lifetime=-DAY)

    def test_a_person_gets_a_certificate_with_its_key(self, authority: ca.Authority) -> None:
        chain, key = authority.issue_client("ana", ["devs", "system:masters"], DAY, NOW)
        found, issuer = ca.trusted_client(der(chain), ca.Roots(authority.ca_pem), now=NOW)
        assert (found.common_name, found.organizations, issuer) == ("ana", ("devs", "system:masters"), "hub")
        private = serialization.load_pem_private_key(key, None)
        assert private.public_key() == x509.load_pem_x509_certificate(chain).public_key()

    @pytest.mark.parametrize("common_name", ["", "x" * 65, "a\0b", "a\nb"])
    def test_a_name_that_x509_cannot_carry_is_refused(self, authority: ca.Authority, common_name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            authority.issue_client(common_name, [], DAY, NOW)


def forge_signature(request: bytes) -> bytes:
    """Another key over the same subject: the last bytes of the DER are the signature."""
    body = bytearray(x509.load_pem_x509_csr(request).public_bytes(serialization.Encoding.DER))
    body[-1] ^= 1
    return x509.load_der_x509_csr(bytes(body)).public_bytes(serialization.Encoding.PEM)


# ---------------------------------------------------------------- reading requests

WHOLE = x509.load_pem_x509_csr(csr(alternative=[x509.DNSName("a")])).public_bytes(serialization.Encoding.DER)


@pytest.mark.contract("W23", "H35")
class TestReading:
    def test_all_that_is_asked_is_reported(self) -> None:
        request = ca.parse_request(
            csr(
                name(
                    (NameOID.COUNTRY_NAME, "DE"),
                    (NameOID.ORGANIZATION_NAME, "o2"),
                    (NameOID.ORGANIZATION_NAME, "o1"),
                    (NameOID.ORGANIZATIONAL_UNIT_NAME, "u"),
                    (NameOID.COMMON_NAME, "cn"),
                ),
                alternative=[
                    x509.DNSName("a.example.com"),
                    x509.IPAddress(ip_address("10.0.0.1")),
                    x509.RFC822Name("a@example.com"),
                    x509.UniformResourceIdentifier("spiffe://x"),
                    x509.RegisteredID(x509.ObjectIdentifier("1.2.3")),
                ],
            )
        )
        assert (request.common_name, request.organizations, request.organizational_units) == (
            "cn",
            ("o2", "o1"),
            ("u",),
        )
        assert request.has_other_attributes
        assert request.dns_names == ("a.example.com",)
        assert request.ip_addresses == ("10.0.0.1",)
        assert request.emails == ("a@example.com",)
        assert request.uris == ("spiffe://x",)
        assert len(request.alternative_names) == 5
        assert request.signature_valid

    def test_an_agents_request_holds_nothing_else(self) -> None:
        request = ca.parse_request(csr())
        assert not request.has_other_attributes
        assert not request.alternative_names
        assert request.key_fingerprint.startswith("SHA256:")

    def test_the_fingerprint_is_of_the_public_key(self) -> None:
        assert ca.parse_request(csr()).key_fingerprint == ca.parse_request(csr(agent_subject("else"))).key_fingerprint

    def test_the_long_name_of_an_agent_is_read(self) -> None:
        long = f"system:open-cluster-management:{'c' * 63}:{'a' * 20}"
        assert ca.parse_request(csr(agent_subject(long))).common_name == long

    def test_a_second_common_name_is_reported(self) -> None:
        twice = name((NameOID.COMMON_NAME, "first"), (NameOID.COMMON_NAME, "last"))
        request = ca.parse_request(csr(twice))
        assert (request.common_name, request.has_other_attributes) == ("last", True)

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"nonsense",
            b"-----BEGIN CERTIFICATE REQUEST-----",
            csr().replace(b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST"),
            csr().replace(b"CERTIFICATE REQUEST", b"CERTIFICATE"),
            b"-----BEGIN FOO-----\nAAAA\n-----END FOO-----\n" + csr(),
        ],
    )
    def test_what_is_no_request_is_refused_in_kubernetes_words(self, text: bytes) -> None:
        with pytest.raises(ValueError, match=r"\APEM block type must be CERTIFICATE REQUEST\Z"):
            ca.parse_request(text)

    def test_only_the_first_block_is_read_and_signed(self, authority: ca.Authority) -> None:
        two = csr(agent_subject("first")) + csr(agent_subject("second"))
        assert ca.parse_request(two).common_name == "first"
        assert ca.parse_certificate(pem(sign(authority, two))).common_name == "first"

    def test_text_around_the_block_is_ignored(self) -> None:
        assert ca.parse_request(b"hello\n" + csr() + b"bye").common_name == AGENT_CN

    def test_a_huge_request_is_refused(self) -> None:
        with pytest.raises(ValueError, match="65536"):
            ca.parse_request(csr() + b" " * 70_000)

    @pytest.mark.parametrize("common_name", ["system:open-cluster-management:c1:a\0", "a\nb", "a\x7f"])
    def test_control_characters_in_a_name_are_refused(self, common_name: str) -> None:
        with pytest.raises(ValueError, match="control characters"):
            ca.parse_request(csr(agent_subject(common_name)))

    @settings(max_examples=300, deadline=None)
    @given(st.data())
    def test_damaged_requests_are_a_value_error_or_read(self, data: st.DataObject) -> None:
        body = bytearray(WHOLE)
        for _ in range(data.draw(st.integers(1, 4))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        expect_value_error_only(wrapped(bytes(body[: data.draw(st.integers(0, len(body)))] or body)))
        expect_value_error_only(wrapped(bytes(body)))

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=200))
    def test_arbitrary_bytes_are_a_value_error(self, content: bytes) -> None:
        for text in (content, wrapped(content)):
            with pytest.raises(ValueError, match=r"PEM block|cannot be read"):
                ca.parse_request(text)
            with pytest.raises(ValueError, match="cannot be read"):
                ca.parse_certificate(text)

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_damaged_certificates_are_a_value_error_or_read(self, authority_der: bytes, data: st.DataObject) -> None:
        body = bytearray(authority_der)
        for _ in range(data.draw(st.integers(1, 4))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        with suppress(ValueError):
            ca.parse_certificate(bytes(body))


@pytest.fixture(scope="module")
def authority_der(authority: ca.Authority) -> bytes:
    return der(authority.sign_client(csr(), usages=USAGES, lifetime=DAY, now=NOW))


def wrapped(content: bytes) -> bytes:
    text = base64.encodebytes(content)
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + text + b"-----END CERTIFICATE REQUEST-----\n"


def expect_value_error_only(text: bytes) -> None:
    with suppress(ValueError):
        ca.parse_request(text)


# ---------------------------------------------------------------- trust


CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)


@pytest.mark.contract("W21", "W30")
class TestTrust:
    def test_the_hubs_certificate_speaks_for_cn_and_every_o_in_order(self, authority: ca.Authority) -> None:
        leaf = sign(authority, csr(agent_subject(organizations=("z", "a", "m"))))
        found, issuer = ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)
        assert (found.common_name, found.organizations, issuer) == (AGENT_CN, ("z", "a", "m"), "hub")
        assert found.client_auth
        assert len(found.fingerprint) == 64
        assert int(found.serial, 16) == leaf.serial_number

    @pytest.mark.parametrize("later", [-DAY, 2 * DAY])
    def test_outside_its_dates_a_certificate_is_not_trusted(self, authority: ca.Authority, later: timedelta) -> None:
        leaf = sign(authority, csr(), lifetime=DAY)
        with pytest.raises(ValueError, match="not valid at this time"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW + later)

    def test_the_serving_certificate_is_no_client(self, home: Path, authority: ca.Authority) -> None:
        with pytest.raises(ValueError, match="client authentication"):
            ca.trusted_client(der((home / "serving.crt").read_bytes()), ca.Roots(authority.ca_pem), now=NOW)

    def test_a_ca_with_the_hubs_name_and_another_key_is_not_the_hub(self, authority: ca.Authority) -> None:
        own = authority.certificate.subject
        impostor = certificate(own, own, signer=KEY, is_ca=True)
        leaf = certificate(agent_subject(), own, signer=KEY, purposes=CLIENT)
        with pytest.raises(ValueError, match="not signed by a CA"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)
        assert ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem, pem(impostor)), now=NOW)[1] == "other"

    def test_what_was_found_before_spares_openssl_and_no_signature_and_no_date(self, authority: ca.Authority) -> None:
        leaf, roots = der(pem(sign(authority, csr(), lifetime=DAY))), ca.Roots(authority.ca_pem)
        found = ca.trusted_client(leaf, roots, now=NOW)
        before = found[0].authority
        assert ca.trusted_client(leaf, roots, now=NOW, checked_under=before) == found
        own = authority.certificate.subject
        forged = der(pem(certificate(agent_subject(), own, signer=KEY, purposes=CLIENT)))
        with pytest.raises(ValueError, match="not signed by a CA"):
            ca.trusted_client(forged, roots, now=NOW, checked_under=before)
        with pytest.raises(ValueError, match="not valid at this time"):
            ca.trusted_client(leaf, roots, now=NOW + 2 * DAY, checked_under=before)

    @pytest.mark.parametrize(("forbids", "identifier", "refers"), [(True, KEY, KEY), (False, KEY, OTHER_KEY), (False, KEY, None)])  # fmt: skip
    def test_an_anchor_that_may_say_more_than_its_key_is_asked_about_by_openssl(
        self, forbids: bool, identifier: Any, refers: Any
    ) -> None:
        """Another certificate of the same key: one that forbids the name, one of another identifier, a plain one."""
        own = name((NameOID.COMMON_NAME, "org"))
        extensions: list[x509.ExtensionType] = [x509.SubjectKeyIdentifier.from_public_key(identifier.public_key())]
        if forbids:
            names = [x509.DirectoryName(name((NameOID.COMMON_NAME, "else")))]
            extensions.append(x509.NameConstraints(names, None))
        anchor = certificate(own, own, signer=KEY, is_ca=True, others=extensions)
        points = x509.AuthorityKeyIdentifier.from_issuer_public_key(refers.public_key()) if refers else None
        leaf = certificate(agent_subject(), own, signer=KEY, purposes=CLIENT, others=[points] if points else [])
        under, roots = fingerprint_of(KEY.public_key()), ca.Roots(pem(anchor))
        if refers is None:
            assert ca.trusted_client(der(pem(leaf)), roots, now=NOW, checked_under=under)[1] == "hub"
            return
        for checked_under in ("", under):
            with pytest.raises(ValueError, match="not acceptable"):
                ca.trusted_client(der(pem(leaf)), roots, now=NOW, checked_under=checked_under)

    def test_the_root_above_the_hubs_own_intermediate_vouches_for_nobody(self, tmp_path: Path) -> None:
        organisation = Organisation()
        organisation.place(tmp_path)
        authority = ca.ensure_authority(tmp_path, NAMES, now=NOW)
        subject = agent_subject(organizations=("system:masters",))
        leaf = certificate(subject, organisation.root.subject, signer=organisation.root_key, purposes=CLIENT)
        with pytest.raises(ValueError, match="not signed by a CA"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)

    def test_a_certificate_cannot_be_used_as_a_ca(self, authority: ca.Authority) -> None:
        middle = sign(authority, csr())
        leaf = certificate(agent_subject("deeper"), middle.subject, signer=KEY, purposes=CLIENT)
        with pytest.raises(ValueError, match="not signed by a CA"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem), now=NOW)
        with pytest.raises(ValueError, match="is not a CA"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem, pem(middle)), now=NOW)

    def test_an_expired_ca_vouches_for_nobody(self, authority: ca.Authority) -> None:
        own = name((NameOID.COMMON_NAME, "old"))
        old = certificate(own, own, signer=KEY, is_ca=True, until=NOW - timedelta(hours=1))
        leaf = certificate(agent_subject(), own, signer=KEY, purposes=CLIENT)
        with pytest.raises(ValueError, match="not signed by a CA"):
            ca.trusted_client(der(pem(leaf)), ca.Roots(authority.ca_pem, pem(old)), now=NOW)

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.binary(max_size=100))
    def test_bytes_that_are_no_certificate_are_a_value_error(self, authority: ca.Authority, content: bytes) -> None:
        with pytest.raises(ValueError, match="cannot be read"):
            ca.trusted_client(content, ca.Roots(authority.ca_pem), now=NOW)
