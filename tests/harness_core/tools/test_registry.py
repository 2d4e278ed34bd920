"""The registry: tools by name, in a stable order, every change announced."""

from __future__ import annotations

from typing import Any

import pytest

from harness_core.bus import Bus
from harness_core.tools.builtin import builtin_tools
from harness_core.tools.plan import Plan
from harness_core.tools.registry import TOOLS_CHANGE, ToolRegistry, ToolsChange


@pytest.fixture
def bus() -> Bus:
    return Bus()


def test_tools_are_found_by_name_and_listed_in_the_order_they_came(bus: Bus) -> None:
    registry = ToolRegistry(bus)
    tools = builtin_tools({})
    for tool in tools:
        registry.register(tool)
    assert [spec.name for spec in registry.specs()] == [tool.name for tool in tools]
    assert registry.get("read") is tools[0]
    assert registry.get("nope") is None
    assert "read" in registry
    assert len(registry) == len(tools)


def test_a_disposer_takes_away_its_own_tool_once(bus: Bus) -> None:
    registry = ToolRegistry(bus)
    dispose = registry.register(Plan())
    dispose()
    again = Plan()
    registry.register(again)
    dispose()
    assert registry.get("plan") is again


def test_a_taken_name_is_refused(bus: Bus) -> None:
    registry = ToolRegistry(bus)
    first = Plan()
    registry.register(first)
    with pytest.raises(ValueError, match="'plan' is registered already"):
        registry.register(Plan())
    assert registry.get("plan") is first


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 65])
def test_a_name_that_model_apis_refuse_is_refused(bus: Bus, name: str) -> None:
    tool = Plan()
    tool.name = name
    with pytest.raises(ValueError, match="letters, digits"):
        ToolRegistry(bus).register(tool)


def test_changes_are_announced(bus: Bus) -> None:
    heard: list[ToolsChange] = []
    bus.on(TOOLS_CHANGE, heard.append)
    tool = Plan()
    ToolRegistry(bus).register(tool)()
    assert heard == [ToolsChange("added", tool), ToolsChange("removed", tool)]


def test_disabled_tools_are_left_out() -> None:
    settings: dict[str, Any] = {"disabled": ["shell", "write"]}
    names = [tool.name for tool in builtin_tools(settings)]
    assert "shell" not in names
    assert "write" not in names
    assert "read" in names
