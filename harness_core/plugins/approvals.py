"""Approvals: who may run what. Remembered answers are facts of the session.

Stands at ``tools/pre-execute``: what only looks is allowed, what has effects is asked for, unless
the settings or a remembered answer decide. Knows no front end: the question itself is answered at
``tools/approve``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness_core.agent import Agent
from harness_core.bus import Next
from harness_core.facts import ApprovalRule
from harness_core.tools.pipeline import (
    APPROVE,
    PRE_EXECUTE,
    Approval,
    ApprovalRequest,
    Call,
    Verdict,
)

if TYPE_CHECKING:
    from harness_core.harness import Harness


def rules(agent: Agent) -> dict[str, bool]:
    """The remembered answers by scope: a fold over the log, the last one of a scope wins."""
    found: dict[str, bool] = {}
    for event in agent.session.events:
        if isinstance(event.fact, ApprovalRule):
            if event.fact.revoked:
                found.pop(event.fact.scope, None)
            else:
                found[event.fact.scope] = event.fact.allow
    return found


def scope_of(call: Call) -> tuple[str, str]:
    """What an "always" for this call would cover, and how a person reads it."""
    if call.tool.kind == "execute":
        command = str(call.arguments.get("command", ""))
        return f"{call.tool.name}:{command}", f"`{command}`"
    return call.tool.name, f"{call.tool.name}"


def install(harness: Harness) -> None:
    """Stand at ``tools/pre-execute`` and remember at ``tools/approve``."""

    async def decide(call: Call, following: Next[Call, Verdict]) -> Verdict:
        if call.tool.effect != "changes" or call.agent.settings.approval == "auto":
            return await following(call)
        verdict = await following(call)
        if verdict.arguments is not None:
            call = replace(call, arguments=verdict.arguments)
        scope, label = scope_of(call)
        allowed = rules(call.agent).get(scope)
        if allowed is False:
            return Verdict("deny", "the user rejected this for the rest of the session", "rule")
        if allowed or verdict.kind != "allow":
            return verdict
        reason = f"{label} needs your approval"
        return replace(verdict, kind="ask", reason=reason, scope=scope, label=label)

    async def remember(
        request: ApprovalRequest, following: Next[ApprovalRequest, Approval]
    ) -> Approval:
        approval = await following(request)
        if approval.decision in ("allow-always", "reject-always") and request.verdict.scope:
            rule = ApprovalRule(request.verdict.scope, approval.decision == "allow-always")
            request.call.agent.session.append(rule)
        return approval

    harness.bus.on(PRE_EXECUTE, decide)
    harness.bus.on(APPROVE, remember)
