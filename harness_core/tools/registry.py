"""The tools that are there, by name, in the order they came.

Announces every change at ``tools/change``, so that whoever shows the tools can look again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from harness_core.bus import Bus, Disposer, Emit
from harness_core.model.protocol import ToolSpec
from harness_core.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolsChange:
    """A tool came or went."""

    change: Literal["added", "removed"]
    tool: Tool[Any]


TOOLS_CHANGE = Emit[ToolsChange]("tools/change", "A tool was registered or taken away.")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolRegistry:
    """Tools by name. Iterates in the order of registration, which is the order the model sees.

    With a ``parent``, its tools come first; a session has its own ones beside those of all.
    """

    def __init__(self, bus: Bus, parent: ToolRegistry | None = None) -> None:
        self._bus = bus
        self._parent = parent
        self._tools: dict[str, Tool[Any]] = {}

    def register(self, tool: Tool[Any]) -> Disposer:
        """Add ``tool``; the disposer takes it away. Raises ``ValueError`` for an impossible name.

        Model APIs take names of up to 64 letters, digits, ``_`` and ``-``.
        """
        if not _NAME.fullmatch(tool.name):
            raise ValueError(
                f"tool name {tool.name!r}: use 1 to 64 letters, digits, underscores and hyphens"
            )
        if (there := self.get(tool.name)) is not None:
            raise ValueError(
                f"a tool named {tool.name!r} is registered already ({there!r}): "
                "take that one away first, or choose another name"
            )
        self._tools[tool.name] = tool
        self._bus.emit(TOOLS_CHANGE, ToolsChange("added", tool))

        def dispose() -> None:
            if self._tools.get(tool.name) is tool:
                del self._tools[tool.name]
                self._bus.emit(TOOLS_CHANGE, ToolsChange("removed", tool))

        return dispose

    def get(self, name: str) -> Tool[Any] | None:
        """The tool of that name, if there is one."""
        tool = self._tools.get(name)
        return self._parent.get(name) if tool is None and self._parent else tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """All tools as the model is told about them, in a stable order."""
        return tuple(tool.spec() for tool in self)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter((*(self._parent or ()), *self._tools.values()))

    def __len__(self) -> int:
        return len(self._parent or ()) + len(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None
