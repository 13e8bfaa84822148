"""Service-account tokens and bootstrap tokens."""

from __future__ import annotations

import base64
import binascii
import json
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.core.tokens import token_formats

NOW = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
ACCOUNT: dict[str, Any] = {"namespace": "open-cluster-management", "name": "agent-registration-bootstrap", "uid": "u-1"}
KEY = token_formats.SigningKey(ec.generate_private_key(ec.SECP256R1()), "kid-1")


def token(**changes: Any) -> str:
    return token_formats.issue_token(KEY, **{**ACCOUNT, "lifetime": HOUR, "now": NOW, **changes})[0]


def payload_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(text, options={"verify_signature": False})
    return found


def signed(payload: dict[str, Any], *, key: token_formats.SigningKey = KEY, **header: Any) -> str:
    return jwt.encode(payload, key.private, algorithm="ES256", headers={"kid": key.kid, **header})


# ---------------------------------------------------------------- the key


class TestKey:
    def test_it_is_made_once_for_its_owner_only(self, tmp_path: Path) -> None:
        first, second = token_formats.signing_key(tmp_path), token_formats.signing_key(tmp_path)
        assert first.kid == second.kid
        assert first.private.private_numbers() == second.private.private_numbers()
        assert stat.S_IMODE((tmp_path / "sa.key").stat().st_mode) == 0o600

    def test_two_homes_have_two_keys(self, tmp_path: Path) -> None:
        assert token_formats.signing_key(tmp_path / "a").kid != token_formats.signing_key(tmp_path / "b").kid

    @pytest.mark.parametrize("content", [b"", b"nonsense"])
    def test_a_broken_file_is_named(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "sa.key").write_bytes(content)
        with pytest.raises(ValueError, match=r"sa\.key"):
            token_formats.signing_key(tmp_path)

    def test_a_key_of_another_kind_is_named(self, tmp_path: Path) -> None:
        other = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (tmp_path / "sa.key").write_bytes(other)
        with pytest.raises(ValueError, match="P-256"):
            token_formats.signing_key(tmp_path)


# ---------------------------------------------------------------- service-account tokens


@pytest.mark.contract("W21", "W26")
class TestTokens:
    def test_the_claims_have_the_shape_of_the_reference(self) -> None:
        text, claims = token_formats.issue_token(KEY, **ACCOUNT, lifetime=HOUR, now=NOW)
        assert jwt.get_unverified_header(text) == {"alg": "ES256", "kid": "kid-1", "typ": "JWT"}
        assert payload_of(text) == {
            "iss": "https://kubernetes.default.svc",
            "sub": "system:serviceaccount:open-cluster-management:agent-registration-bootstrap",
            "aud": ["https://kubernetes.default.svc"],
            "iat": int(NOW.timestamp()),
            "nbf": int(NOW.timestamp()),
            "exp": int((NOW + HOUR).timestamp()),
            "jti": claims.jti,
            "kubernetes.io": {
                "namespace": "open-cluster-management",
                "serviceaccount": {"name": "agent-registration-bootstrap", "uid": "u-1"},
            },
        }

    def test_what_is_issued_is_read_again(self) -> None:
        text, claims = token_formats.issue_token(
            KEY, **ACCOUNT, lifetime=HOUR, now=NOW, audiences=("a", "b"), bound=("Secret", "s", "u-2")
        )
        assert token_formats.read_token(KEY, text, NOW, audience="b") == claims
        assert claims.user == "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
        assert claims.bound == ("Secret", "s", "u-2")

    def test_two_tokens_have_two_ids(self) -> None:
        assert payload_of(token())["jti"] != payload_of(token())["jti"]

    @pytest.mark.parametrize("later", [-timedelta(seconds=1), HOUR, 2 * HOUR])
    def test_outside_its_time_a_token_is_refused(self, later: timedelta) -> None:
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, token(), NOW + later)

    def test_to_its_last_second_a_token_is_read(self) -> None:
        assert token_formats.read_token(KEY, token(), NOW + HOUR - timedelta(seconds=1)).uid == "u-1"

    def test_a_token_for_another_audience_is_refused(self) -> None:
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, token(audiences=("vault",)), NOW)

    @pytest.mark.parametrize("kid", ["kid-1", "kid-2"])
    def test_a_token_of_another_key_is_refused(self, kid: str) -> None:
        other = token_formats.SigningKey(ec.generate_private_key(ec.SECP256R1()), kid)
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, signed(payload_of(token()), key=other), NOW)

    @pytest.mark.parametrize("algorithm", ["none", "HS256"])
    def test_another_algorithm_is_refused(self, algorithm: str) -> None:
        key = "" if algorithm == "none" else "a secret that is long enough for HS256"
        text = jwt.encode(payload_of(token()), key, algorithm=algorithm, headers={"kid": KEY.kid})
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, text, NOW)

    @pytest.mark.parametrize(
        "change",
        [
            {"iss": "https://elsewhere"},
            {"iss": None},
            {"aud": None},
            {"exp": None},
            {"exp": "tomorrow"},
            {"exp": 10**30},
            {"exp": True},
            {"nbf": None},
            {"iat": []},
            {"jti": ""},
            {"sub": "system:serviceaccount:default:admin"},
            {"sub": None},
            {"kubernetes.io": None},
            {"kubernetes.io": []},
            {"kubernetes.io": {"namespace": "x"}},
            {"kubernetes.io": {"namespace": "x", "serviceaccount": {"name": 1, "uid": "u"}}},
            {"kubernetes.io": {"namespace": "x", "serviceaccount": {"name": "n", "uid": "u"}, "pod": "p"}},
        ],
    )
    def test_claims_of_another_shape_are_refused(self, change: dict[str, Any]) -> None:
        payload = {name: value for name, value in {**payload_of(token()), **change}.items() if value is not None}
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, signed(payload), NOW)

    def test_a_namespace_with_a_colon_does_not_become_another_account(self) -> None:
        """``a:b`` and ``c`` spell the same user as ``a`` and ``b:c``; neither name can exist, the claims stay apart."""
        payload = payload_of(token(namespace="a:b", name="c"))
        claims = token_formats.read_token(KEY, signed(payload), NOW)
        assert (claims.namespace, claims.name) == ("a:b", "c")

    @given(st.text(max_size=60) | st.lists(st.text(max_size=20), min_size=3, max_size=3).map(".".join))
    def test_any_text_is_a_bad_token(self, text: str) -> None:
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, text, NOW)

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
    def test_any_header_is_a_bad_token(self, value: Any) -> None:
        def part(doc: Any) -> str:
            return base64.urlsafe_b64encode(json.dumps(doc).encode()).rstrip(b"=").decode()

        for header in (value, {"alg": value, "kid": KEY.kid}, {"alg": "ES256", "kid": value}):
            with pytest.raises(token_formats.BadToken):
                token_formats.read_token(KEY, f"{part(header)}.{part(payload_of(token()))}.AAAA", NOW)

    def test_a_deeply_nested_or_huge_token_is_a_bad_token(self) -> None:
        nested = base64.urlsafe_b64encode(b"[" * 9_000).decode()
        for text in (f"{nested}.e30.AAAA", "a" * 100_000, "\ud800.a.b"):
            with pytest.raises(token_formats.BadToken):
                token_formats.read_token(KEY, text, NOW)

    @given(st.data())
    def test_one_changed_character_spoils_a_token(self, data: st.DataObject) -> None:
        text = TOKEN
        place = data.draw(st.integers(0, len(text) - 1))
        other = data.draw(st.sampled_from(token_formats.ALPHABET).filter(lambda letter: letter != text[place]))
        changed = text[:place] + other + text[place + 1 :]
        with suppress(binascii.Error):  # two parts made one may have a length that base64 does not have
            if decoded(changed) == decoded(text):  # the spare bits of the last character of a part mean nothing
                return
        with pytest.raises(token_formats.BadToken):
            token_formats.read_token(KEY, changed, NOW)


TOKEN = token()


def decoded(text: str) -> list[bytes]:
    return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split(".")]


# ---------------------------------------------------------------- bootstrap tokens

TOKEN_ID, SECRET = "abc123", "0123456789abcdef"


def bootstrap_secret(**changes: str | None) -> dict[str, Any]:
    values = {
        "token-id": TOKEN_ID,
        "token-secret": SECRET,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:managedcluster",
        **changes,
    }
    return {
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"namespace": "kube-system", "name": f"bootstrap-token-{TOKEN_ID}"},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items() if value is not None},
    }


def groups_of(doc: dict[str, Any], *, token_id: str = TOKEN_ID, secret: str = SECRET) -> tuple[str, ...] | None:
    return token_formats.bootstrap_secret_matches(doc, token_id, secret, NOW)


@pytest.mark.contract("W21", "K4")
class TestBootstrapTokens:
    def test_new_tokens_have_the_form_of_kubernetes_and_differ(self) -> None:
        pairs = {token_formats.new_bootstrap_token() for _ in range(50)}
        assert len(pairs) == 50
        assert all(
            token_formats.split_bootstrap_token(f"{token_id}.{secret}") == (token_id, secret)
            for token_id, secret in pairs
        )

    @given(st.text() | st.from_regex(r"[a-z0-9]{5,7}\.[a-z0-9]{15,17}\n?"))
    def test_only_the_exact_form_is_split(self, text: str) -> None:
        found = token_formats.split_bootstrap_token(text)
        fits = (
            text.isascii()
            and len(text) == 23
            and text[6] == "."
            and text.replace(".", "", 1).isalnum()
            and text.islower()
        )
        if found is None:
            assert not fits or not text[:6].isalnum()
        else:
            assert ".".join(found) == text

    def test_a_kept_hash_fits_its_secret_only(self) -> None:
        kept = token_formats.hash_secret(SECRET)
        assert SECRET not in kept
        assert token_formats.secret_matches(SECRET, kept)
        assert not token_formats.secret_matches(SECRET[:-1] + "0", kept)
        assert not token_formats.secret_matches("\ud800", kept)

    def test_a_secret_gives_its_groups(self) -> None:
        assert groups_of(bootstrap_secret()) == ("system:bootstrappers", "system:bootstrappers:managedcluster")

    @pytest.mark.parametrize("groups", [None, ""])
    def test_without_further_groups_there_is_the_one(self, groups: str | None) -> None:
        assert groups_of(bootstrap_secret(**{"auth-extra-groups": groups})) == ("system:bootstrappers",)

    @pytest.mark.parametrize("expiration", ["2026-11-21T02:00:01Z", "2026-11-21T05:00:01+03:00"])
    def test_before_its_expiration_a_secret_is_good(self, expiration: str) -> None:
        assert groups_of(bootstrap_secret(expiration=expiration))

    @pytest.mark.parametrize(
        "change",
        [
            {"token-secret": "0123456789abcdee"},
            {"token-secret": ""},
            {"token-secret": None},
            {"token-id": "abc124"},
            {"token-id": None},
            {"usage-bootstrap-authentication": None},
            {"usage-bootstrap-authentication": "True"},
            {"expiration": "2026-11-21T02:00:00Z"},
            {"expiration": "2026-11-21T02:00:01"},
            {"expiration": "never"},
            {"expiration": ""},
            {"auth-extra-groups": "system:masters"},
            {"auth-extra-groups": "system:bootstrappers:a,system:masters"},
            {"auth-extra-groups": "system:bootstrappers:"},
            {"auth-extra-groups": "system:bootstrappers:a\n"},
        ],
    )
    def test_what_does_not_fit_gives_nothing(self, change: dict[str, str | None]) -> None:
        assert groups_of(bootstrap_secret(**change)) is None

    @pytest.mark.parametrize(
        "change",
        [
            {"type": "Opaque"},
            {"type": None},
            {"metadata": {"namespace": "default", "name": "bootstrap-token-abc123"}},
            {"metadata": {"namespace": "kube-system", "name": "bootstrap-token-abc124"}},
            {"metadata": {"namespace": "kube-system", "name": "bootstrap-token-abc123", "deletionTimestamp": "x"}},
            {"metadata": None},
            {"data": None},
            {"data": []},
        ],
    )
    def test_another_secret_gives_nothing(self, change: dict[str, Any]) -> None:
        assert groups_of({**bootstrap_secret(), **change}) is None

    def test_an_empty_secret_does_not_fit_an_empty_secret(self) -> None:
        assert groups_of(bootstrap_secret(**{"token-secret": ""}), secret="") is None

    @given(st.dictionaries(st.sampled_from(sorted(bootstrap_secret()["data"])), st.text() | st.none() | st.integers()))
    def test_damaged_data_gives_nothing_or_bootstrap_groups(self, damage: dict[str, Any]) -> None:
        doc = bootstrap_secret()
        doc["data"].update(damage)
        for group in groups_of(doc) or ():
            assert group == "system:bootstrappers" or group.startswith("system:bootstrappers:")

    @given(st.text(max_size=20))
    def test_no_other_secret_fits(self, secret: str) -> None:
        assert (groups_of(bootstrap_secret(), secret=secret) is not None) is (secret == SECRET)
