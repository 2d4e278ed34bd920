"""A conversation that is over, as ``session/load`` tells it: the projection, folded.

What a client is told live in many steps it is told here in one: final states and whole messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_server.outbox import mergeable
from acp_server.projection import State, Update, project, texts
from acp_server.settlement import error_of
from harness_core.facts import Fact, TurnEnd
from harness_core.session import SessionEvent


def replay(events: Iterable[SessionEvent], state: State) -> list[Update]:
    """A whole conversation: every call in its final state, adjacent chunks merged.

    A call becomes one ``tool_call`` where it began (V1-LOAD-07); the last usage comes last. What
    the answer to a prompt told live, that its turn failed, is text here.
    """
    updates: list[Update] = []
    calls: dict[str, Update] = {}
    usage: list[Update] = []
    for event in events:
        for update in (*project(event, state), *_failed(event.fact)):
            if updates and mergeable(updates[-1], update):
                updates[-1]["content"]["text"] += update["content"]["text"]
                continue
            match update:
                case {"sessionUpdate": "tool_call", "toolCallId": id}:
                    calls[id] = update
                    updates.append(update)
                case {"sessionUpdate": "tool_call_update", "toolCallId": id}:
                    calls[id].update({**update, "sessionUpdate": "tool_call"})
                case {"sessionUpdate": "usage_update"}:
                    usage = [update]
                case {"sessionUpdate": "notice"}:  # live only (V1-NOTE-03)
                    continue
                case _:
                    updates.append(update)
    return updates + usage


def _failed(fact: Fact) -> Sequence[Update]:
    if not isinstance(fact, TurnEnd) or fact.reason.kind != "error":
        return ()
    text = f"*This turn failed: {error_of(fact.reason).message}*"
    return texts("agent_message_chunk", text, f"end-{fact.turn}")
