"""Stored keys: below the environment, private, never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness_core.credentials import (
    CredentialError,
    FileVault,
    KeyringVault,
    entered,
    environment,
    load,
    store,
)


def test_a_stored_key_is_found_and_a_set_variable_wins(tmp_path: Path) -> None:
    vault = FileVault(tmp_path / "deep" / "credentials.json")
    assert environment(vault, {"A": "1"}) == {"A": "1"}
    store(vault, "A", "stored")
    store(vault, "B", "stored too")
    assert environment(vault, {"A": "1"}) == {"A": "1", "B": "stored too"}
    assert stat.S_IMODE(vault.path.stat().st_mode) == 0o600


def test_nothing_is_left_after_forgetting(tmp_path: Path) -> None:
    vault = FileVault(tmp_path / "credentials.json")
    vault.write(None)
    store(vault, "A", "x")
    vault.write(None)
    assert load(vault) == {}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["{", "[]", '{"A": 1}'])
def test_damage_is_said_without_saying_what_was_there(tmp_path: Path, text: str) -> None:
    vault = FileVault(tmp_path / "credentials.json")
    vault.path.write_text(text)
    with pytest.raises(CredentialError, match="damaged: log in again"):
        load(vault)
    store(vault, "B", "new")
    assert load(vault) == {"B": "new"}


def test_what_is_entered_is_a_key_or_nothing() -> None:
    assert entered("  sk-1_2/3\n") == "sk-1_2/3"
    for nothing in ("", " \n", "two words", "sk-\x00", "schlüssel"):
        with pytest.raises(CredentialError) as failure:
            entered(nothing)
        assert not nothing.strip() or nothing not in str(failure.value)


class Ring:
    """A keyring in memory, which can be out of order."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service: str, entry: str) -> str | None:
        if self.broken:
            raise RuntimeError("secret details")
        return self.kept.get((service, entry))

    def set_password(self, service: str, entry: str, text: str) -> None:
        if self.broken:
            raise RuntimeError("secret details")
        self.kept[service, entry] = text

    def delete_password(self, service: str, entry: str) -> None:
        del self.kept[service, entry]


def test_a_keyring_keeps_and_forgets() -> None:
    ring = Ring()
    vault = KeyringVault(ring)
    store(vault, "A", "x")
    assert load(vault) == {"A": "x"}
    vault.write(None)
    vault.write(None)
    assert ring.kept == {}


def test_a_broken_keyring_is_told_without_its_words() -> None:
    ring = Ring()
    ring.broken = True
    for use in (load, lambda vault: vault.write("x")):
        with pytest.raises(CredentialError, match="RuntimeError") as failure:
            use(KeyringVault(ring))
        assert "secret" not in str(failure.value)
