"""Texts that the database holds encrypted: they come back whole, to whom they belong, with any key that is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ocmconsole.environment.encryption_keys import NAME, KeyFile
from ocmconsole.kubeapi.encryption import stored_text

identities = st.tuples(st.integers(0, 2**63), st.text(max_size=20), st.text(max_size=20))


@pytest.fixture(autouse=True, scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyFile]:
    before = list(stored_text._sources)
    source = KeyFile(tmp_path_factory.mktemp("home"))
    source.make_first()
    stored_text.use(source)
    yield source
    stored_text._sources[:] = before


@given(text=st.text(st.characters(exclude_categories=["Cs"])), whose=identities)
def test_a_text_comes_back_and_is_not_to_be_seen(text: str, whose: tuple[int, str, str]) -> None:
    stored = stored_text.encrypt(text, *whose)
    assert stored_text.decrypt(stored, *whose) == text
    assert stored != stored_text.encrypt(text, *whose), "equal texts are not to be known as equal"
    assert stored_text.key_of(stored) == stored_text.newest().id
    assert stored.isascii()


@given(whose=identities, other=identities)
def test_a_text_in_the_place_of_another_is_refused(whose: tuple[int, str, str], other: tuple[int, str, str]) -> None:
    assume(whose != other)
    with pytest.raises(stored_text.Unreadable, match="was changed there, or put there from elsewhere"):
        stored_text.decrypt(stored_text.encrypt("{}", *whose), *other)


@given(whose=identities, where=st.integers(0, 200), what=st.characters(codec="ascii"))
def test_a_changed_text_is_refused(whose: tuple[int, str, str], where: int, what: str) -> None:
    stored = stored_text.encrypt("a secret", *whose)
    start = len(stored_text.PREFIX)
    where = start + where % (len(stored) - start)
    assume(stored[where] != what)
    with pytest.raises(stored_text.Unreadable):
        stored_text.decrypt(stored[:where] + what + stored[where + 1 :], *whose)


@pytest.mark.parametrize("text", ["", "{}", '{"metadata":{}}', "JBSWY3DPEHPK3PXP"])
def test_what_is_not_encrypted_is_taken_as_it_is(text: str) -> None:
    assert stored_text.decrypt(text, 1, "ns", "name") == text


def test_all_keys_decrypt_and_the_newest_encrypts(keys: KeyFile) -> None:
    old = stored_text.encrypt("first", 1)
    keys.add()
    new = stored_text.encrypt("second", 1)
    assert stored_text.key_of(old) != stored_text.key_of(new)
    assert [stored_text.decrypt(each, 1) for each in (old, new)] == ["first", "second"]
    keys.forget([stored_text.key_of(old)])
    assert stored_text.decrypt(new, 1) == "second"
    with pytest.raises(stored_text.Unreadable, match="is missing in the hub's home"):
        stored_text.decrypt(old, 1)


def test_a_key_file_is_for_its_owner_and_made_once(tmp_path: Path) -> None:
    source = KeyFile(tmp_path)
    assert source.keys() == ()
    source.make_first()
    content = (tmp_path / NAME).read_bytes()
    source.make_first()
    assert (tmp_path / NAME).read_bytes() == content
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert content.split()[1].decode() not in repr(source.keys())


def test_a_file_that_goes_is_not_forgotten_and_a_damaged_one_is_one_sentence(tmp_path: Path) -> None:
    source = KeyFile(tmp_path)
    source.make_first()
    known = source.keys()
    (tmp_path / NAME).rename(tmp_path / "away")
    assert source.keys() == known
    for content in (b"", b"nonsense\n", b"abcd1234 AAAA 2026-01-01T00:00:00Z\n", b"\xff\xfe"):
        (tmp_path / NAME).write_bytes(content)
        with pytest.raises(stored_text.Unreadable, match="is damaged: put it back"):
            source.keys()
    (tmp_path / NAME).unlink()
    (tmp_path / "away").rename(tmp_path / NAME)
    again = source.keys()
    assert [key.id for key in again] == [key.id for key in known]
