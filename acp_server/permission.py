"""The front end's answer to ``tools/approve``: ``session/request_permission``.

Anything but a clear yes is a no (V1-PERM-05), and waiting for it can always be cancelled.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acp_server.cards import CONTENT, card_of_call, diff_items, raw_input
from acp_server.limits import Budget, cut
from acp_server.rpc import ConnectionLost, PeerError
from harness_core.bus import Next
from harness_core.facts import Decision
from harness_core.tools.body import Context
from harness_core.tools.pipeline import Approval, ApprovalRequest, Call
from harness_core.tools.tool import Diff

if TYPE_CHECKING:
    from acp_server.sessions import AcpSession

log = logging.getLogger(__name__)

LABEL = 500
"""Bytes of what an "always" covers."""

DECISIONS: Mapping[str, Decision] = {
    "allow": "allow-once",
    "allow-always": "allow-always",
    "reject": "reject-once",
}
"""What each option id that we offer means."""


class PermissionDesk:
    """Asks the client of one session."""

    def __init__(self, session: AcpSession) -> None:
        self._session = session

    async def approve(
        self, request: ApprovalRequest, _: Next[ApprovalRequest, Approval]
    ) -> Approval:
        """Ask, and translate the answer."""
        try:
            diffs = await foreseen(request.call)
            answer = await self._session.request(
                "session/request_permission", question(request, diffs)
            )
        except PeerError as error:
            log.info("the client refused to ask: %s", error)
            return Approval("unavailable", "client")
        except ConnectionLost:
            return Approval("unavailable", "client")
        return Approval(decision(answer), "user")


async def foreseen(call: Call) -> Sequence[Diff]:
    """How the call would change files; nothing where that cannot be told."""
    try:
        arguments = call.tool.schema.checked(call.arguments)
        return await call.tool.foresee(arguments, Context(call.agent, call.id))
    except Exception as failure:  # the call's own result will say it
        log.debug("what %s would change cannot be told: %s", call.tool.name, failure)
        return ()


def question(request: ApprovalRequest, diffs: Sequence[Diff] = ()) -> dict[str, Any]:
    """The parameters but for the session: what is asked and what may be answered (V1-PERM-02).

    ``diffs`` are shown instead of what the call alone tells.
    """
    call = request.call
    card = card_of_call(call.tool, call.tool.name, call.arguments, str(call.agent.cwd))
    tool_call: dict[str, Any] = {
        "toolCallId": call.id,
        "title": card.title,
        "kind": card.kind,
        "status": "pending",
        "rawInput": raw_input(call.arguments),
    }
    if card.locations:
        tool_call["locations"] = card.locations
    if content := diff_items(diffs, Budget(CONTENT)) or card.content:
        tool_call["content"] = content
    return {"toolCall": tool_call, "options": options(request.verdict.label)}


def options(label: str) -> list[dict[str, str]]:
    """What may be answered. An "always" says what it covers."""
    always = f"Always allow {cut(label, LABEL)}" if label else "Always allow this"
    return [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "allow-always", "name": always, "kind": "allow_always"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]


def decision(answer: Any) -> Decision:
    """What a client's answer means. Unknown, malformed or missing is never an approval."""
    match answer:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
            return DECISIONS.get(option, "unavailable")
        case {"outcome": {"outcome": "cancelled"}}:
            return "cancelled"
    return "unavailable"
