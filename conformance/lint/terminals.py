"""Rules about client terminals: each one made is released, once, and left alone after that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.dialogue import A2C, Dialogue, Message, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

USES = ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")


@dataclass(slots=True)
class Terminal:
    """One terminal's life: what used it and what showed it."""

    created: Message
    uses: list[Message] = field(default_factory=list)
    shown: list[Message] = field(default_factory=list)

    @property
    def releases(self) -> list[Message]:
        return [use for use in self.uses if use.method == "terminal/release"]


@rule("terminal.released", Level.MUST, "every terminal is released", "V1-TERM-02")
def released(dialogue: Dialogue) -> Iterator[Broken]:
    for name, terminal in _terminals(dialogue).items():
        if dialogue.complete and not terminal.releases:
            yield broken(f"terminal {name!r} was never released", terminal.created)


@rule("terminal.released-once", Level.MUST, "a terminal is released once", "V1-TERM-05")
def released_once(dialogue: Dialogue) -> Iterator[Broken]:
    for name, terminal in _terminals(dialogue).items():
        if len(terminal.releases) > 1:
            text = f"terminal {name!r} was released {len(terminal.releases)} times"
            yield broken(text, *terminal.releases)


@rule("terminal.after-release", Level.MUST, "a released terminal is not used", "V1-TERM-05")
def after_release(dialogue: Dialogue) -> Iterator[Broken]:
    for name, terminal in _terminals(dialogue).items():
        for use in terminal.uses:
            release = next(iter(terminal.releases), use)
            if use.method != "terminal/release" and use.index > release.index:
                yield broken(f"{use.method} of terminal {name!r} after its release", release, use)


@rule("terminal.unknown", Level.MUST, "only terminals that were created are used", "V1-TERM-02")
def unknown(dialogue: Dialogue) -> Iterator[Broken]:
    terminals = _terminals(dialogue)
    for use in dialogue.calls(*USES):
        name = use.params.get("terminalId")
        terminal = terminals.get(str(name))
        if terminal is None or use.index < terminal.created.index:
            yield broken(f"{use.method} of terminal {name!r}, which nobody created", use)


@rule("terminal.shown-late", Level.MUST, "a terminal is shown before its release", "V1-TERM-06")
def shown_late(dialogue: Dialogue) -> Iterator[Broken]:
    for name, terminal in _terminals(dialogue).items():
        if terminal.shown and terminal.releases:
            release, first = terminal.releases[0], terminal.shown[0]
            if release.index < first.index:
                text = f"terminal {name!r} is first shown after its release"
                yield broken(text, release, first)


def _terminals(dialogue: Dialogue) -> dict[str, Terminal]:
    """Every terminal the client created, by id."""
    terminals: dict[str, Terminal] = {}
    for request in dialogue.calls("terminal/create"):
        name = dig(request.answer.result, "terminalId") if request.answer else None
        if request.answer and isinstance(name, str):
            terminals.setdefault(name, Terminal(request.answer))
    for use in dialogue.calls(*USES):
        if terminal := terminals.get(str(use.params.get("terminalId"))):
            terminal.uses.append(use)
    for message in dialogue.updates("tool_call", "tool_call_update"):
        for name in shown_in(message):
            if terminal := terminals.get(name):
                terminal.shown.append(message)
    return terminals


def shown_in(message: Message) -> list[str]:
    """The terminals a tool call embeds."""
    content = message.update.get("content")
    items = content if isinstance(content, list) and message.direction is A2C else []
    return [str(dig(item, "terminalId")) for item in items if dig(item, "type") == "terminal"]
