"""From ``provider:name`` to a model that can be called, and to all that can be chosen.

Start-up resolves one model here, so importing and resolving cost little and open no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness_core.model.choices import (
    LISTS,
    available_models,
    discover,
    known_models,
    provider_title,
)
from harness_core.model.protocol import Model, ModelInfo
from harness_core.model.providers import (
    ANTHROPIC,
    DEMO,
    OPENAI,
    RESPONSES,
    Provider,
    default_model_id,
    host_of,
    provider,
    split,
)
from harness_core.model.settings import ModelSettings

__all__ = [
    "available_models",
    "default_model_id",
    "discover",
    "known_models",
    "provider_title",
    "resolve",
]


def resolve(model_id: str | None, settings: ModelSettings, env: Mapping[str, str]) -> Model:
    """The model of that id, or the default one. Raises ``ModelSetupError``."""
    id, name = split(model_id or default_model_id(settings, env))
    found = provider(id, settings, env)
    return MAKERS[found.kind](found, LISTS.known(found, name))


# --- how a model of each kind is made ----------------------------------------------------------


def _demo(provider: Provider, info: ModelInfo) -> Model:
    from harness_core.model.demo import CONTEXT_WINDOW, DemoModel

    return DemoModel(info.name, context_window=info.context_window or CONTEXT_WINDOW)


def _openai(provider: Provider, info: ModelInfo) -> Model:
    from harness_core.model.openai import OpenAIModel

    official = host_of(provider.base_url).endswith((".openai.com", ".azure.com"))
    return OpenAIModel(
        info,
        provider.endpoint(),
        reasoning_field=provider.settings.reasoning_field,
        # Its newer name is the only one that OpenAI's reasoning models accept; others know the old.
        limit_field="max_completion_tokens" if official else "max_tokens",
    )


def _responses(provider: Provider, info: ModelInfo) -> Model:
    from harness_core.model.responses import ResponsesModel

    return ResponsesModel(info, provider.endpoint())


def _anthropic(provider: Provider, info: ModelInfo) -> Model:
    from harness_core.model.anthropic import AnthropicModel

    return AnthropicModel(info, provider.endpoint())


MAKERS: dict[str, Callable[[Provider, ModelInfo], Model]] = {
    ANTHROPIC: _anthropic,
    DEMO: _demo,
    OPENAI: _openai,
    RESPONSES: _responses,
}
"""How a model behind each API is made."""
