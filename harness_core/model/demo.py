"""The built-in model for when none is configured: offline, deterministic, scripted by its user.

Each answer is a pure function of the request. Its place in the script is not remembered but read
off the conversation: the script is the last user message with directives, and the step is the
number of answers since. So a retry gets the same answer again, and a restart changes nothing. It
must know no network, no clock but ``!delay``, and no library that is slow to import.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import anyio
import anyio.lowlevel
import orjson

from harness_core.content import (
    AssistantMessage,
    Chunk,
    Failure,
    Finish,
    Message,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UsageReport,
    UserMessage,
)
from harness_core.model.demo_actions import (
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
from harness_core.model.demo_script import ScriptError, has_directives, help_text, parse
from harness_core.model.protocol import ModelInfo, ModelRequest
from harness_core.model.readable import joined

CONTEXT_WINDOW = 200_000
CHARACTERS_PER_TOKEN = 4
DELTAS_PER_CHECKPOINT = 64
"""Deltas between two visits of the event loop: often enough to be cancelled in the middle."""

SPOKEN = ("prompt", "steering")
"""Whose directives are followed: those of people, not of text that was added beside them."""

GREETING = """\
Hello! I am the demo model that is built into acp-harness. I run offline and cost nothing, but I \
cannot really think: I only do what the lines of your message that start with `!` tell me. \
Send `!help` to see what I can show you.

To work with a real model, start me with `ACP_HARNESS_MODEL=openai:NAME` and `OPENAI_API_KEY` in \
the environment (or `anthropic:NAME` and `ANTHROPIC_API_KEY`, or `ollama:NAME` for a model on \
your machine), set `model` in the settings, or pass `--model openai:NAME`."""

DONE = "Done."


@dataclass(slots=True)
class _Written:
    """What an answer has said so far, in characters; a line break goes between two lines."""

    text: int = 0
    reasoning: int = 0
    calls: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.text or self.reasoning or self.calls)

    def add(self, chunk: Chunk) -> None:
        match chunk:
            case TextDelta(text=text):
                self.text += len(text)
            case ReasoningDelta(text=text):
                self.reasoning += len(text)
            case ToolCallDelta(name=name, arguments=arguments):
                self.calls += len(name) + len(arguments)

    def usage(self, request: ModelRequest) -> Usage:
        return Usage(
            input=_tokens(_size(request)),
            output=_tokens(self.text + self.calls),
            reasoning=_tokens(self.reasoning),
        )


class DemoModel:
    """A model that follows the directives in the conversation; see ``docs/demo-model.md``."""

    def __init__(self, name: str = "demo", *, context_window: int | None = CONTEXT_WINDOW) -> None:
        self._info = ModelInfo(
            "demo", name, context_window, images=True, audio=True, title="Offline demo"
        )

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def aclose(self) -> None:
        """There is nothing to free."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The answer that the conversation asks for. It always streams the same chunks."""
        answer, prefix = _next_answer(request.messages)
        written = _Written()
        usage: Usage | None = None
        end: End | None = None
        pace = 0.0
        count = 0
        for index, action in enumerate(answer):
            match action:
                case Delay(seconds=seconds):
                    pace = seconds
                case Report(usage=told):
                    usage = told
                case End():
                    end = action
                case Cut():
                    return
                case Hang():
                    await anyio.sleep_forever()
                case _:
                    for chunk in _chunks(action, request, written, f"{prefix}_{index}"):
                        count += 1
                        if pace:
                            await anyio.sleep(pace)
                        elif count % DELTAS_PER_CHECKPOINT == 0:
                            await anyio.lowlevel.checkpoint()
                        written.add(chunk)
                        yield chunk
        finish = _finish(end, written)
        if finish.kind != "error":
            yield UsageReport(usage or written.usage(request))
        yield finish


def _next_answer(messages: Sequence[Message]) -> tuple[Answer, str]:
    """What to do now, and a prefix for call ids that no other step of the session has."""
    step = 0
    for message in reversed(messages):
        match message:
            case AssistantMessage():
                step += 1
            case UserMessage(id=identity, source=source) if source in SPOKEN:
                text = "\n".join(block.text for block in message.content if isinstance(block, Text))
                # A new prompt starts afresh; steering without directives does not.
                if has_directives(text) or source == "prompt":
                    seal = hashlib.blake2s(identity.encode(), digest_size=5).hexdigest()
                    return _scripted(text, step), f"call_{seal}_{step}"
    return _scripted("", step), f"call_{step}"


def _scripted(text: str, step: int) -> Answer:
    if not has_directives(text):
        return (Say(DONE if step else GREETING),)
    try:
        script = parse(text)
    except ScriptError as problem:
        return (Say(f"I cannot follow that script: {problem}. Send `!help` to see the language."),)
    return script.answer(step) or (Say(DONE),)


def _chunks(
    action: Say | Think | Repeat | Call | Show, request: ModelRequest, written: _Written, id: str
) -> Iterator[Chunk]:
    match action:
        case Say(text=text):
            yield from map(TextDelta, _words(text, written.text))
        case Think(text=text):
            yield from map(ReasoningDelta, _words(text, written.reasoning))
        case Show(what=what):
            yield from map(TextDelta, _lines(_shown(what, request), written.text))
        case Repeat(count=count, text=text) if "{i}" in text:
            yield from (TextDelta(text.replace("{i}", str(n))) for n in range(1, count + 1))
        case Repeat(count=count, text=text):
            yield from repeat(TextDelta(text), count)
        case Call(name=name, arguments=arguments):
            middle = len(arguments) // 2
            yield ToolCallDelta(id, name, arguments[:middle])
            yield ToolCallDelta(id, arguments=arguments[middle:])


def _words(text: str, before: int) -> list[str]:
    """The text in pieces of a word each, on a new line if something was said before."""
    return re.findall(r"\s*\S+\s*|\s+", f"\n{text}" if before else text)


def _lines(text: str, before: int) -> list[str]:
    """The same in pieces of a line each: what is shown can be long."""
    return re.findall(r"\n?[^\n]*\n?", f"\n{text}" if before else text)[:-1]


def _finish(end: End | None, written: _Written) -> Finish:
    if end is not None:
        return Finish(end.kind, end.failure, end.explanation)
    if written.nothing:
        return Finish("error", Failure("empty", "the script asks the demo model to say nothing"))
    return Finish("tool-calls" if written.calls else "stop")


# --- what it can tell about a request ----------------------------------------------------------


def _shown(what: str, request: ModelRequest) -> str:
    match what:
        case "context":
            return "\n".join(_line(message) for message in request.messages)
        case "system":
            return request.system or "There is no system prompt."
        case "tools":
            listed = (f"{tool.name}: {tool.description}" for tool in request.tools)
            return "\n".join(listed) or "There are no tools."
        case "result":
            return _last_result(request.messages)
        case _:
            return help_text()


def _line(message: Message) -> str:
    match message:
        case UserMessage():
            who = "user" if message.source == "prompt" else f"user ({message.source})"
            return f"[{who}] {joined(message.content)}"
        case ToolMessage():
            failed = " failed" if message.error else ""
            return f"[tool {message.name}{failed}] {joined(message.content)}"
        case AssistantMessage():
            calls = (f"[call {call.name}] {call.arguments}" for call in message.calls)
            return "\n".join([f"[assistant] {message.text}", *calls])


def _last_result(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            return joined(message.content) or "The last tool result is empty."
    return "There is no tool result."


# --- how large it is ---------------------------------------------------------------------------


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _size(request: ModelRequest) -> int:
    """Characters of everything the model was given."""
    tools = (
        len(tool.name) + len(tool.description) + len(orjson.dumps(tool.parameters))
        for tool in request.tools
    )
    return len(request.system) + sum(map(_message_size, request.messages)) + sum(tools)


def _message_size(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        calls = sum(len(call.name) + len(call.arguments) for call in message.calls)
        return len(message.text) + calls
    return len(joined(message.content))
