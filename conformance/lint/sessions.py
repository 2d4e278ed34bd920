"""Rules about session ids: unique, known to the client before they are used, quiet when closed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from conformance.dialogue import A2C, OPENING, Dialogue, Message, Role, Session, dig
from conformance.frames import Level
from conformance.lint.rule import BOTH, Broken, broken, rule


@rule("session.unique", Level.MUST, "session ids are unique", "V1-NEW-01", versions=BOTH)
def unique(dialogue: Dialogue) -> Iterator[Broken]:
    seen: dict[str, Message] = {}
    for answer in dialogue.sent(A2C, Role.ANSWER):
        session = dig(answer.result, "sessionId") if answer.method in OPENING else None
        if isinstance(session, str):
            if session in seen:
                yield broken(f"{session!r} was given to two sessions", seen[session], answer)
            seen.setdefault(session, answer)


@rule("session.unknown", Level.MUST, "only known sessions are named", "V1-TURN-09", versions=BOTH)
def unknown(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _naming(dialogue):
        if message.session not in dialogue.sessions:
            yield broken(f"no session is called {message.session!r}", message)


@rule(
    "session.early",
    Level.REC,
    "a session's answer precedes its first message",
    "V1-NEW-12",
    versions=BOTH,
)
def early(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _naming(dialogue):
        session = dialogue.sessions.get(message.session or "")
        if session and message.index < session.announced < math.inf:
            text = f"{message.method} before the client knows the session"
            yield broken(text, message, dialogue.messages[int(session.announced)])


@rule("session.closed", Level.REC, "a closed session is quiet", "V1-CLOSE-05", versions=BOTH)
def closed(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _naming(dialogue):
        session = dialogue.sessions.get(message.session or "")
        if session and (answer := _closed_by(session, message.index)):
            yield broken(f"{message.method} for a session that was closed", answer, message)


def _closed_by(session: Session, index: int) -> Message | None:
    """The answer that closed the session, if nothing was asked since that opens it again.

    What follows a close on the wire follows it at the agent, also before that has answered.
    """
    closed = [span for span in session.closes if span.end < index]
    done = [span for span in closed if (a := span.request.answer) and a.result is not None]
    if not done:
        return None
    reopened = [span.start for span in (*session.loads, *session.resumes) if span.start < index]
    last = done[-1]
    return last.request.answer if max(reopened, default=-1) < last.start else None


def _naming(dialogue: Dialogue) -> Iterator[Message]:
    """Calls of the agent that name a session."""
    for message in dialogue.sent(A2C):
        if message.role in (Role.REQUEST, Role.NOTIFICATION) and message.session is not None:
            yield message
