"""How hard a Claude model is asked to think.

The API changed with the models: up to version 4.5 thinking has a budget of tokens, from 4.6 on it
is adaptive and guided by an effort. Which one a model wants is read off its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness_core.content import (
    AssistantBlock,
    AssistantMessage,
    Json,
    Message,
    Reasoning,
    UserMessage,
)
from harness_core.model.seals import is_own

VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
"""``claude-3-7-sonnet-…``, ``claude-sonnet-4-…``, ``claude-opus-4.5``: major and minor."""

FIRST_WITH_BUDGET = (3, 7)
FIRST_ADAPTIVE = (4, 6)
SHARES = {"low": 0.125, "medium": 0.25, "high": 0.5}
"""The part of an answer's token limit that may be thought with, by effort."""
LEAST_BUDGET = 1024
"""What the API accepts as the smallest budget, in tokens."""


def thinking(
    model: str, effort: str | None, limit: int, messages: Sequence[Message]
) -> dict[str, Json]:
    """The request's fields for an effort; none leaves the model's own default.

    ``limit`` is the request's ``max_tokens``.
    """
    if effort is None:
        return {}
    version = _version(model)
    if version >= FIRST_ADAPTIVE:
        adaptive = {"type": "adaptive", "display": "summarized"}
        return {"thinking": adaptive, "output_config": {"effort": effort}}
    budget = max(LEAST_BUDGET, int(limit * SHARES.get(effort, SHARES["high"])))
    if version < FIRST_WITH_BUDGET or budget >= limit or _unthought_calls(messages):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _version(model: str) -> tuple[int, int]:
    """Major and minor version; a name that tells none is taken for a model of today."""
    match = VERSION.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else FIRST_ADAPTIVE


def _unthought_calls(messages: Sequence[Message]) -> bool:
    """Whether the running turn called tools without thinking: it must then go on so."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return False
        if isinstance(message, AssistantMessage) and message.calls:
            return not any(map(_is_own_thought, message.content))
    return False


def _is_own_thought(block: AssistantBlock) -> bool:
    """Whether a block is thinking that Anthropic has sealed, and so goes back to it."""
    return isinstance(block, Reasoning) and is_own(block.signature)
