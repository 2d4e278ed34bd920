"""The models that a user can choose from: what providers list, what settings name, and the demo.

Providers are asked side by side and for a bounded time, and their answers are kept in this process.
Who has no time to wait takes what is known already. Importing this costs little.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from harness_core.model.protocol import ModelInfo, ModelSetupError
from harness_core.model.providers import (
    DEFAULT_MODEL,
    DEMO,
    Provider,
    callable_providers,
    default_model_id,
    is_near,
    provider,
    split,
)
from harness_core.model.settings import ModelSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. Servers nearby answer at once and change often; the others do neither."""

    patience: float
    """The longest wait for a list."""
    freshness: float
    """How long a list is good."""


NEAR, FAR = Times(0.5, 10.0), Times(5.0, 600.0)
PAUSE = 30.0
"""Seconds until a provider that gave no list is asked again."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A provider's list, and until when it is good."""

    models: tuple[ModelInfo, ...]
    until: float


class Lists:
    """The lists that providers gave. ``clock`` tells seconds."""

    def __init__(
        self, *, near: Times = NEAR, far: Times = FAR, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times = {True: near, False: far}
        self._clock = clock
        self._kept: dict[tuple[str, ...], Kept] = {}

    def of(self, provider: Provider) -> list[ModelInfo]:
        """What the settings name of a provider's models, and its last list if it gave one."""
        kept = self._kept.get(_key(provider))
        models = kept.models if kept else ()
        listed = [_described(provider.model(info.name), info) for info in models]
        names = {info.name for info in listed}
        said = [name for name in provider.settings.context_windows if name not in names]
        return [*map(provider.model, said), *listed]

    def known(self, provider: Provider, name: str) -> ModelInfo:
        """What the settings and the last list say of a model."""
        return next((i for i in self.of(provider) if i.name == name), provider.model(name))

    async def refresh(self, providers: Iterable[Provider]) -> None:
        """Ask all whose list is not good any more, side by side. Raises nothing."""
        import anyio

        async with anyio.create_task_group() as group:
            for provider in providers:
                kept = self._kept.get(_key(provider))
                if kept is None or kept.until <= self._clock():
                    group.start_soon(self._ask, provider)

    async def _ask(self, provider: Provider) -> None:
        from harness_core.model.listing import PATHS, NoList, ask, models

        near, key = is_near(provider.base_url), _key(provider)
        times = self._times[near]
        try:
            answer = await ask(provider.endpoint(), PATHS[provider.kind], times.patience)
        except NoList as failure:
            log.debug("no list of models: %s", failure)
            self._miss(key, near)
        else:
            found = tuple(models(answer, provider.id))
            self._kept[key] = Kept(found, self._clock() + times.freshness)

    def _miss(self, key: tuple[str, ...], near: bool) -> None:
        """A server nearby that does not answer is gone; others have what they had."""
        last = self._kept.pop(key, None)
        if not near:
            self._kept[key] = Kept(last.models if last else (), self._clock() + PAUSE)


LISTS = Lists()
"""What this process was told."""


def known_models(
    settings: ModelSettings, env: Mapping[str, str], lists: Lists = LISTS
) -> list[ModelInfo]:
    """The models to choose from as far as they are known, without asking anybody.

    They are grouped by provider; the default model is always there, the demo model is last.
    """
    groups = {found.id: lists.of(found) for found in callable_providers(settings, env)}
    if default := _default(settings, env, lists):
        group = groups.setdefault(default.provider, [])
        if default.name not in {info.name for info in group}:
            group.insert(0, default)
    others = [info for info in groups.pop(DEMO, []) if info.id != DEFAULT_MODEL]
    return [info for group in (*groups.values(), [_demo()], others) for info in group]


async def available_models(
    settings: ModelSettings, env: Mapping[str, str], lists: Lists = LISTS
) -> list[ModelInfo]:
    """As ``known_models``, after every provider that can be called was asked. Raises nothing."""
    await lists.refresh(callable_providers(settings, env))
    return known_models(settings, env, lists)


async def discover(
    settings: ModelSettings, env: Mapping[str, str], lists: Lists = LISTS
) -> list[ModelInfo]:
    """The models of servers on this machine, and of those nearby that the settings name."""
    near = [p for p in callable_providers(settings, env) if is_near(p.base_url)]
    await lists.refresh(near)
    return [info for found in near for info in lists.of(found)]


def provider_title(id: str, settings: ModelSettings, env: Mapping[str, str]) -> str:
    """What people call a provider."""
    try:
        return provider(id, settings, env).title
    except ModelSetupError:
        return id


def _default(settings: ModelSettings, env: Mapping[str, str], lists: Lists) -> ModelInfo | None:
    try:
        id, name = split(default_model_id(settings, env))
    except ModelSetupError:
        return None
    try:
        found = provider(id, settings, env)
        return lists.known(found, name) if found.kind != DEMO else ModelInfo(id, name)
    except ModelSetupError:
        return ModelInfo(id, name)


def _demo() -> ModelInfo:
    from harness_core.model.demo import DemoModel

    return DemoModel().info


def _described(own: ModelInfo, listed: ModelInfo) -> ModelInfo:
    """What is said of a model in the settings, completed by what its provider says of it."""
    return replace(
        own,
        context_window=own.context_window or listed.context_window,
        images=own.images and listed.images,
        title=listed.title,
    )


def _key(provider: Provider) -> tuple[str, ...]:
    return provider.id, provider.kind, provider.address or ""
