"""``plan``: the whole list each time, as a fact (V1-PLAN-02)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness_core.facts import PlanEntry, PlanWrite
from harness_core.tools.tool import ToolError, ToolOutput

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[ToolOutput]]


async def test_a_plan_is_written_as_one_fact(context: Any, call: Call) -> None:
    await call(
        "plan",
        entries=[
            {"content": "look", "status": "completed"},
            {"content": "leap", "status": "in_progress", "priority": "high"},
            {"content": "land"},
        ],
    )
    assert context.facts == [
        PlanWrite(
            (
                PlanEntry("look", "medium", "completed"),
                PlanEntry("leap", "high", "in_progress"),
                PlanEntry("land", "medium", "pending"),
            )
        )
    ]


@pytest.mark.parametrize("entry", [{"content": ""}, {"content": "x", "status": "done"}, "x"])
async def test_a_wrong_entry_is_refused(context: Any, call: Call, entry: Any) -> None:
    with pytest.raises(ToolError, match=r"entries\.0"):
        await call("plan", entries=[entry])
    assert context.facts == []
