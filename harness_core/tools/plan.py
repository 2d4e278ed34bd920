"""``plan``: write down the steps of the work, and how far they are (V1-PLAN-01, V1-PLAN-02)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import MaxLen, MinLen

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
)


@dataclass(frozen=True, slots=True)
class Step(Arguments):
    content: Annotated[str, MinLen(1), MaxLen(1000)]
    """What is to be done, in a few words."""
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    """How far it is."""
    priority: Literal["high", "medium", "low"] = "medium"
    """How much it matters."""


@dataclass(frozen=True, slots=True)
class PlanArguments(Arguments):
    entries: Annotated[tuple[Step, ...], MaxLen(100)]
    """All steps in order, the finished ones included; they replace the whole previous plan."""


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
