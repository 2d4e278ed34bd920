"""Where a session is forked if the client names a message: the nearest place between turns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_server.framing import INVALID_PARAMS
from acp_server.rpc import RpcError
from harness_core.facts import TurnEnd, TurnStart, UserSaid
from harness_core.session import SessionEvent

_OURS = re.compile(r"(?:msg|thought|end)-(\d+)(?:-\d+)*")
"""The ids that projection gives to what the agent says; the first number is the turn's."""


def fork_point(events: Sequence[SessionEvent], message: str) -> int:
    """How many events a fork at ``message`` keeps. Raises ``RpcError`` for an unknown id.

    At something the user said: all before its turn, so that it can be said differently. At what
    the agent said: all to the end of its turn.
    """
    began = 0
    answered = _OURS.fullmatch(message)
    for event in events:
        match event.fact:
            case TurnStart():
                began = event.seq
            case UserSaid(message=said) if said.id == message:
                return began
            case TurnEnd(turn=turn) if answered and turn == int(answered[1]):
                return event.seq + 1
    raise RpcError(INVALID_PARAMS, f"there is no message {message!r} to fork at")
