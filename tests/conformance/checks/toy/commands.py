"""What can be said with a slash."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from toy.mutation import broken

if TYPE_CHECKING:
    from toy.session import Session

COMMANDS = [
    {"name": "compact", "description": "Shorten the conversation."},
    {"name": "help", "description": "Say what can be done."},
]


async def compact(session: Session) -> None:
    """Forget everything but the last message."""
    id = str(uuid.uuid4())
    shown = (session.client.get("session") or {}).get("compaction") is not None

    def tell(status: str) -> None:
        if shown:
            update = {"sessionUpdate": "compaction_update", "compactionId": id, "status": status}
            session.tell(update)

    tell("in_progress")
    try:
        await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    session.messages = [{"role": "user", "content": "(an earlier conversation)"}]
    tell("completed")
    if broken("COMP-01"):
        tell("failed")
