"""The way of a tool call: validate, pre-execute, approve, guard, execute, post-execute, result.

Read-only tools run side by side, the others are barriers; results are committed in the model's
order. Every call gets exactly one result; what is cancelled here is closed by the agent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import anyio
import orjson

from harness_core.bus import Emit, Waterfall
from harness_core.content import Json, Text
from harness_core.facts import (
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    FactRefused,
    ToolArguments,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    field_names,
)
from harness_core.tools.body import Context, run_body
from harness_core.tools.tool import Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from harness_core.agent import Agent
    from harness_core.tools.registry import ToolRegistry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A call on its way. ``arguments`` are the effective ones, validated."""

    agent: Agent
    tool: Tool[Any]
    id: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What pre-execute decided. ``by`` names who; ``arguments`` rewrites the call's.

    ``scope`` is what a remembered answer would cover, ``label`` how a person reads it.
    """

    kind: Literal["allow", "deny", "ask"]
    reason: str = ""
    by: str = ""
    arguments: Mapping[str, Json] | None = None
    scope: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call waits for somebody's word."""

    call: Call
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Approval:
    """The word, and who gave it."""

    decision: Decision
    by: str


@dataclass(frozen=True, slots=True)
class Executed:
    """A call and what came of it. ``error`` is a ``ToolError`` code."""

    agent: Agent
    call_id: str
    name: str
    output: ToolOutput
    error: str | None = None


PRE_EXECUTE = Waterfall[Call, Verdict](
    "tools/pre-execute", "A validated call is about to run: allow, deny, ask, or rewrite it."
)
APPROVE = Waterfall[ApprovalRequest, Approval](
    "tools/approve", "A call needs a person's word; answered by a front end."
)
EXECUTE = Waterfall[Call, ToolOutput]("tools/execute", "Around the tool's body.")
POST_EXECUTE = Waterfall[Executed, Executed](
    "tools/post-execute", "A call has its outcome: accept it, add to it, or replace it."
)
RESULT = Emit[ToolReturned]("tools/result", "A result was committed.")


class Pipeline:
    """Runs the calls of a step. ``grace`` is how many seconds a body may take to end."""

    def __init__(self, *, parallel: int = 8, grace: float = 5.0) -> None:
        self.parallel = parallel
        self.grace = grace

    async def run(self, agent: Agent, calls: Sequence[ToolCalled]) -> None:
        """Run ``calls``; their results are in the log, in order, when it returns."""
        for group in self._groups(agent.tools, calls):
            await self._run_group(agent, group)

    def _groups(self, tools: ToolRegistry, calls: Sequence[ToolCalled]) -> list[list[ToolCalled]]:
        groups: list[list[ToolCalled]] = []
        together = False
        for call in calls:
            tool = tools.get(call.name)
            harmless = tool is None or tool.effect == "reads"
            if harmless and together and len(groups[-1]) < self.parallel:
                groups[-1].append(call)
            else:
                groups.append([call])
            together = harmless
        return groups

    async def _run_group(self, agent: Agent, group: list[ToolCalled]) -> None:
        results: dict[int, ToolReturned] = {}
        committed = 0

        async def one(index: int, call: ToolCalled) -> None:
            nonlocal committed
            results[index] = await self._result(agent, call)
            while committed in results:
                self._commit(agent, results[committed])
                committed += 1

        if len(group) == 1:
            await one(0, group[0])
            return
        async with anyio.create_task_group() as tasks:
            for index, call in enumerate(group):
                tasks.start_soon(one, index, call)

    def _commit(self, agent: Agent, result: ToolReturned) -> None:
        try:
            agent.session.append(result)
        except FactRefused as failure:
            text = f"{result.name} returned something that cannot be kept: {failure}"
            result = replace(result, content=(Text(text),), error="invalid-output", meta=None)
            agent.session.append(result)
        agent.bus.emit(RESULT, result)

    async def _result(self, agent: Agent, call: ToolCalled) -> ToolReturned:
        try:
            output = await self._execute(agent, call)
            executed = Executed(agent, call.call_id, call.name, output, _code(output))
        except ToolError as failure:
            output = ToolOutput.text(str(failure), failure.meta, is_error=True)
            executed = Executed(agent, call.call_id, call.name, output, failure.code)
        except Exception as failure:
            executed = self._crashed(agent, call, failure)
        executed = await self._after(executed)
        output = executed.output
        return ToolReturned(
            call.turn,
            call.step,
            call.call_id,
            call.name,
            clean(output.content),
            executed.error,
            clean(output.meta),
        )

    def _crashed(self, agent: Agent, call: ToolCalled, failure: Exception) -> Executed:
        log.error("tool %s failed", call.name, exc_info=failure)
        text = f"{call.name} failed unexpectedly ({type(failure).__name__}); see the agent's log."
        output = ToolOutput.text(text, is_error=True)
        return Executed(agent, call.call_id, call.name, output, "failed")

    async def _after(self, executed: Executed) -> Executed:
        try:
            after = await executed.agent.bus.waterfall(POST_EXECUTE, executed, _unchanged)
            if isinstance(after, Executed):
                return after
            raise TypeError(f"a listener answered {type(after).__name__}, not Executed")
        except Exception as failure:
            log.error("tools/post-execute failed", exc_info=failure)
            text = f"A check after {executed.name} failed; its result is withheld."
            return replace(executed, output=ToolOutput.text(text, is_error=True), error="failed")

    async def _execute(self, agent: Agent, called: ToolCalled) -> ToolOutput:
        tool = agent.tools.get(called.name)
        if tool is None:
            known = ", ".join(spec.name for spec in agent.tools.specs())
            raise ToolError(f"there is no tool {called.name!r}; use {known}", code="unknown-tool")
        given = _parse(called.arguments)
        arguments = tool.schema.validate(called.arguments)
        call = Call(agent, tool, called.call_id, given)
        permitted = await self._permit(call)
        if permitted is not call:
            call, arguments = permitted, tool.schema.validate(_json(permitted.arguments))
        context = Context(agent, call.id)
        agent.session.append(ToolStarted(call.id))
        if tool.effect == "changes":
            await self._write_ahead(agent)

        async def body(_: Call) -> ToolOutput:
            return await run_body(tool.execute(arguments, context), self.grace)

        output = await agent.bus.waterfall(EXECUTE, call, body)
        if not isinstance(output, ToolOutput):
            raise ToolError(f"{called.name} returned no valid output", code="invalid-output")
        return output

    async def _permit(self, call: Call) -> Call:
        """Through pre-execute and approval; the call to run, ``call`` itself if nobody rewrote it.

        Raises ``ToolError`` (``denied``), also for a verdict that is none.
        """
        agent = call.agent
        try:
            verdict = await agent.bus.waterfall(PRE_EXECUTE, call, _allow)
            if not isinstance(verdict, Verdict):
                raise TypeError(f"a listener answered {type(verdict).__name__}, not Verdict")
        except ToolError:
            raise
        except Exception as failure:
            log.error("tools/pre-execute failed", exc_info=failure)
            raise ToolError(
                f"{call.tool.name} was not run: a check before it failed", code="denied"
            ) from None
        if verdict.arguments is not None:
            text = _json(verdict.arguments)
            call.tool.schema.validate(text)
            agent.session.append(ToolArguments(call.id, text, verdict.by))
            call = replace(call, arguments=verdict.arguments)
        if verdict.kind == "ask":
            await self._approve(ApprovalRequest(call, verdict))
        elif verdict.kind != "allow":
            raise ToolError(
                f"{call.tool.name} was not run: {verdict.reason or 'denied'}", code="denied"
            )
        return call

    async def _approve(self, request: ApprovalRequest) -> None:
        session, call = request.call.agent.session, request.call
        session.append(ApprovalAsked(call.id, request.verdict.reason))
        try:
            approval = await call.agent.bus.waterfall(APPROVE, request, _nobody)
            if approval.decision not in get_args(Decision):
                raise ValueError(f"{approval.decision!r} is no answer")
        except anyio.get_cancelled_exc_class():
            session.append(ApprovalDecided(call.id, "cancelled", "cancel"))
            raise
        except Exception as failure:
            log.error("tools/approve failed", exc_info=failure)
            approval = Approval("unavailable", "failure")
        session.append(ApprovalDecided(call.id, approval.decision, approval.by))
        if approval.decision not in ("allow-once", "allow-always"):
            raise ToolError(_REFUSALS[approval.decision].format(call.tool.name), code="denied")

    async def _write_ahead(self, agent: Agent) -> None:
        """An effect may only happen after its call is safe on disk."""
        try:
            await agent.session.flush()
        except Exception as failure:
            agent.error(f"the session could not be saved: {failure}", "not-saved")
            raise ToolError(
                "not run: the session's log cannot be written (is the disk full?), and a change "
                "must not happen unrecorded"
            ) from None


_REFUSALS: Mapping[str, str] = {
    "reject-once": "The user rejected this call of {}. Do not repeat it; ask what they want.",
    "reject-always": "The user rejected {} for the rest of this session. Do not try it again.",
    "cancelled": "The user cancelled the question whether {} may run; it was not run.",
    "unavailable": "{} needs a person's approval, and nobody could give it; it was not run.",
}


def _parse(arguments: str) -> Mapping[str, Json]:
    try:
        given: Mapping[str, Json] = orjson.loads(arguments or "{}")
    except ValueError as failure:
        text = f"the arguments are not valid JSON: {failure}"
        raise ToolError(text, code="invalid-arguments") from None
    return given


def _json(arguments: Mapping[str, Json]) -> str:
    return orjson.dumps(dict(arguments)).decode()


def _code(output: ToolOutput) -> str | None:
    return "failed" if output.is_error else None


def clean(value: Any) -> Any:
    """``value`` with every lone surrogate (from file names, say) made a replacement character."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, tuple | list):
        return type(value)(map(clean, value))
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = field_names(type(value))
        return replace(value, **{name: clean(getattr(value, name)) for name in names})
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


async def _allow(_: Call) -> Verdict:
    return Verdict("allow")


async def _nobody(_: ApprovalRequest) -> Approval:
    return Approval("unavailable", "nobody")


async def _unchanged(executed: Executed) -> Executed:
    return executed
