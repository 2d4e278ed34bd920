"""Directives in a prompt: a black-box client steers the model through the agent it talks to.

One directive a line, everything else in the prompt is ignored:

``@say TEXT``            text; a JSON string ("…") is decoded, so any character can be said
``@think TEXT``          reasoning
``@chunks N TEXT``       N deltas of TEXT, ``{i}`` in it is the delta's index
``@slow N MS TEXT``      the same with MS milliseconds between the deltas
``@call NAME {json}``    a tool call by name (several lines: parallel calls)
``@tool KIND {json}``    a tool call by meaning: read, write, edit, shell, plan, ask
``@id NAME``             the provider's id of the next call
``@fragments N``         the calls that follow stream their arguments in N pieces
``@usage {json}``        input, output, cached, reasoning
``@finish WHY``          length or refusal
``@status CODE TEXT``    an HTTP error, with ``@retry-after SECONDS``
``@delay MS``            wait before what follows
``@cut`` / ``@cut clean`` the stream ends without a finish marker
``@malformed``           broken bytes in the stream
``@hang``                say nothing from here on
``@empty``               a reply without content
``@then``                what follows answers the next model call of the turn
``@retry``               what follows answers a repeated attempt at the same call
``@loop``                the last reply is repeated for every further call of the turn
``@begin``               everything above this line is ignored

Without directives, and after the last scripted reply of a turn, the model says ``PLAIN``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.model_server.reply import (
    Call,
    Cut,
    Delay,
    Failure,
    Finish,
    Hang,
    Malformed,
    Part,
    Repeat,
    Reply,
    Text,
    Think,
    ToolCall,
    Usage,
)

PLAIN = "Done."
BLANK = " \t\r"
"""What may surround a directive; other white space is part of what is said."""
DIRECTIVE = re.compile(r"^@([a-z-]+)(?: (.*))?$")

Attempts = list[Reply | Failure]
"""What one model call gets: the last entry also answers every further attempt."""


@dataclass(slots=True)
class Plan:
    """What a prompt scripts: one list of attempts per model call of its turn."""

    calls: list[Attempts] = field(default_factory=list)
    loop: bool = False

    def reply(self, call: int, attempt: int) -> Reply | Failure:
        """The reply to model call number ``call`` of the turn, at its ``attempt`` (both from 0)."""
        if call >= len(self.calls):
            if not self.loop or not self.calls:
                return Reply.say(PLAIN)
            call = len(self.calls) - 1
        attempts = self.calls[call]
        return attempts[min(attempt, len(attempts) - 1)]


class DirectiveError(ValueError):
    """A directive that cannot be understood; the message names the line."""


def parse(text: str) -> Plan | None:
    """The plan in ``text``, or None if it holds no directive. Raises ``DirectiveError``."""
    found = [m for line in re.split(r"\r?\n", text) if (m := DIRECTIVE.match(line.strip(BLANK)))]
    known = [(m[1], m[2] or "", m[0]) for m in found if m[1] in _WORDS]
    if not known:
        return None
    reader = _Reader()
    for word, rest, line in known:
        try:
            _WORDS[word](reader, rest)
        except (ValueError, TypeError) as error:
            raise DirectiveError(f"cannot understand the directive {line!r}: {error}") from None
    return reader.plan()


class _Reader:
    """Collects directives into the reply that is being described."""

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, _rest: str) -> None:
        self._calls: list[Attempts] = []
        self._attempts: Attempts = []
        self._loop = False
        self._fresh()

    def _fresh(self) -> None:
        self._parts: list[Part] = []
        self._finish = Finish.AUTO
        self._usage = Usage()
        self._failure: Failure | None = None
        self._retry_after: float | None = None
        self._fragments = 1
        self._id = ""
        self._touched = False

    def plan(self) -> Plan:
        if self._touched or self._attempts:
            self._then("")
        return Plan(self._calls, self._loop)

    def _retry(self, _rest: str) -> None:
        self._attempts.append(self._reply())
        self._fresh()

    def _then(self, _rest: str) -> None:
        if self._touched or not self._attempts:
            self._attempts.append(self._reply())
        self._calls.append(self._attempts)
        self._attempts = []
        self._fresh()

    def _reply(self) -> Reply | Failure:
        if self._failure is not None:
            return replace(self._failure, retry_after=self._retry_after)
        return Reply(tuple(self._parts), self._finish, self._usage)

    def _part(self, part: Part) -> None:
        self._touched = True
        self._parts.append(part)

    def _say(self, rest: str) -> None:
        self._part(Text(_text(rest)))

    def _think(self, rest: str) -> None:
        self._part(Think(_text(rest)))

    def _chunks(self, rest: str) -> None:
        count, text = _count(rest)
        self._part(Repeat(_text(text), count))

    def _slow(self, rest: str) -> None:
        count, more = _count(rest)
        milliseconds, text = _count(more)
        for piece in Repeat(_text(text), count).pieces():
            self._part(Text(piece))
            self._part(Delay(milliseconds / 1000))

    def _call(self, rest: str) -> None:
        name, _, arguments = rest.partition(" ")
        self._part(Call(name, arguments or "{}", self._take_id(), self._fragments))

    def _tool(self, rest: str) -> None:
        kind, _, arguments = rest.partition(" ")
        values = _object(arguments or "{}")
        self._part(ToolCall(kind, values, self._take_id(), self._fragments))

    def _set_id(self, rest: str) -> None:
        self._id = rest

    def _take_id(self) -> str:
        taken, self._id = self._id, ""
        return taken

    def _set_fragments(self, rest: str) -> None:
        self._fragments = int(rest)

    def _set_usage(self, rest: str) -> None:
        self._touched = True
        self._usage = Usage(**_object(rest))

    def _set_finish(self, rest: str) -> None:
        self._touched = True
        self._finish = Finish(rest)

    def _status(self, rest: str) -> None:
        self._touched = True
        code, message = _count(rest)
        self._failure = Failure(code, _text(message) or "scripted failure")

    def _set_retry_after(self, rest: str) -> None:
        self._retry_after = float(rest)

    def _delay(self, rest: str) -> None:
        self._part(Delay(int(rest) / 1000))

    def _cut(self, rest: str) -> None:
        self._part(Cut(clean=rest == "clean"))

    def _malformed(self, _rest: str) -> None:
        self._part(Malformed())

    def _hang(self, _rest: str) -> None:
        self._part(Hang())

    def _empty(self, _rest: str) -> None:
        self._touched = True

    def _set_loop(self, _rest: str) -> None:
        self._loop = True


_WORDS: Mapping[str, Callable[[_Reader, str], None]] = {
    "begin": _Reader._begin,
    "say": _Reader._say,
    "think": _Reader._think,
    "chunks": _Reader._chunks,
    "slow": _Reader._slow,
    "call": _Reader._call,
    "tool": _Reader._tool,
    "id": _Reader._set_id,
    "fragments": _Reader._set_fragments,
    "usage": _Reader._set_usage,
    "finish": _Reader._set_finish,
    "status": _Reader._status,
    "retry-after": _Reader._set_retry_after,
    "delay": _Reader._delay,
    "cut": _Reader._cut,
    "malformed": _Reader._malformed,
    "hang": _Reader._hang,
    "empty": _Reader._empty,
    "then": _Reader._then,
    "retry": _Reader._retry,
    "loop": _Reader._set_loop,
}


def _text(rest: str) -> str:
    """Text as it stands, or the value of a JSON string."""
    if len(rest) > 1 and rest[0] == rest[-1] == '"':
        return str(json.loads(rest))
    return rest


def _count(rest: str) -> tuple[int, str]:
    first, _, more = rest.partition(" ")
    return int(first), more


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value
