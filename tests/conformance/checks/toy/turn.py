"""One prompt on its way to its answer: model calls, tools, cancellation."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

from toy import model
from toy.commands import COMMANDS, compact
from toy.mutation import broken
from toy.peer import INTERNAL, INVALID_PARAMS, NO_ANSWER, Failure, Json, stubborn
from toy.permission import allowed
from toy.tools import BODIES, DESCRIPTIONS, KINDS, NEEDS_PERMISSION, ToolError

if TYPE_CHECKING:
    from toy.session import Session

BUDGET = 30
"""Model calls per turn."""
WINDOW = 128_000
CHUNK = 8_000


class Turn:
    """One prompt on its way to its answer."""

    def __init__(self, session: Session, params: Json, request: Any) -> None:
        self.session = session
        self.request = request
        """The id of the prompt request."""
        self.over = asyncio.Event()
        self.blocks = params["prompt"]
        meta = params.get("_meta")
        self.trace = str(meta.get("traceparent", "")) if isinstance(meta, dict) else ""
        if broken("RPC-10") and self.trace:
            self.trace = "not-a-trace"
        self.cancelled = False
        self.tokens = 0
        self._work: asyncio.Task[str] | None = None
        self._message = str(uuid.uuid4())

    def cancel(self) -> None:
        self.cancelled = True
        if self._work is not None and not broken("CAN-01.silent"):
            self._work.cancel()

    async def run(self) -> Any:
        if self.cancelled:
            return {"stopReason": "cancelled"}
        self._work = asyncio.ensure_future(self._play())
        try:
            reason = await asyncio.shield(self._work)
        except asyncio.CancelledError:
            return self._cancelled()
        usage = {"used": WINDOW + 1 if broken("USE-01") else self.tokens, "size": WINDOW}
        self.session.tell({"sessionUpdate": "usage_update", **usage})
        self._linger()
        return {"stopReason": "finished" if broken("INT-02") else reason}

    def _linger(self) -> None:
        """What only a broken agent still does after its answer."""
        loop = asyncio.get_running_loop()
        if broken("TURN-01"):
            loop.call_soon(self._say, "late")
        if broken("TURN-09"):
            self.session.resting = True
            loop.call_later(0.2, setattr, self.session, "resting", False)

    def _cancelled(self) -> Any:
        if broken("CAN-01"):
            raise Failure(-32800, "Request cancelled")
        if broken("CAN-06"):
            return NO_ANSWER
        wrong = broken("CLOSE-01", "CAN-02", "CAN-03")
        return {"stopReason": "end_turn" if wrong else "cancelled"}

    async def _play(self) -> str:
        session = self.session
        text = prompt_text(self.blocks)
        for block in self.blocks:
            session.log.append("update", {"sessionUpdate": "user_message_chunk", "content": block})
        if not session.log.entries("title"):
            title = text.strip().splitlines()[0][:40]
            session.log.append("title", title)
            session.tell({"sessionUpdate": "session_info_update", "title": title})
        if text.startswith("/"):
            return await self._command(text)
        started = len(session.messages)
        self._remember({"role": "user", "content": text})
        return await self._calls(started)

    async def _command(self, text: str) -> str:
        name = text[1:].split()[0]
        if broken("CMD-01.unknown") and not any(c["name"] == name for c in COMMANDS):
            await asyncio.sleep(3600)
        if broken("CMD-01.known") and name == "compact":
            await stubborn(asyncio.sleep(3600))
        if name == "compact":
            await compact(self.session)
        else:
            self._say("There is /compact.")
        return "end_turn"

    async def _calls(self, started: int) -> str:
        """Ask the model and run its tools until nothing is left."""
        session = self.session
        for _ in range(BUDGET):
            if not broken("TURN-10.tools"):
                self._message = str(uuid.uuid4())
            answer = await self._ask_model()
            self.tokens = answer.tokens
            self._remember(answer.message())
            match answer.finish:
                case "content_filter" if not broken("TURN-06"):
                    if not broken("TURN-06.context"):
                        del session.messages[started:]
                        session.log.append("refused", started)
                    return "refusal"
                case "length" if not broken("TURN-04"):
                    return "max_tokens"
            if not answer.calls:
                if broken("TURN-12") and not answer.text:
                    await asyncio.sleep(3600)
                return "end_turn"
            await self._tools(answer.calls)
        return "end_turn" if broken("TURN-05") else "max_turn_requests"

    async def _ask_model(self) -> model.Answer:
        session = self.session
        offered = DESCRIPTIONS + [tool for server in session.servers for tool in server.offered()]
        tools = [{"type": "function", "function": tool} for tool in offered]
        try:
            return await model.ask(session.messages, tools, self._delta)
        except Failure:
            if broken("TURN-07"):
                return model.Answer()
            raise

    def _remember(self, message: Json) -> None:
        self.session.messages.append(message)
        self.session.log.append("message", message)

    def _delta(self, kind: str, text: str) -> None:
        for start in range(0, len(text), CHUNK):
            piece = text[start : start + CHUNK]
            if kind == "text":
                self._say(piece)
            else:
                content = {"type": "text", "text": piece}
                self.session.update("agent_thought_chunk", content=content)

    def _say(self, text: str) -> None:
        text = text.replace("\u2028", "\n") if broken("IO-02") else text
        fields: Json = {"content": {"type": "text", "text": text}, "messageId": self._message}
        if broken("TURN-10"):
            fields["messageId"] = str(uuid.uuid4())
        if broken("PERF-02"):
            fields["_meta"] = {"again": "x" * 1100}
        self.session.update("agent_message_chunk", **fields)

    async def _tools(self, calls: list[Json]) -> None:
        """Run the calls in order; each gets a result, whatever happens."""
        waiting = list(calls)
        try:
            while waiting:
                result = await self._tool(waiting[0])
                self._answer(waiting.pop(0), result)
        finally:
            for call in waiting:
                self._answer(call, "the call was cancelled")

    def _answer(self, call: Json, result: str) -> None:
        self._remember({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def _tool(self, call: Json) -> str:
        session = self.session
        name = call["function"]["name"]
        id = call["id"] if broken("TOOL-04") else str(uuid.uuid4())
        id = "call" if broken("TOOL-01.parallel") else id
        title = f"{name} {call['function']['arguments']}"[:1000]
        kind = KINDS.get(name, "other")
        session.update("tool_call", toolCallId=id, title=title, kind=kind, status="pending")
        status = "failed"
        try:
            arguments = parsed(call["function"]["arguments"])
            if name in NEEDS_PERMISSION and not await self._allowed(id, title):
                status = "completed" if broken("PERM-02.status") else "failed"
                return "the user said no"
            session.update("tool_call_update", toolCallId=id, status="in_progress")
            result = await self._body(name, arguments, id)
            status = "completed"
        except ToolError as error:
            if broken("TOOL-02"):
                raise Failure(INTERNAL, "A tool failed") from None
            status = "completed" if broken("TOOL-02.status") else "failed"
            return f"error: {error}"
        finally:
            if not broken("TOOL-01") and not (broken("CAN-02.status") and self.cancelled):
                session.update("tool_call_update", toolCallId=id, status=status)
        return result

    async def _allowed(self, id: str, title: str) -> bool:
        asking = allowed(self.session, {"toolCallId": id, "title": title})
        if broken("CAN-03.never", "CAN-03.error"):
            return bool(await stubborn(asking))
        if broken("CAN-08"):
            return await self._allowed_late(asyncio.ensure_future(asking), title)
        return await asking

    async def _allowed_late(self, asking: asyncio.Future[bool], title: str) -> bool:
        """Broken: an approval that comes after the cancel still runs the tool."""
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            arguments = parsed(title.partition(" ")[2])
            asking.add_done_callback(
                lambda _: asyncio.ensure_future(BODIES["shell"](self.session, arguments, "late"))
            )
            raise

    async def _body(self, name: str, arguments: Json, id: str) -> str:
        if name in BODIES:
            return await BODIES[name](self.session, arguments, id)
        for server in self.session.servers:
            prefix = f"mcp__{server.name}__"
            if name.startswith(prefix):
                return await server.call(name.removeprefix(prefix), arguments)
        if broken("TOOL-02.unknown"):
            raise Failure(INTERNAL, "There is no such tool")
        raise ToolError(f"there is no tool {name}")


def prompt_text(blocks: Any) -> str:
    """The prompt as the model sees it. Raises ``Failure`` for what is not advertised."""
    if not isinstance(blocks, list) or not blocks:
        raise Failure(INVALID_PARAMS, "A prompt has at least one block")
    return "\n".join(map(_block_text, blocks))


def _block_text(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": uri, "name": name} if not broken("TURN-02"):
            return f"[{name}]({uri})"
        case {"type": "resource", "resource": {"text": text}} if not broken("TURN-02.optional"):
            return str(text)
        case _ if broken("TURN-03"):
            return "(a block)"
    raise Failure(INVALID_PARAMS, f"Prompts cannot hold {block.get('type')!r}")


def parsed(arguments: str) -> Json:
    try:
        value = json.loads(arguments)
    except ValueError:
        raise ToolError("the arguments are not JSON") from None
    return value if isinstance(value, dict) else {}
