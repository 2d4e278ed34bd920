"""Rules about turns: what belongs to a prompt comes before its answer, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.dialogue import C2A, Dialogue, Message, Session, Span, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

CONVERSATION = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
}
"""Updates that are part of a turn. All others may come at any time."""
STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
ENDING = {"session/cancel", "session/close", "session/delete", "session/load"}
"""Client methods that may end a running prompt as cancelled."""
REJECTIONS = {-32600, -32602, -32000, -32002}
"""Errors that say the prompt was never begun."""


@rule(
    "turn.late-update",
    Level.MUST,
    "no update follows its prompt's answer",
    "V1-TURN-04",
    "V1-CANCEL-05",
)
def late_update(dialogue: Dialogue) -> Iterator[Broken]:
    for message, before in _outside(dialogue):
        if before and before.method == "session/prompt":
            yield broken(f"{message.kind} after the answer of its prompt", before, message)


@rule("load.late-replay", Level.MUST, "a load is answered after its replay", "V1-LOAD-03")
def late_replay(dialogue: Dialogue) -> Iterator[Broken]:
    for message, before in _outside(dialogue):
        if before and before.method == "session/load":
            yield broken(f"{message.kind} after the answer of session/load", before, message)


@rule("resume.replay", Level.MUST, "a resume does not replay", "V1-RESUME-02")
def resume_replay(dialogue: Dialogue) -> Iterator[Broken]:
    for message, session in _conversation(dialogue):
        if not _expected(session, message.index):
            for span in session.resumes:
                if message.index in span:
                    yield broken(f"{message.kind} while resuming", span.request, message)


@rule("turn.unprompted", Level.REC, "conversation begins with a prompt", "V1-TURN-04")
def unprompted(dialogue: Dialogue) -> Iterator[Broken]:
    for message, before in _outside(dialogue):
        if before is None:
            yield broken(f"{message.kind} though nothing was prompted", message)


@rule("turn.stale-update", Level.MUST, "no update of an answered turn in a later one", "V1-TURN-04")
def stale_update(dialogue: Dialogue) -> Iterator[Broken]:
    """A tool call that is announced again is a new one, whatever its id."""
    born: dict[tuple[str, str], list[Span]] = {}
    for message, session in _conversation(dialogue):
        key = _identity(message)
        if key is None or session.loading(message.index):
            continue
        if message.kind == "tool_call":
            born.pop((session.id, key), None)
        turns = born.setdefault((session.id, key), session.prompting(message.index))
        ended = [span for span in turns if span.end < message.index]
        if session.prompting(message.index) and turns and len(ended) == len(turns):
            answer = ended[-1].request.answers[0]
            yield broken(f"{message.kind} of a turn that was answered", answer, message)


def _identity(message: Message) -> str | None:
    """What ties an update to others of its turn."""
    for name in ("toolCallId", "messageId"):
        if isinstance(value := message.update.get(name), str):
            return f"{name}:{value}"
    return None


@rule("turn.late-permission", Level.REC, "permission is asked inside a turn", "V1-TURN-04")
def late_permission(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.calls("session/request_permission"):
        session = dialogue.sessions.get(message.session or "")
        if session and session.prompts and not session.prompting(message.index):
            yield broken("permission is asked while no prompt runs", message)


@rule(
    "turn.stop-reason",
    Level.MUST,
    "the stop reason is a known one",
    "V1-STOP-01",
    "V1-STOP-02",
    "V1-STOP-03",
    "V1-STOP-05",
)
def stop_reason(dialogue: Dialogue) -> Iterator[Broken]:
    for prompt, answer in _answered(dialogue):
        reason = dig(answer.result, "stopReason")
        known = isinstance(reason, str) and reason in STOP_REASONS
        if "result" in answer.value and not known:
            yield broken(f"the turn stopped with {reason!r}", prompt, answer)


@rule("turn.uninvited-cancel", Level.MUST, "only the client cancels", "V1-STOP-04")
def uninvited_cancel(dialogue: Dialogue) -> Iterator[Broken]:
    for prompt, answer in _answered(dialogue):
        cancelled = dig(answer.result, "stopReason") == "cancelled"
        if cancelled and dialogue.complete and not _cancelled_by(dialogue, prompt, answer):
            yield broken("the turn stopped as cancelled, which nobody asked for", prompt, answer)


@rule(
    "turn.cancel-error",
    Level.MUST,
    "a cancelled prompt is no error",
    "V1-CANCEL-03",
    "V1-CANCEL-04",
)
def cancel_error(dialogue: Dialogue) -> Iterator[Broken]:
    for prompt, answer in _answered(dialogue):
        code = dig(answer.value, "error", "code")
        session = dialogue.sessions.get(prompt.session or "")
        cancels = [at for at in (session.cancels if session else []) if at in Span(prompt)]
        if isinstance(code, int) and code not in REJECTIONS and cancels:
            cancel = dialogue.messages[cancels[0]]
            yield broken(
                f"a cancelled prompt was answered with error {code}", prompt, cancel, answer
            )


def _cancelled_by(dialogue: Dialogue, prompt: Message, answer: Message) -> bool:
    """Whether the client did anything between the two that cancels the prompt."""
    between = dialogue.messages[prompt.index : answer.index]
    return any(_cancels(message, prompt) for message in between if message.direction is C2A)


def _cancels(message: Message, prompt: Message) -> bool:
    if message.method == "$/cancel_request":
        return bool(message.params.get("requestId") == prompt.value["id"])
    return message.method in ENDING and message.session == prompt.session


def _answered(dialogue: Dialogue) -> Iterator[tuple[Message, Message]]:
    for prompt in dialogue.calls("session/prompt"):
        if prompt.direction is C2A and prompt.answer:
            yield prompt, prompt.answer


def _conversation(dialogue: Dialogue) -> Iterator[tuple[Message, Session]]:
    """Updates that are part of a conversation, with their session if it is known."""
    for message in dialogue.updates(*CONVERSATION):
        if session := dialogue.sessions.get(message.session or ""):
            yield message, session


def _expected(session: Session, index: int) -> bool:
    return bool(session.prompting(index)) or session.loading(index)


def _outside(dialogue: Dialogue) -> Iterator[tuple[Message, Message | None]]:
    """Conversation outside any prompt, load or resume, with the answer that came last."""
    for message, session in _conversation(dialogue):
        resuming = any(message.index in span for span in session.resumes)
        if message.index < session.announced or resuming or _expected(session, message.index):
            continue
        spans = [span for span in (*session.prompts, *session.loads) if span.end < message.index]
        answers = [span.request.answers[0] for span in spans]
        yield message, max(answers, key=lambda answer: answer.index, default=None)
