"""Global rules that every conversation of an ACP agent keeps, whatever it is about.

``lint`` is a pure function over frames, so it serves recorded transcripts and the
runs of single checks alike. The rules live in modules by subject; importing this
package enters them all into ``RULES``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from conformance.dialogue import Dialogue
from conformance.frames import Finding, Frame
from conformance.lint import (
    answers,
    framing,
    gates,
    paths,
    questions,
    sessions,
    shape,
    terminals,
    tools,
    turns,
)
from conformance.lint.rule import RULES, Actor, Rule

__all__ = ["AGENT", "EVERYBODY", "RULES", "Rule", "lint"]

AGENT: tuple[Actor, ...] = ("agent",)
EVERYBODY: tuple[Actor, ...] = ("agent", "client")
SUBJECTS = (framing, shape, answers, sessions, turns, tools, terminals, questions, gates, paths)


def lint(
    frames: Sequence[Frame],
    *,
    complete: bool = True,
    actors: Collection[Actor] = AGENT,
) -> list[Finding]:
    """All breaches of all rules, sorted by the frames that prove them.

    ``complete`` says that the client waited for everything it asked for; without it
    open ends at the end of the conversation are no finding. ``actors`` selects whose
    duties are judged. A finding's level is ``RULES[finding.rule].level``.
    """
    dialogue = Dialogue(frames, complete=complete)
    found = [
        finding
        for rule in RULES.values()
        if rule.actor in actors
        for finding in rule.apply(dialogue)
    ]
    return sorted(found, key=lambda finding: finding.frames[-1:])
