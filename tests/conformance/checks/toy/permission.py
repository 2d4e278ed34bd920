"""Asking before a tool runs, and reading the answer with suspicion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toy.mutation import broken
from toy.peer import Failure, Json

if TYPE_CHECKING:
    from toy.session import Session

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


async def allowed(session: Session, call: Json) -> bool:
    """Whether the user lets this call run. Anything but a clear yes is a no."""
    if call["title"] in session.always:
        return True
    options = OPTIONS[:2] if broken("PERM-01") else OPTIONS
    try:
        answer = await session.ask(
            "session/request_permission", {"toolCall": call, "options": options}
        )
    except Failure:
        if broken("CAN-03.error"):
            raise
        return broken("PERM-03.error")
    chosen = _chosen(answer)
    if chosen == "always" and not broken("PERM-04"):
        session.always.add(call["title"])
    return chosen in {"yes", "always"} or broken("PERM-02")


def _chosen(answer: Any) -> str | None:
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if not isinstance(outcome, dict):
        return "yes" if broken("PERM-03.malformed") else None
    if outcome.get("outcome") != "selected" and not broken("PERM-03.outcome"):
        return None
    option = outcome.get("optionId")
    known = any(option == offered["optionId"] for offered in OPTIONS)
    return "yes" if broken("PERM-03.option") and not known else option
