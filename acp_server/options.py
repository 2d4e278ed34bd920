"""Config options and modes: one list, derived from the session's options, for both APIs.

Pure but for ``OptionsDesk``, which reads and records. The modes API of v1 is a view of the option
``mode`` (V1-MODE-04); booleans are shown only to clients that said they know them (V1-BOOL-01).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from acp_server.framing import INVALID_PARAMS
from acp_server.limits import Budget, cut
from acp_server.rpc import RpcError
from harness_core.agent import Agent
from harness_core.model.protocol import ModelInfo
from harness_core.plugins.options import (
    DELEGATE,
    EFFORT,
    EFFORTS,
    MODE,
    MODEL,
    MODES,
    options,
    set_option,
)

ConfigOption = dict[str, Any]

MODELS, NAMED = 30_000, 400
"""Bytes of all models that are listed, and of the values that an error names."""


def config_options(
    values: Mapping[str, str | bool], models: Sequence[ModelInfo], *, booleans: bool
) -> list[ConfigOption]:
    """The complete list, most important first (V1-CFG-01, -05)."""
    model = str(values[MODEL])
    found = [
        _select(MODE, "Mode", "mode", str(values[MODE]), mode_values()),
        _select(MODEL, "Model", "model", model, model_groups(models, model)),
        _select(EFFORT, "Thinking", "thought_level", str(values[EFFORT]), _efforts()),
    ]
    if booleans:
        found.append(
            {
                "id": DELEGATE,
                "name": "Use the editor",
                "description": "Read and write files and run commands through the editor",
                "type": "boolean",
                "currentValue": bool(values[DELEGATE]),
            }
        )
    return found


def _select(
    id: str, name: str, category: str, current: str, values: list[dict[str, Any]]
) -> ConfigOption:
    return {
        "id": id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": values,
    }


def mode_values() -> list[dict[str, Any]]:
    """The modes as values of an option."""
    return [{"value": m.id, "name": m.name, "description": m.description} for m in MODES]


def _efforts() -> list[dict[str, Any]]:
    return [{"value": effort, "name": effort.capitalize()} for effort in EFFORTS]


def model_groups(models: Sequence[ModelInfo], current: str) -> list[dict[str, Any]]:
    """The models as values, grouped by provider: as many as there is room for, and ``current``."""
    room = Budget(MODELS)
    first = sorted(models, key=lambda model: model.id != current)
    listed = {model.id for model in first if room.take(_model(model))}
    shown = [model for model in models if model.id in listed]
    return [
        {"group": provider, "name": provider, "options": list(map(_model, group))}
        for provider, group in groupby(shown, key=lambda model: model.provider)
    ]


def _model(model: ModelInfo) -> dict[str, Any]:
    return {"value": model.id, "name": model.name}


def session_modes(values: Mapping[str, str | bool]) -> dict[str, Any]:
    """``SessionModeState``: the same modes for the modes API (B.8)."""
    return {
        "currentModeId": values[MODE],
        "availableModes": [
            {"id": m.id, "name": m.name, "description": m.description} for m in MODES
        ],
    }


def checked(listed: Sequence[ConfigOption], id: str, value: object) -> str | bool:
    """``value`` if option ``id`` takes it. Raises ``RpcError`` (-32602) that lists what does."""
    option = next((o for o in listed if o["id"] == id), None)
    if option is None:
        known = ", ".join(o["id"] for o in listed)
        raise RpcError(INVALID_PARAMS, f"there is no option {id[:128]!r}; there are {known}")
    if option["type"] == "boolean":
        if not isinstance(value, bool):
            raise RpcError(INVALID_PARAMS, f"option {id} is boolean: send type and a boolean")
        return value
    valid = list(_values(option["options"]))
    if not isinstance(value, str) or value not in valid:
        some = cut(", ".join(valid), NAMED)
        raise RpcError(INVALID_PARAMS, f"option {id} takes one of {some}")
    return value


def _values(listed: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """The values of a select, groups included (V1-CFG-07)."""
    nested = [item["options"] if "group" in item else [item] for item in listed]
    return [str(item["value"]) for items in nested for item in items]


class OptionsDesk:
    """One session's options as its client sees them."""

    def __init__(self, agent: Agent, booleans: bool, models: Sequence[ModelInfo]) -> None:
        self._agent = agent
        self._booleans = booleans
        self.models = models

    def listed(self) -> list[ConfigOption]:
        """The complete list with current values."""
        values = options(self._agent)
        return config_options(values, self._known(str(values[MODEL])), booleans=self._booleans)

    def _known(self, current: str) -> Sequence[ModelInfo]:
        """The models, and the chosen one also if its provider does not list it."""
        if any(model.id == current for model in self.models):
            return self.models
        provider, _, name = current.partition(":")
        return [ModelInfo(provider, name), *self.models]

    def state(self) -> dict[str, Any]:
        """What ``session/new``, ``load`` and ``resume`` answer with."""
        return {"modes": session_modes(options(self._agent)), "configOptions": self.listed()}

    def set(self, id: str, value: object) -> None:
        """Change an option. Raises ``RpcError``; then nothing is changed (V1-CFG-08)."""
        set_option(self._agent, id, checked(self.listed(), id, value))
