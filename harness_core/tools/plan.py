"""``plan``: write down the steps of the work, and how far they are (V1-PLAN-01, V1-PLAN-02)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness_core.content import Json
from harness_core.facts import PlanEntry, PlanWrite
from harness_core.tools import cards
from harness_core.tools.tool import (
    Arguments,
    Card,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolOutput,
    parameter,
)


@dataclass(frozen=True, slots=True)
class Step(Arguments):
    content: str = parameter("What is to be done, in a few words.", min_length=1, max_length=1000)
    status: Literal["pending", "in_progress", "completed", "cancelled"] = parameter(
        "How far it is.", "pending"
    )
    priority: Literal["high", "medium", "low"] = parameter("How much it matters.", "medium")


@dataclass(frozen=True, slots=True)
class PlanArguments(Arguments):
    entries: tuple[Step, ...] = parameter(
        "All steps in order, the finished ones included; they replace the whole previous plan.",
        max_length=100,
    )


class Plan(Tool[PlanArguments]):
    """Keep the plan."""

    name = "plan"
    description = (
        "Keep a plan of work that takes several steps; the user watches it. Send all entries each "
        "time, and send them again as soon as a step is begun or done. One step at a time is "
        "in_progress."
    )
    effect = "none"
    kind = "think"
    schema = Schema(PlanArguments)

    async def execute(self, arguments: PlanArguments, context: ToolContext) -> ToolOutput:
        entries = tuple(
            PlanEntry(step.content, step.priority, step.status) for step in arguments.entries
        )
        context.append(PlanWrite(entries))
        done = sum(entry.status == "completed" for entry in entries)
        return ToolOutput.text(f"The plan is written down: {done} of {len(entries)} steps done.")

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        return Card(title="Update the plan", kind=self.kind)

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        return Card(content=cards.texts(outcome.content) if outcome.error else ())
