"""What a session was told about itself: its mode, its model, how hard to think.

One source of truth: ``session/option`` facts over the settings. Stands at ``agent/request`` to call
the model that the session chose; what a mode allows is decided where tools are approved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness_core.agent import Agent
from harness_core.bus import Next
from harness_core.facts import SessionOption
from harness_core.fold import Fold
from harness_core.loop import REQUEST, RequestDraft
from harness_core.model.protocol import ModelConfig
from harness_core.session import Session, SessionEvent

if TYPE_CHECKING:
    from harness_core.harness import Harness

MODE: Final = "mode"
MODEL: Final = "model"
EFFORT: Final = "thought_level"
DELEGATE: Final = "delegate"

DEFAULT_EFFORT: Final = "default"
EFFORTS: Final = (DEFAULT_EFFORT, "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Mode:
    """How much an agent may do without asking."""

    id: str
    name: str
    description: str


MODES: Final = (
    Mode("ask", "Ask", "Ask before anything is changed or run"),
    Mode("accept-edits", "Accept edits", "Edit files in the project freely, ask before running"),
    Mode("plan", "Plan", "Only look: nothing is changed or run"),
    Mode("auto", "Auto", "Change and run without asking"),
)


class Chosen(Fold):
    """The options that facts have set, by id."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.values: dict[str, str | bool] = {}

    def feed(self, event: SessionEvent) -> None:
        """Take one event."""
        if isinstance(event.fact, SessionOption):
            self.values[event.fact.id] = event.fact.value


def options(agent: Agent) -> dict[str, str | bool]:
    """Every option's value now: the session's facts over the settings."""
    settings = agent.settings
    defaults: dict[str, str | bool] = {
        MODE: settings.mode,
        MODEL: settings.model,
        EFFORT: settings.effort or DEFAULT_EFFORT,
        DELEGATE: settings.delegate,
    }
    return {**defaults, **Chosen.of(agent).values}


def set_option(agent: Agent, id: str, value: str | bool, *, initial: bool = False) -> None:
    """Record a change; nothing is recorded if it is none. Raises ``FactRefused``.

    ``initial`` records what a session begins with: later settings do not change it.
    """
    if initial or options(agent).get(id) != value:
        agent.session.append(SessionOption(id, value))


def install(harness: Harness) -> None:
    """Stand at ``agent/request``."""

    async def choose(
        draft: RequestDraft, following: Next[RequestDraft, ModelConfig]
    ) -> ModelConfig:
        values = options(draft.agent)
        effort = str(values[EFFORT])
        config = replace(
            draft.config,
            model=str(values[MODEL]),
            effort=None if effort == DEFAULT_EFFORT else effort,
        )
        return await following(replace(draft, config=config))

    harness.bus.on(REQUEST, choose)
