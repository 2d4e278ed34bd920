"""The language of the demo model: from the lines of a message to the answers it asks for.

Pure: it reads text and yields actions. It knows nothing of requests, streams or time; what an
action looks like as chunks is the business of the demo model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from harness_core.content import Failure, FinishKind, Usage
from harness_core.model.demo_actions import (
    Action,
    Answer,
    Call,
    Cut,
    Delay,
    End,
    Hang,
    Repeat,
    Report,
    Say,
    Show,
    Think,
)
from harness_core.model.failures import CODES, code_of_status

DIRECTIVE = re.compile(r"^[ \t]*!([A-Za-z][\w-]*)(?:[ \t]+(.*))?\r?$", re.MULTILINE)
MOST_DELTAS = 1_000_000
MOST_DELAY_MS = 600_000


class ScriptError(ValueError):
    """A directive that cannot be followed. The message tells how it is written."""


@dataclass(frozen=True, slots=True)
class Script:
    """The answers that a message asks for, one per step."""

    answers: tuple[Answer, ...]

    def answer(self, step: int) -> Answer | None:
        """What to answer in this step, from 0; ``None`` when the script is over."""
        if step < len(self.answers):
            return self.answers[step]
        last = self.answers[-1]
        return last if any(isinstance(action, Call) and action.forever for action in last) else None


@dataclass(frozen=True, slots=True)
class Directive:
    """One word of the language: how it is written, what it does, how its line is read."""

    usage: str
    meaning: str
    parse: Callable[[str], Action]


def has_directives(text: str) -> bool:
    """Whether any line of the text is a directive, right or wrong."""
    return DIRECTIVE.search(text) is not None


def parse(text: str) -> Script:
    """The script in a text that has directives; other lines are ignored. Raises ``ScriptError``."""
    answers: list[list[Action]] = [[]]
    for match in DIRECTIVE.finditer(text):
        action = _action(match[1], (match[2] or "").removesuffix("\r"))
        if not _belongs(answers[-1], action):
            answers.append([])
        answers[-1].append(action)
    _refuse_after_forever(answers)
    return Script(tuple(map(tuple, answers)))


def help_text() -> str:
    """The language, one directive a line."""
    lines = (f"- `{one.usage}`: {one.meaning}" for one in DIRECTIVES.values())
    return "A line that starts with `!` tells me what to do:\n\n" + "\n".join(lines)


def _action(word: str, rest: str) -> Action:
    directive = DIRECTIVES.get(word)
    if directive is None:
        raise ScriptError(f"there is no directive !{word}")
    try:
        return directive.parse(rest)
    except ScriptError as problem:
        raise ScriptError(f"{problem} (it is written `{directive.usage}`)") from None


def _belongs(answer: list[Action], action: Action) -> bool:
    """Adjacent calls are one answer; what follows calls or an ending is the next one."""
    match answer[-1] if answer else None:
        case Call():
            return isinstance(action, Call)
        case End() | Cut() | Hang():
            return False
        case _:
            return True


def _refuse_after_forever(answers: list[list[Action]]) -> None:
    actions = [action for answer in answers for action in answer]
    if any(isinstance(action, Call) and action.forever for action in actions[:-1]):
        raise ScriptError("!loop never ends, so it has to be the last directive")


# --- how each line is read ---------------------------------------------------------------------


def _text(rest: str) -> str:
    if not rest.strip():
        raise ScriptError("the text is missing")
    return re.sub(r"\\([nt\\])", lambda match: {"n": "\n", "t": "\t"}.get(match[1], "\\"), rest)


def _number(word: str, most: int) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 9 and int(word) <= most):
        raise ScriptError(f"{word[:20]!r} is not a number from 0 to {most}")
    return int(word)


def _call(rest: str, *, forever: bool = False) -> Call:
    name, _, arguments = rest.strip().partition(" ")
    if not name:
        raise ScriptError("the tool's name is missing")
    arguments = arguments.strip() or "{}"
    try:
        value = orjson.loads(arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ScriptError('the arguments are not a JSON object, like {"path": "/tmp/a"}')
    return Call(name, arguments, forever)


def _plan(rest: str) -> Call:
    entries = [_entry(item.strip()) for item in rest.split(";") if item.strip()]
    if not entries:
        raise ScriptError("the items are missing")
    return Call("plan", orjson.dumps({"entries": entries}).decode())


def _entry(item: str) -> dict[str, str]:
    marks = {"[x]": "completed", "[>]": "in_progress", "[ ]": "pending"}
    status = marks.get(item[:3])
    content = item[3:].strip() if status else item
    if not content:
        raise ScriptError(f"there is no text after {item}")
    return {"content": content, "priority": "medium", "status": status or "pending"}


def _loop(rest: str) -> Call:
    if rest.strip():
        return _call(rest, forever=True)
    return Call("plan", _plan("[>] Go round in circles").arguments, forever=True)


def _stream(rest: str) -> Repeat:
    count, _, text = rest.partition(" ")
    return Repeat(_number(count, MOST_DELTAS), _text(text) if text.strip() else "{i} ")


def _fail(rest: str) -> End:
    status, code = 500, "server"
    word, _, message = rest.strip().partition(" ")
    if word in CODES:
        return _failed(code=word, status=None, message=message)
    if word.isascii() and word.isdigit():
        status = _number(word, 599)
        if status < 400:
            raise ScriptError(f"{status} is not the status of an HTTP error")
        code = code_of_status(status)
    else:
        message = rest.strip()
    return _failed(code=code, status=status, message=message)


def _failed(*, code: str, status: int | None, message: str) -> End:
    text = message or f"the demo model was told to fail ({status or code})"
    return End("error", Failure(code, text, status=status))


def _stop(rest: str) -> End:
    kinds: dict[str, FinishKind] = {"": "stop", "stop": "stop", "length": "max-tokens"}
    if (word := rest.strip()) not in kinds:
        raise ScriptError(f"{word[:20]!r} is no reason to stop")
    return End(kinds[word])


def _usage(rest: str) -> Report:
    counts = [_number(word, 10**9 - 1) for word in rest.split()]
    if len(counts) != 2:
        raise ScriptError("two numbers of tokens are needed")
    return Report(Usage(input=counts[0], output=counts[1]))


def _context(rest: str) -> Show:
    match rest.strip():
        case "":
            return Show("context")
        case "system":
            return Show("system")
        case "tools":
            return Show("tools")
        case other:
            raise ScriptError(f"{other[:20]!r} is nothing I can list")


def _bare(action: Action) -> Callable[[str], Action]:
    def parse_nothing(rest: str) -> Action:
        if rest.strip():
            raise ScriptError(f"nothing may follow, but here {rest.strip()[:20]!r} does")
        return action

    return parse_nothing


DIRECTIVES: dict[str, Directive] = {
    "say": Directive(
        "!say TEXT",
        "say this; `\\n` is a line break, and each `!say` starts a line of its own",
        lambda rest: Say(_text(rest)),
    ),
    "think": Directive("!think TEXT", "show this as reasoning", lambda rest: Think(_text(rest))),
    "call": Directive(
        "!call TOOL {json}",
        "call a tool; neighbouring calls are parallel, what follows them waits for the results",
        _call,
    ),
    "plan": Directive(
        "!plan item; item; …",
        "call the `plan` tool; an item may start with `[x]` (done) or `[>]` (in progress)",
        _plan,
    ),
    "loop": Directive(
        "!loop [TOOL {json}]", "repeat this answer, with its call, in every step for ever", _loop
    ),
    "stream": Directive(
        "!stream N [TEXT]", "say N deltas; `{i}` in the text is the number of the delta", _stream
    ),
    "delay": Directive(
        "!delay MS",
        "wait this many milliseconds before each delta that follows in this answer",
        lambda rest: Delay(_number(rest.strip(), MOST_DELAY_MS) / 1000),
    ),
    "stop": Directive(
        "!stop [length]", "end the answer here; with `length` as if the token limit was hit", _stop
    ),
    "refuse": Directive(
        "!refuse [WHY]",
        "refuse to go on",
        lambda rest: End("refusal", explanation=_text(rest) if rest.strip() else None),
    ),
    "fail": Directive(
        "!fail [STATUS] [MESSAGE]",
        "fail like a provider with this HTTP status (or failure code), else 500",
        _fail,
    ),
    "cut": Directive("!cut", "end the stream without its finish marker", _bare(Cut())),
    "hang": Directive("!hang", "say nothing more until cancelled", _bare(Hang())),
    "usage": Directive("!usage IN OUT", "report these token counts", _usage),
    "context": Directive(
        "!context [system|tools]",
        "list the conversation I was given, or the system prompt, or the tools",
        _context,
    ),
    "result": Directive("!result", "repeat the last tool result", _bare(Show("result"))),
    "help": Directive("!help", "list this language", _bare(Show("help"))),
}
"""The whole language: parsing, ``!help`` and the documentation read it off this table."""
