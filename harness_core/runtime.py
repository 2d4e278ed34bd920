"""What all agents of a harness share: models, tools, the prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.to_thread

from harness_core.model.protocol import Model, ModelInfo

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

    async def context_window(self, info: ModelInfo) -> int | None:
        """The tokens that a model can take. What has to be looked up is, in a thread."""
        if info.context_window is not None or info.base_url is None:
            return info.context_window
        from harness_core.model.prices import context_window

        return await anyio.to_thread.run_sync(context_window, info)

    async def forget_models(self) -> None:
        """Close every model of a provider; it is made again when it is wanted again."""
        for id in [id for id, model in self.models.items() if model.info.provider != "local"]:
            await self.models.pop(id).aclose()

    async def aclose(self) -> None:
        """Close every model."""
        while self.models:
            _, model = self.models.popitem()
            await model.aclose()
