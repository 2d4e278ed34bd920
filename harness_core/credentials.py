"""Keys that a user has stored: variables below the environment, in the keyring or a private file.

    {"OPENAI_API_KEY": "…"}

A variable that is really set wins over a stored one. The keyring is used where the ``keyring``
package is installed and has somewhere to keep a secret; else a file that only its owner can read.
Nothing here ever prints a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from harness_core.private import write_private

SERVICE = "acp-harness"
ENTRY = "credentials"


class CredentialError(Exception):
    """Stored keys cannot be read or written. The message says where and why, never what."""


class Vault(Protocol):
    """Where the one secret text is kept."""

    def read(self) -> str | None:
        """The text, ``None`` if there is none. Raises ``CredentialError``."""
        ...

    def write(self, text: str | None) -> None:
        """Keep a text, or remove it. Raises ``CredentialError``."""
        ...


class FileVault:
    """A file with mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """The file's text."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as failure:
            raise CredentialError(f"{self.path} cannot be read: {failure}") from None

    def write(self, text: str | None) -> None:
        """Replace the file, or remove it."""
        try:
            if text is None:
                self.path.unlink(missing_ok=True)
            else:
                write_private(self.path, text.encode())
        except OSError as failure:
            raise CredentialError(f"{self.path} cannot be written: {failure}") from None


class KeyringVault:
    """The platform's keyring, through the ``keyring`` package."""

    def __init__(self, keyring: Any) -> None:
        self._keyring = keyring

    def read(self) -> str | None:
        """The entry's text."""
        try:
            text: str | None = self._keyring.get_password(SERVICE, ENTRY)
        except Exception as failure:
            raise CredentialError(f"the keyring gave nothing: {type(failure).__name__}") from None
        return text

    def write(self, text: str | None) -> None:
        """Replace the entry, or remove it."""
        try:
            if text is not None:
                self._keyring.set_password(SERVICE, ENTRY, text)
            elif self._keyring.get_password(SERVICE, ENTRY) is not None:
                self._keyring.delete_password(SERVICE, ENTRY)
        except Exception as failure:
            raise CredentialError(f"the keyring took nothing: {type(failure).__name__}") from None


def vault(config: Path) -> Vault:
    """The keyring if there is a usable one, else a file beside the user's settings."""
    try:
        import keyring

        if keyring.get_keyring().priority >= 1:
            return KeyringVault(keyring)
    except Exception:  # not installed, or it has no place to keep anything
        pass
    return FileVault(config / "credentials.json")


def load(vault: Vault) -> dict[str, str]:
    """The stored variables. Raises ``CredentialError``."""
    text = vault.read()
    if text is None:
        return {}
    try:
        data = orjson.loads(text)
    except ValueError:
        raise CredentialError("the stored keys are damaged: log in again") from None
    if not isinstance(data, dict) or not all(isinstance(v, str) for v in data.values()):
        raise CredentialError("the stored keys are damaged: log in again")
    return dict(data)


def entered(text: str) -> str:
    """The key that somebody has typed or pasted. Raises ``CredentialError`` for what is none."""
    key = text.strip()
    if not key:
        raise CredentialError("no key was given")
    if not all("!" <= character <= "~" for character in key):
        raise CredentialError("a key has no blanks and no characters beyond ASCII")
    return key


def store(vault: Vault, variable: str, key: str) -> None:
    """Keep a key under a variable's name. Raises ``CredentialError``."""
    try:
        known = load(vault)
    except CredentialError:
        known = {}
    vault.write(orjson.dumps({**known, variable: key}).decode())


def environment(vault: Vault, env: Mapping[str, str]) -> dict[str, str]:
    """``env`` over the stored variables. Raises ``CredentialError``."""
    return {**load(vault), **env}
