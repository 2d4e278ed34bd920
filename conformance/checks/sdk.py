"""The official Python SDK as a client: an independent reader of what the agent writes.

Imported only by the check that needs it: the SDK is optional and slow to import.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import acp
from acp import schema
from acp.exceptions import RequestError

from conformance.checks.context import Context
from conformance.checks.profile import AUTH_REQUIRED
from conformance.checks.verdict import NotApplicable, fail


class Reader:
    """A client for the SDK: it allows everything and remembers the text it was shown."""

    def __init__(self) -> None:
        self.text = ""

    def on_connect(self, _agent: Any) -> None:
        """The SDK introduces the agent; there is nothing to ask it back."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, schema.AgentMessageChunk):
            self.text += getattr(update.content, "text", "")

    async def request_permission(self, options: list[Any], **_: Any) -> Any:
        outcome = schema.AllowedOutcome(option_id=options[0].option_id, outcome="selected")
        return schema.RequestPermissionResponse(outcome=outcome)


async def converse(ctx: Context) -> tuple[str, str]:
    """The stop reason and the text of one prompt. Raises ``TimeoutError``."""
    reader: Any = Reader()
    program, *arguments = ctx.command
    process = acp.spawn_agent_process(
        reader, program, *arguments, env=ctx.environment(), cwd=ctx.start
    )
    stop = ""
    try:
        # The SDK ends the process in a way that can fail if it has just ended by itself.
        with suppress(ProcessLookupError):
            async with asyncio.timeout(ctx.timeout), process as (agent, _process):
                await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
                session = await agent.new_session(cwd=str(ctx.cwd), mcp_servers=[])
                prompt: list[Any] = [acp.text_block("@begin\n@say from the sdk")]
                response = await agent.prompt(prompt=prompt, session_id=session.session_id)
                stop = str(response.stop_reason)
    except RequestError as error:
        if error.code == AUTH_REQUIRED:
            raise NotApplicable("the agent wants a login first") from None
        fail(f"the agent answered the SDK's client with the error {error.code}: {error}")
    return stop, reader.text
