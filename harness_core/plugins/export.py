"""A session as a Markdown document that people can read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness_core.content import ResultBlock, Text
from harness_core.facts import (
    AssistantSaid,
    Reason,
    SessionTitle,
    ToolCalled,
    ToolReturned,
    TurnEnd,
    UserSaid,
)
from harness_core.session import SessionEvent

LONGEST = 4_000
"""Characters of one tool result."""


def markdown(events: Iterable[SessionEvent]) -> str:
    """The conversation: what was said, the calls and their results, and unusual ends."""
    title, parts = "Session", []
    for event in events:
        match event.fact:
            case SessionTitle(title=str(text)):
                title = text
            case UserSaid(message=message) if message.source != "context":
                parts.append(f"## You\n\n{_texts(message.content)}")
            case AssistantSaid(message=answer) if answer.text.strip():
                parts.append(f"## Agent\n\n{answer.text.strip()}")
            case ToolCalled(name=name, arguments=arguments):
                parts.append(f"**{name}** `{arguments}`".replace("\n", " "))
            case ToolReturned(content=content, error=error):
                head = f"*{error}*\n\n" if error else ""
                parts.append(head + _fenced(_texts(content)))
            case TurnEnd(reason=Reason(kind=kind)) if kind != "completed":
                parts.append(f"*The turn ended: {kind}.*")
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _texts(blocks: Sequence[ResultBlock]) -> str:
    return "\n\n".join(b.text if isinstance(b, Text) else f"[{b.type}]" for b in blocks)


def _fenced(text: str) -> str:
    """A code block that nothing in ``text`` can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    cut = "\n…" if len(text) > LONGEST else ""
    return f"{fence}\n{text[:LONGEST]}{cut}\n{fence}"
