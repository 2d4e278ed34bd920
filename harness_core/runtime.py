"""What all agents of a harness share: models, tools, the prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness_core.model.protocol import Model

if TYPE_CHECKING:
    from harness_core.prompt import Prompt
    from harness_core.tools.pipeline import Pipeline
    from harness_core.tools.registry import ToolRegistry


@dataclass(slots=True)
class Runtime:
    """The shared parts. ``resolve`` makes a model from its id and may raise ``ModelSetupError``."""

    resolve: Callable[[str], Model]
    tools: ToolRegistry
    pipeline: Pipeline
    prompt: Prompt
    models: dict[str, Model] = field(default_factory=dict)

    def model(self, id: str) -> Model:
        """The model of that id, made once. Raises ``ModelSetupError``."""
        if id not in self.models:
            self.models[id] = self.resolve(id)
        return self.models[id]

    async def aclose(self) -> None:
        """Close every model that was made."""
        while self.models:
            _, model = self.models.popitem()
            await model.aclose()
