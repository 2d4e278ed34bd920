"""Facts to ``session/update``: one pure function, used live and by ``session/load``.

``project(event, state)`` returns the updates that an event causes and moves ``state`` along. There
is no client in sight, no clock and no I/O: what a replay says is what the live run said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from acp_server.cards import TITLE, Card, card_of_call, card_of_result, content_item, raw_input
from acp_server.content import LONGEST_DATA, LONGEST_RESOURCE, shown
from acp_server.limits import Budget, cut
from acp_server.outbox import LONGEST_TEXT
from acp_server.terminal import Terminal
from harness_core.content import (
    Chunk,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCallDelta,
    Usage,
    UserBlock,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    LlmRetry,
    Noticed,
    PlanEntry,
    PlanWrite,
    Reason,
    RequestHeader,
    SessionTitle,
    StepStart,
    ToolArguments,
    ToolCalled,
    ToolPrinted,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    UserSaid,
)
from harness_core.session import SessionEvent
from harness_core.tools.cards import fenced
from harness_core.tools.tool import Tool

if TYPE_CHECKING:
    from harness_core.model.prices import Cost

Update: TypeAlias = dict[str, Any]
Lookup: TypeAlias = Callable[[str], Tool[Any] | None]
Price: TypeAlias = Callable[[str, Usage], "Cost | None"]

DISCARDED = "\n\n*The connection to the model broke; the answer starts again.*\n\n"
INTERRUPTED = "*The agent was stopped here, before it had finished.*"

PLAN = 40_000
"""Bytes of all lines of a plan; every update has all of them (V1-PLAN-02)."""


@dataclass(slots=True)
class CallState:
    """A tool call that is on the client's screen."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    terminal: Terminal | None = None


@dataclass(slots=True)
class State:
    """What projection remembers between events. ``cwd`` is absolute."""

    cwd: str
    tool: Lookup
    context_window: int | None = None
    streamed: bool = False
    """Whether the open attempt has shown text or reasoning."""
    attempt: int = 1
    """The number of the open attempt."""
    calls: dict[str, CallState] = field(default_factory=dict)
    """The calls without a final status."""
    notices: bool = False
    """Whether the client shows notices; one that does not is told in the conversation."""
    price: Price = lambda *_: None
    """What a call of a model cost, if anybody knows."""
    model: str = ""
    """``provider:name`` of the model that is called."""
    spent: float = 0.0
    """The cost so far, of all calls whose price is known."""


def project(event: SessionEvent, state: State) -> Sequence[Update]:
    """The updates that ``event`` causes, in order; ``state`` is moved along."""
    match event.fact:
        case AssistantChunk() as fact:
            return _chunk(fact, fact.chunk, state)
        case ToolPrinted(call_id=id) as fact:
            return _printed(id, fact, event.time, state)
        case UserSaid(message=message) if message.source != "context":
            return [update for block in message.content for update in _said(block, message.id)]
        case StepStart():
            state.streamed, state.attempt = False, 1
        case AssistantSaid() as fact:
            return [*_unstreamed(fact, state), *_usage(fact.usage, state)]
        case ToolCalled() as fact:
            return [_called(fact, state)]
        case ToolArguments(call_id=id, arguments=text) if id in state.calls:
            return [_rewritten(id, state.calls[id], _object(text) or {}, state)]
        case ToolStarted(call_id=id) if id in state.calls:
            return [_status(id, "in_progress")]
        case ToolReturned() as fact:
            return [_returned(fact, state)]
        case PlanWrite(entries=entries):
            share = PLAN // max(1, len(entries))
            return [{"sessionUpdate": "plan", "entries": [_entry(e, share) for e in entries]}]
        case Noticed() as fact:
            return _noticed(fact, event.seq, state)
        case SessionTitle(title=title):
            return [_info(title, event.time)]
        case RequestHeader(config=config, context_window=window):
            state.model, state.context_window = config.model, window
        case LlmRetry() as fact:
            return _discarded(fact, state)
        case TurnEnd(turn=turn, reason=reason):
            return [*_close_calls(state), *_ending(turn, reason)]
    return ()


# --- what is said --------------------------------------------------------------------------


def _said(block: UserBlock, id: str) -> Sequence[Update]:
    """A block of a user's message; text of any length is shown, an attachment if there is room."""
    if isinstance(block, Text):
        return texts("user_message_chunk", block.text, id)
    content = shown(block, Budget(2 * LONGEST_RESOURCE), Budget(LONGEST_DATA))
    return [{"sessionUpdate": "user_message_chunk", "content": content, "messageId": id}]


def message_id(turn: int, step: int, attempt: int, kind: str = "msg") -> str:
    """The id of an assistant message or thought: from the log, so a replay gives the same."""
    again = f"-{attempt}" if attempt > 1 else ""
    return f"{kind}-{turn}-{step}{again}"


def _chunk(fact: AssistantChunk, chunk: Chunk, state: State) -> Sequence[Update]:
    if isinstance(chunk, TextDelta):
        if not chunk.text:
            return ()
        state.streamed = True
        id = message_id(fact.turn, fact.step, fact.attempt)
        return texts("agent_message_chunk", chunk.text, id)
    if isinstance(chunk, ReasoningDelta):
        if not chunk.text:
            return ()
        state.streamed = True
        id = message_id(fact.turn, fact.step, fact.attempt, "thought")
        return texts("agent_thought_chunk", chunk.text, id)
    if isinstance(chunk, ToolCallDelta) and chunk.name and chunk.id not in state.calls:
        return [_announced(chunk.id, chunk.name, state)]
    return ()


def texts(kind: str, text: str, id: str) -> Sequence[Update]:
    """Text as chunks short enough for one line each."""
    if len(text) <= LONGEST_TEXT:
        content = {"type": "text", "text": text}
        return ({"sessionUpdate": kind, "content": content, "messageId": id},)
    pieces = (text[i : i + LONGEST_TEXT] for i in range(0, len(text), LONGEST_TEXT))
    return [update for piece in pieces for update in texts(kind, piece, id)]


def _unstreamed(fact: AssistantSaid, state: State) -> Sequence[Update]:
    """Text of a message that came whole, without chunks."""
    text = "" if state.streamed else fact.message.text
    if not text:
        return ()
    return texts("agent_message_chunk", text, message_id(fact.turn, fact.step, state.attempt))


def _usage(usage: Usage | None, state: State) -> Sequence[Update]:
    """Context in use, of the last request, not summed up (V1-USE-01)."""
    if usage is None:
        return ()
    cost = state.price(state.model, usage)
    state.spent += cost.amount if cost else 0.0
    if not state.context_window:
        return ()
    used = min(usage.context, state.context_window)
    update: Update = {"sessionUpdate": "usage_update", "used": used, "size": state.context_window}
    if cost is not None:
        update["cost"] = {"amount": round(state.spent, 6), "currency": cost.currency}
    return [update]


def _discarded(fact: LlmRetry, state: State) -> Sequence[Update]:
    """Mark what was shown of a failed attempt; the next one is a new message."""
    updates = list(_close_calls(state))
    if state.streamed:
        id = message_id(fact.turn, fact.step, fact.attempt)
        updates += texts("agent_message_chunk", DISCARDED, id)
    state.streamed, state.attempt = False, fact.attempt + 1
    return updates


def _ending(turn: int, reason: Reason) -> Sequence[Update]:
    """The reason of an unusual end, as text; what is an error is told by the answer."""
    text = {
        "refused": reason.why or "The model refused to answer.",
        "blocked": f"Blocked by {reason.by}: {reason.why}",
        "aborted": f"Stopped: {reason.why}" if reason.cause == "hook" and reason.why else "",
        "interrupted": INTERRUPTED,
    }.get(reason.kind, "")
    return texts("agent_message_chunk", text, f"end-{turn}") if text else ()


# --- tool calls --------------------------------------------------------------------------------


def _announced(id: str, name: str, state: State) -> Update:
    """A call whose arguments are still on their way (V1-TURN-06)."""
    state.calls[id] = CallState(name)
    tool = state.tool(name)
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": id,
        "name": cut(name, TITLE),
        "title": cut(name, TITLE),
        "kind": tool.kind if tool else "other",
        "status": "pending",
    }


def _called(fact: ToolCalled, state: State) -> Update:
    given = _object(fact.arguments)
    arguments = given or {}
    card = card_of_call(state.tool(fact.name), fact.name, given, state.cwd)
    known = fact.call_id in state.calls
    terminal = Terminal() if card.terminal else None
    state.calls[fact.call_id] = CallState(fact.name, arguments, terminal)
    update = _update(fact.call_id, card)
    if not known:
        update["sessionUpdate"] = "tool_call"
        update["name"] = cut(fact.name, TITLE)
        update["status"] = "pending"
    update["rawInput"] = raw_input(arguments)
    return update


def _rewritten(id: str, call: CallState, arguments: Mapping[str, Any], state: State) -> Update:
    """What will really run, not what was asked for."""
    call.arguments = arguments
    card = card_of_call(state.tool(call.name), call.name, arguments, state.cwd)
    return {**_update(id, card), "rawInput": raw_input(arguments)}


def _update(id: str, card: Card) -> Update:
    """A patch of what a card says; arrays replace, absent fields stay (V1-TOOL-04)."""
    update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": id}
    if card.title:
        update["title"] = card.title
    if card.kind:
        update["kind"] = card.kind
    if card.locations:
        update["locations"] = card.locations
    if card.content:
        update["content"] = card.content
    return update


def _status(id: str, status: str) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}


def _printed(id: str, fact: ToolPrinted, time: int, state: State) -> Sequence[Update]:
    call = state.calls.get(id)
    if call is None or call.terminal is None:
        return ()
    return _shown(id, call.terminal.feed(fact.data, time))


def rest(id: str, state: State, time: int) -> Sequence[Update]:
    """What a running call has printed and not shown by ``time`` (epoch ms), if it may be now.

    For the live run alone: a replay shows how calls ended.
    """
    call = state.calls.get(id)
    if call is None or call.terminal is None:
        return ()
    return _shown(id, call.terminal.rest(time))


def _shown(id: str, output: str | None) -> Sequence[Update]:
    if output is None:
        return ()
    return [{**_status(id, "in_progress"), "content": [_printed_text(output)]}]


def _printed_text(text: str) -> dict[str, Any]:
    return content_item({"type": "text", "text": fenced(text)})


def _returned(fact: ToolReturned, state: State) -> Update:
    call = state.calls.pop(fact.call_id, None) or CallState(fact.name)
    card = card_of_result(state.tool(fact.name), fact, call.arguments, state.cwd)
    update = _update(fact.call_id, card)
    if fact.error == "aborted" and call.terminal is not None and call.terminal.text:
        # It ended without a word of its own: what it had printed stays on the screen.
        update["content"] = [_printed_text(call.terminal.text), *card.content]
    update["status"] = "completed" if fact.error is None else "failed"
    return update


def _close_calls(state: State) -> Sequence[Update]:
    """Calls that were announced and will never run get their final status (V1-TOOL-06)."""
    updates = [_status(id, "failed") for id in state.calls]
    state.calls.clear()
    return updates


def _object(text: str) -> Mapping[str, Any] | None:
    """The arguments of a call if they are an object."""
    try:
        value = orjson.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _noticed(fact: Noticed, seq: int, state: State) -> Sequence[Update]:
    """A notice where the client has a place for it (V1-NOTE-01), else a line of its own."""
    if state.notices:
        update = {"sessionUpdate": "notice", "severity": fact.severity, "title": fact.title}
        return [update if fact.description is None else {**update, "description": fact.description}]
    more = f": {fact.description}" if fact.description else ""
    return texts("agent_message_chunk", f"*{fact.title}{more}*\n\n", f"notice-{seq}")


# --- the rest ----------------------------------------------------------------------------------


def _entry(entry: PlanEntry, share: int) -> dict[str, str]:
    status = "completed" if entry.status == "cancelled" else entry.status
    return {"content": cut(entry.content, share), "priority": entry.priority, "status": status}


def timestamp(time: int) -> str:
    """Epoch milliseconds as RFC 3339 UTC (V1-INFO-04)."""
    moment = datetime.fromtimestamp(time / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _info(title: str | None, time: int) -> Update:
    named = None if title is None else cut(title, TITLE)
    return {"sessionUpdate": "session_info_update", "title": named, "updatedAt": timestamp(time)}
