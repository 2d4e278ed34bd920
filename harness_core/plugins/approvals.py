"""Approvals: who may run what.

Stands at ``tools/pre-execute``: what only looks is allowed; what has effects is allowed, asked for
or denied by the session's mode and the remembered answers. A remembered answer is a fact of the
session; where there is a rule store it lasts for the project, and the store alone decides, so that
what is revoked there is revoked. Knows no front end: the question is answered at ``tools/approve``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness_core.agent import Agent
from harness_core.bus import Next
from harness_core.content import Json
from harness_core.facts import ApprovalRule
from harness_core.fold import Fold
from harness_core.plugins.options import MODE, options
from harness_core.plugins.rule_store import RuleStore, RuleStoreError
from harness_core.plugins.rules import EDITS, Rule, decide, scope_of
from harness_core.session import Session, SessionEvent
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

log = logging.getLogger(__name__)


class SessionRules(Fold):
    """The remembered answers by scope: the last one of a scope wins."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.rules: dict[str, Rule] = {}

    def feed(self, event: SessionEvent) -> None:
        """Take one event."""
        match event.fact:
            case ApprovalRule(scope=scope, revoked=True):
                self.rules.pop(scope, None)
            case ApprovalRule(scope=scope, allow=allow):
                self.rules[scope] = Rule(scope, allow)


class Memory:
    """Where remembered answers are looked up and kept."""

    def __init__(self, store: RuleStore | None) -> None:
        self.store = store

    def rules(self, agent: Agent) -> list[Rule]:
        """The rules that hold for an agent now."""
        if self.store is None:
            return list(SessionRules.of(agent).rules.values())
        try:
            return self.store.rules(project_of(agent))
        except RuleStoreError as failure:
            log.warning("%s", failure)
            return []

    @property
    def lasting(self) -> str:
        """How long an answer is remembered, as people read it."""
        return "in this session" if self.store is None else "in this project"

    def remember(self, agent: Agent, rule: Rule) -> None:
        """Keep an answer. Raises ``RuleStoreError``."""
        if self.store is not None:
            self.store.remember(project_of(agent), rule)
        agent.session.append(ApprovalRule(rule.scope, rule.allow))

    def revoke(self, agent: Agent, scope: str) -> bool:
        """Take an answer back; whether there was one. Raises ``RuleStoreError``."""
        known = any(rule.scope == scope for rule in self.rules(agent))
        if known:
            agent.session.append(ApprovalRule(scope, allow=False, revoked=True))
            if self.store is not None:
                self.store.revoke(project_of(agent), scope)
        return known


def project_of(agent: Agent) -> str:
    """The project that an agent's rules belong to: its directory's real path."""
    return os.path.realpath(agent.cwd)


def install(harness: Harness) -> None:
    """Stand at ``tools/pre-execute`` and remember at ``tools/approve``."""
    memory = harness.memory

    async def permit(call: Call, following: Next[Call, Verdict]) -> Verdict:
        verdict = await following(call)
        if call.tool.effect != "changes" or verdict.kind != "allow":
            return verdict
        if verdict.arguments is not None:
            call = replace(call, arguments=verdict.arguments)
        return _decide(memory, call, verdict)

    async def remember(
        request: ApprovalRequest, following: Next[ApprovalRequest, Approval]
    ) -> Approval:
        approval = await following(request)
        if approval.decision in ("allow-always", "reject-always") and request.verdict.scope:
            rule = Rule(request.verdict.scope, approval.decision == "allow-always")
            try:
                memory.remember(request.call.agent, rule)
            except RuleStoreError as failure:
                log.warning("%s", failure)
        return approval

    harness.bus.on(PRE_EXECUTE, permit)
    harness.bus.on(APPROVE, remember)


def _decide(memory: Memory, call: Call, verdict: Verdict) -> Verdict:
    """Plan mode refuses all, and then what was refused stays refused in every mode; what neither a
    rule nor the mode allows is a question that says what "always" would cover."""
    name, kind, mode = call.tool.name, call.tool.kind, options(call.agent)[MODE]
    if mode == "plan":
        why = "the session is in plan mode: nothing is changed or run. Tell what you would do"
        return replace(verdict, kind="deny", reason=why, by="mode")
    rule = decide(memory.rules(call.agent), name, kind, _located(call))
    if rule is not None and not rule.allow:
        why = f"the user rejected this {memory.lasting}"
        return replace(verdict, kind="deny", reason=why, by="rule")
    if rule is not None or mode == "auto" or (mode == "accept-edits" and kind in EDITS):
        return verdict
    scope = scope_of(name, kind, call.arguments)
    label = f"{scope.label} {memory.lasting}"
    reason = f"{name} needs your approval"
    return replace(verdict, kind="ask", reason=reason, scope=scope.key, label=label)


def _located(call: Call) -> Mapping[str, Json]:
    """The arguments, with the real path of a file that is to be changed, as rules are written."""
    path = call.arguments.get("path")
    if call.tool.kind not in EDITS or not isinstance(path, str):
        return call.arguments
    try:
        real = Path(os.path.realpath(os.path.normpath(call.agent.cwd / path)))
    except ValueError:  # not a path at all: the tool will say so
        return call.arguments
    project = project_of(call.agent)
    near = real.relative_to(project) if real.is_relative_to(project) else real
    return {**call.arguments, "path": near.as_posix()}
