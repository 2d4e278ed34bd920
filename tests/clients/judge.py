"""The verdict on everything an agent sent to the clients of one test.

Reads the tapes of a test and says what is wrong with them: frames that either generation of the
official schemas or the Python SDK refuses, conversations that break a rule of the linter, replays
that do not say what the client had seen, agents that did not leave as they should.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from conformance.dialogue import A2C, C2A, Dialogue, Message, Role
from conformance.frames import Frame
from conformance.lint import lint
from conformance.schema import GENERATIONS, validate_frame
from conformance.transcript import Entry, Event, Transcript, load
from tests.clients.screen import Screen, differences
from tests.clients.sdk import misread
from tests.clients.tap import stderr_of

KILLED = -9
"""The exit status of an agent that a test has killed."""
REPLAYED = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call",
            "tool_call_update", "plan", "session_info_update", "usage_update"}  # fmt: skip


def judge(tapes: list[Path], *, may_signal: bool = False) -> list[str]:
    """Everything that is wrong with the tapes of one test, in the order they were made.

    ``may_signal`` says that the client is one that ends agents with a signal.
    """
    problems: list[str] = []
    sessions = Sessions()
    for tape in tapes:
        transcript = load(tape)
        found = [*_frames(transcript), *_conversation(transcript)]
        found += _end(tape, transcript, may_signal)
        found += sessions.follow(Dialogue(transcript.frames), killed=_status(transcript) == KILLED)
        problems += [f"{tape.name}: {problem}" for problem in found]
    return problems


def _frames(transcript: Transcript) -> Iterator[str]:
    """Each message by itself: official schemas and official models."""
    for message in Dialogue(transcript.frames).sent(A2C):
        if message.role is Role.GARBAGE:
            continue  # the linter says so
        asked = message.method if message.role is Role.ANSWER else None
        for generation in GENERATIONS:
            for problem in validate_frame(message.value, A2C, asked, generation=generation):
                yield f"frame {message.index}, schema {generation}: {problem}"
        for problem in misread(message.value, asked):
            yield f"frame {message.index}: {problem}"


def _conversation(transcript: Transcript) -> Iterator[str]:
    killed = _status(transcript) == KILLED
    for finding in lint(transcript.frames, complete=not killed and not _left_early(transcript)):
        if not (killed and finding.rule == "answer.before-exit"):
            yield f"{finding.rule}, frames {finding.frames}: {finding.message}"


def _left_early(transcript: Transcript) -> bool:
    """Whether the client closed the agent's stdin without waiting for all answers."""

    def listening(entry: Entry) -> bool:
        return not (isinstance(entry, Event) and (entry.name, entry.direction) == ("eof", C2A))

    before = takewhile(listening, transcript.entries)
    frames = [entry for entry in before if isinstance(entry, Frame)]
    return any(not request.answers for request in Dialogue(frames).sent(C2A, Role.REQUEST))


def _end(tape: Path, transcript: Transcript, may_signal: bool) -> Iterator[str]:
    """It left with 0, or by the kill of the test, unasked, and without a word on stderr."""
    if (status := _status(transcript)) not in (0, KILLED):
        yield f"the agent left with {status}"
    for entry in transcript.entries:
        if isinstance(entry, Event) and entry.name == "signal" and not may_signal:
            yield f"the agent did not leave when its stdin ended; it took {entry.detail}"
    stderr = stderr_of(tape)
    if stderr.exists() and (said := stderr.read_text(errors="replace")):
        yield f"stderr is not silent: {said[-2000:]}"


def _status(transcript: Transcript) -> int | str | None:
    """How the agent ended; ``None`` if the tap did not see it."""
    ends = [entry for entry in transcript.entries if isinstance(entry, Event)]
    return next((end.detail for end in ends if end.name == "exit"), None)


@dataclass(slots=True)
class View:
    """One session, through all the processes that served it."""

    screen: Screen = field(default_factory=Screen)
    queue: list[Message] = field(default_factory=list)
    """Prompts without an answer; the first one's turn is running."""
    cut: bool = False
    """Whether the agent was killed since the screen was last complete."""


@dataclass(slots=True)
class Sessions:
    """Compares what a load replays with what was seen before."""

    views: dict[str, View] = field(default_factory=dict)
    loading: dict[str, Screen] = field(default_factory=dict)

    def follow(self, dialogue: Dialogue, *, killed: bool) -> Iterator[str]:
        """Take a whole conversation; yields the replays that are wrong."""
        for message in dialogue.messages:
            if message.session is not None:
                yield from self._take(message, message.session)
        for view in self.views.values():
            view.cut = view.cut or killed
            view.queue.clear()

    def _take(self, message: Message, id: str) -> Iterator[str]:
        view = self.views.setdefault(id, View())
        match message.method, message.role:
            case "session/prompt", Role.REQUEST:
                self._prompted(view, message)
            case "session/prompt", Role.ANSWER if message.request in view.queue:
                self._answered(view, message)
            case "session/load", Role.REQUEST if message.direction is C2A:
                self.loading[id] = Screen()
            case "session/load", Role.ANSWER if id in self.loading:
                replayed = self.loading.pop(id)
                if message.result is not None:
                    yield from self._loaded(view, replayed, id)
            case "session/update", _ if message.kind in REPLAYED:
                self.loading.get(id, view.screen).show(message.update)

    def _prompted(self, view: View, request: Message) -> None:
        view.queue.append(request)
        if view.queue == [request]:
            view.screen.typed(request.params["prompt"])

    def _answered(self, view: View, answer: Message) -> None:
        """The next prompt in the queue has its turn now."""
        first = view.queue[0]
        view.queue = [request for request in view.queue if request is not answer.request]
        if view.queue and view.queue[0] is not first:
            view.screen.typed(view.queue[0].params["prompt"])

    def _loaded(self, view: View, replayed: Screen, id: str) -> Iterator[str]:
        problems = differences(view.screen, replayed, cut=view.cut)
        yield from (f"session/load of {id}: {problem}" for problem in problems)
        view.screen, view.cut = replayed, False
