"""Signing in where the client opens pages: the key goes from the user's browser to the vault.

It never passes through the protocol, nor through anything that a model sees (V1-ELIC-06, -15). The
page belongs to the ``authenticate`` that is being served, and is gone when that is answered. Loaded
when somebody signs in.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp_server.key_page import Keep, KeyPage
from harness_core.person import Answer, Person, Unanswered, Unasked

PATIENCE = 600
"""Seconds that the user has, to find a key and to enter it."""


class NotSignedIn(Exception):
    """There is no key. The message says why."""


async def sign_in(variable: str, keep: Keep, person: Person, patience: float = PATIENCE) -> None:
    """Have the key of ``variable`` entered and kept. Raises ``NotSignedIn``."""
    try:
        async with KeyPage(variable, keep) as page, asyncio.timeout(patience):
            kept = await _entered(page, person)
    except TimeoutError:
        raise NotSignedIn(f"no key was entered within {patience / 60:.0f} minutes") from None
    except OSError as failure:
        raise NotSignedIn(f"no page can be shown for it: {failure}") from None
    if not kept:
        raise NotSignedIn("signing in was cancelled on its page")


async def _entered(page: KeyPage, person: Person) -> bool:
    """Send the person to the page; whether there is a key when they are done with it."""
    id = uuid4().hex
    message = (
        f"To sign in, enter the key for {page.variable} on a page that the agent shows on this "
        "machine. It does not pass through the editor."
    )
    visit = asyncio.ensure_future(person.visit(id, message, page.url, None))
    try:
        either: set[asyncio.Future[Any]] = {visit, page.outcome}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not page.outcome.done():
            _require_consent(visit)
        kept = await page.outcome
    finally:
        visit.cancel()
        await asyncio.gather(visit, return_exceptions=True)
    if kept:
        person.visited(id)
    return kept


def _require_consent(visit: asyncio.Future[Answer]) -> None:
    """Agreeing to open the page is not the end of it (V1-ELIC-10); anything else is."""
    try:
        action = visit.result().action
    except (Unasked, Unanswered) as failure:
        raise NotSignedIn(f"no key was entered, since {failure}") from None
    if action != "accept":
        raise NotSignedIn(
            "signing in was declined" if action == "decline" else "signing in was dismissed"
        )
