"""The built-in tools, as one table. To add one: write its file, name it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness_core.tools.edit import Edit
from harness_core.tools.glob import Glob
from harness_core.tools.grep import Grep
from harness_core.tools.list import List
from harness_core.tools.plan import Plan
from harness_core.tools.read import Read
from harness_core.tools.shell import Shell
from harness_core.tools.tool import Tool
from harness_core.tools.write import Write

TOOLS: tuple[type[Tool[Any]], ...] = (Read, Write, Edit, List, Glob, Grep, Shell, Plan)


def builtin_tools(settings: Mapping[str, Any]) -> list[Tool[Any]]:
    """One of each, in the order the model sees, but for those in ``settings["disabled"]``."""
    disabled = settings.get("disabled", ())
    return [tool() for tool in TOOLS if tool.name not in disabled]
