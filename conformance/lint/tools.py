"""Rules about tool calls: announced once, updated after that, finished before the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.dialogue import Dialogue, Message, Role, Session, Span, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

FINAL = ("completed", "failed")
EVENTS = ("session/update", "session/load", "session/prompt", "session/request_permission")


@dataclass(slots=True)
class Call:
    """One tool call as the client knows it."""

    announced: Message
    turns: list[Span]
    """The prompts that ran when it was announced."""
    last: Message
    status: str = "pending"

    def patch(self, message: Message) -> None:
        if isinstance(status := message.update.get("status"), str):
            self.status, self.last = status, message


@rule("tool.unique", Level.MUST, "tool call ids are unique in a session", "V1-TOOL-02")
def unique(dialogue: Dialogue) -> Iterator[Broken]:
    for message, calls, _ in _story(dialogue):
        if message.kind == "tool_call" and (first := calls.get(_id(message))):
            yield broken(
                f"a second tool_call with the id {_id(message)!r}", first.announced, message
            )


@rule("tool.announced", Level.MUST, "a tool_call precedes its updates", "V1-TOOL-01", "V1-TOOL-04")
def announced(dialogue: Dialogue) -> Iterator[Broken]:
    for message, calls, _ in _story(dialogue):
        if message.kind == "tool_call_update" and _id(message) not in calls:
            yield broken(f"no tool_call announced {_id(message)!r}", message)


@rule("tool.final", Level.MUST, "tool calls finish before their turn ends", "V1-TOOL-06")
def final(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _left_open(dialogue, broken_off=False)


@rule(
    "tool.left-open",
    Level.REC,
    "a turn that is cancelled or fails closes its tool calls",
    "V1-CANCEL-07",
    "V1-STOP-06",
)
def left_open(dialogue: Dialogue) -> Iterator[Broken]:
    """Clients should mark the calls of a cancelled turn themselves; not all of them do."""
    yield from _left_open(dialogue, broken_off=True)


def _left_open(dialogue: Dialogue, *, broken_off: bool) -> Iterator[Broken]:
    """Tool calls without an end in turns that ended by themselves, or in the others."""
    for answer, calls, _ in _endings(dialogue, "session/prompt"):
        if _broken_off(answer) is not broken_off:
            continue
        for name, call in calls.items():
            open_turns = [span for span in call.turns if span.end > answer.index]
            ended_now = any(span.end == answer.index for span in call.turns)
            if call.status not in FINAL and ended_now and not open_turns:
                text = f"tool call {name!r} is still {call.status} when the prompt is answered"
                yield broken(text, call.last, answer)


def _broken_off(answer: Message) -> bool:
    """Whether a prompt's answer says that the turn was cancelled, or is an error."""
    return "error" in answer.value or dig(answer.result, "stopReason") == "cancelled"


@rule("load.final", Level.REC, "a replay leaves no tool call open", "V1-LOAD-10")
def load_final(dialogue: Dialogue) -> Iterator[Broken]:
    for answer, calls, session in _endings(dialogue, "session/load"):
        for name, call in calls.items():
            if call.status not in FINAL and not session.prompting(answer.index):
                text = f"tool call {name!r} is still {call.status} after the replay"
                yield broken(text, call.last, answer)


@rule("tool.reopened", Level.REC, "a finished tool call stays finished", "V1-TOOL-06")
def reopened(dialogue: Dialogue) -> Iterator[Broken]:
    for message, calls, _ in _story(dialogue):
        call = calls.get(_id(message)) if message.kind == "tool_call_update" else None
        status = message.update.get("status")
        if call and call.status in FINAL and status not in (None, call.status):
            text = f"{call.status} tool call {_id(message)!r} becomes {status}"
            yield broken(text, call.last, message)


@rule("tool.permission", Level.REC, "permission is asked for an announced tool call", "V1-TOOL-09")
def permission(dialogue: Dialogue) -> Iterator[Broken]:
    for message, calls, _ in _story(dialogue):
        asked = message.role is Role.REQUEST and message.method == "session/request_permission"
        name = dig(message.params, "toolCall", "toolCallId")
        if asked and str(name) not in calls:
            yield broken(f"permission is asked for {name!r}, which no tool_call announced", message)


@rule("permission.options", Level.MUST, "a permission request offers options", "V1-PERM-02")
def options(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.calls("session/request_permission"):
        if message.params.get("options") == []:
            yield broken("no option to choose from", message)


@rule("permission.unique-options", Level.REC, "option ids are unique in a request", "V1-PERM-02")
def unique_options(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.calls("session/request_permission"):
        offered = message.params.get("options")
        names = [dig(option, "optionId") for option in offered] if isinstance(offered, list) else []
        for name, count in Counter(map(str, names)).items():
            if count > 1:
                yield broken(f"the option id {name!r} is offered {count} times", message)


Calls = dict[str, Call]


def _id(message: Message) -> str:
    return str(message.update.get("toolCallId"))


def _story(dialogue: Dialogue) -> Iterator[tuple[Message, Calls, Session]]:
    """Every message of interest with the session's tool calls as they were before it.

    A load begins a new life: what it replays are the same calls again, and what it does not replay
    is gone. Until the replay comes, a turn that runs goes on with its calls.
    """
    lives: dict[str, Calls] = {}
    past: dict[str, set[str]] = {}
    loading: Counter[str] = Counter()
    for message in dialogue.messages:
        session = dialogue.sessions.get(message.session or "")
        if session is None or message.method not in EVENTS:
            continue
        calls = lives.setdefault(session.id, {})
        if message.method == "session/load":
            if message.role is Role.REQUEST:
                loading[session.id] += 1
            else:
                loading[session.id] -= 1
                _forget(calls, past.pop(session.id, set()))
            if loading[session.id]:
                past.setdefault(session.id, set(calls))
        elif message.kind == "tool_call" and loading[session.id]:
            past[session.id].discard(_id(message))
            _forget(calls, {_id(message)})
        yield message, calls, session
        _apply(message, calls, session)


def _forget(calls: Calls, names: set[str]) -> None:
    for name in names:
        calls.pop(name, None)


def _apply(message: Message, calls: Calls, session: Session) -> None:
    known = calls.get(_id(message))
    if message.kind == "tool_call" and known is None:
        known = Call(message, session.prompting(message.index), message)
        calls[_id(message)] = known
    if message.kind in ("tool_call", "tool_call_update") and known is not None:
        known.patch(message)


def _endings(dialogue: Dialogue, method: str) -> Iterator[tuple[Message, Calls, Session]]:
    """Every first answer to ``method`` with the session's tool calls as they are then."""
    for message, calls, session in _story(dialogue):
        request = message.request
        if request and request.method == method and message is request.answer:
            yield message, calls, session
