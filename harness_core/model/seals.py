"""Reasoning that only its provider can read again, kept in ``Reasoning.signature``.

A session may change its model, so a seal says whose it is: another provider would refuse the whole
conversation for it. Anthropic's own signatures are base64 and stand as they are.
"""

from __future__ import annotations

RESPONSES = "responses"


def seal(provider: str, item: str, encrypted: str) -> str:
    """The seal of a Responses reasoning item."""
    return ":".join((RESPONSES, provider, item, encrypted))


def unseal(signature: str | None, provider: str) -> tuple[str, str] | None:
    """The id and the encrypted content of a reasoning item, if ``provider`` sealed it."""
    parts = (signature or "").split(":", 3)
    if len(parts) != 4 or parts[:2] != [RESPONSES, provider]:
        return None
    return parts[2], parts[3]


def is_own(signature: str | None) -> bool:
    """Whether a signature is one of Anthropic's own."""
    return bool(signature) and not str(signature).startswith(f"{RESPONSES}:")
