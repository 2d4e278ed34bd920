"""Rules about capabilities: what the client did not announce is never used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.dialogue import A2C, Dialogue, Message, Role, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

Uses = Callable[[Dialogue], Iterator[Message]]


def _gate(id: str, capability: str, uses: Uses, *refs: str, level: Level = Level.MUST) -> None:
    """Enter the rule that ``uses`` yields nothing unless the client announced ``capability``.

    The capability is a dotted path below ``clientCapabilities``; ``true`` and
    objects announce it, anything else does not.
    """
    path = capability.split(".")

    @rule(id, level, f"{capability} is used only if announced", *refs)
    def check(dialogue: Dialogue) -> Iterator[Broken]:
        start = dialogue.initialized
        announced = dig(dialogue.client, "clientCapabilities", *path)
        if start is None or announced is True or isinstance(announced, dict):
            return
        for message in uses(dialogue):
            yield broken(f"{_what(message)} without {capability}", start, message)


def _what(message: Message) -> str:
    return f"update {message.kind}" if message.kind else str(message.method)


def _calling(*methods: str) -> Uses:
    return lambda dialogue: (call for call in dialogue.calls(*methods) if call.direction is A2C)


def _updating(*kinds: str) -> Uses:
    return lambda dialogue: dialogue.updates(*kinds)


def _eliciting(mode: str) -> Uses:
    def uses(dialogue: Dialogue) -> Iterator[Message]:
        return (
            call for call in dialogue.calls("elicitation/create") if call.params.get("mode") == mode
        )

    return uses


def _boolean_options(dialogue: Dialogue) -> Iterator[Message]:
    for message in dialogue.sent(A2C):
        source = message.result if message.role is Role.ANSWER else message.update
        options = dig(source, "configOptions")
        if isinstance(options, list) and any(dig(item, "type") == "boolean" for item in options):
            yield message


def _terminal_login(dialogue: Dialogue) -> Iterator[Message]:
    """A client may also ask for it in ``_meta``, as the agent registry's check does."""
    if dig(dialogue.client, "clientCapabilities", "_meta", "terminal-auth"):
        return
    for call in dialogue.calls("initialize"):
        methods: Any = dig(call.answer.result, "authMethods") if call.answer else None
        if isinstance(methods, list) and any(dig(item, "type") == "terminal" for item in methods):
            yield from call.answers[:1]


_gate("gate.read", "fs.readTextFile", _calling("fs/read_text_file"), "V1-FS-01", "V1-FS-02")
_gate("gate.write", "fs.writeTextFile", _calling("fs/write_text_file"), "V1-FS-01", "V1-FS-02")
_gate(
    "gate.terminal",
    "terminal",
    _calling(
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
    ),
    "V1-TERM-01",
)
_gate("gate.form", "elicitation.form", _eliciting("form"), "V1-ELIC-01")
_gate("gate.url", "elicitation.url", _eliciting("url"), "V1-ELIC-01")
_gate("gate.boolean", "session.configOptions.boolean", _boolean_options, "V1-BOOL-01")
_gate("gate.notice", "session.notices", _updating("notice"), "V1-NOTE-01")
_gate(
    "gate.compaction",
    "session.compaction",
    _updating("compaction_update", "compaction_summary_chunk"),
    "V1-COMP-01",
)
_gate("gate.plan", "plan", _updating("plan_update", "plan_removed"), "V1-PLAN-05")
_gate("gate.login", "auth.terminal", _terminal_login, "V1-AUTH-03")
