"""``acp-harness login`` and ``logout``: keep a provider's key, or forget all of them.

The login flow that a client opens in a terminal (V1-AUTH-06): it asks, checks that something was
given, stores it, and exits with 0; aborted, it exits with 1 and nothing is stored.
"""

from __future__ import annotations

import getpass
import os
import sys

from harness_core.config import user_file
from harness_core.credentials import CredentialError, entered, store, vault

VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The built-in providers and the variables that hold their keys."""


def login(provider: str | None) -> int:
    """Ask for a key and store it; returns the exit status."""
    try:
        variable = _variable(provider or _ask_provider())
        key = entered(getpass.getpass(f"Key for {variable} (not shown): ", sys.stderr))
        store(vault(user_file(os.environ).parent), variable, key)
    except (EOFError, KeyboardInterrupt):
        return _say("\nAborted; nothing is stored.", 1)
    except CredentialError as failure:
        return _say(f"Not stored: {failure}", 1)
    return _say(f"Stored. A {variable} in the environment would win over it.", 0)


def logout() -> int:
    """Forget every stored key; returns the exit status."""
    try:
        vault(user_file(os.environ).parent).write(None)
    except CredentialError as failure:
        return _say(f"Not forgotten: {failure}", 1)
    return _say("All stored keys are forgotten.", 0)


def _ask_provider() -> str:
    print(f"Provider ({', '.join(VARIABLES)}, or a variable's name): ", end="", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    return input().strip() or "openai"


def _variable(provider: str) -> str:
    return VARIABLES.get(provider.lower(), provider)


def _say(text: str, status: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201
    return status
