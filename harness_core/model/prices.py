"""How much a model can take, and what a call of it costs: read off the package ``genai-prices``.

The package brings its data along and asks no network here. It takes about 0.1 s to import, which
the first look-up does unless ``preload`` was run in a thread before. Without it nothing is known.
What is unknown stays unknown: nobody can tell the prices of a gateway, or the window that a local
server gives a model.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from harness_core.content import Usage
from harness_core.model.protocol import ModelInfo
from harness_core.model.providers import is_near

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of money; ``currency`` is an ISO 4217 code (V1-USE-02)."""

    amount: float
    currency: str = "USD"


def preload() -> None:
    """Import the package and its data, where nobody waits."""
    _is_there()
    _window("gpt-4o", None)


def context_window(info: ModelInfo) -> int | None:
    """The tokens that a model can take: what is known of it, else what the package says.

    A server nearby decides that itself.
    """
    if info.context_window or info.base_url is None or is_near(info.base_url):
        return info.context_window
    # A gateway's models bear the names of those behind it, some with the maker's in front.
    bare = info.name.rpartition("/")[2]
    tries = ((info.name, info.base_url), (info.name, None), (bare, None))
    return next((found for name, url in tries if (found := _window(name, url))), None)


def cost(info: ModelInfo, usage: Usage) -> Cost | None:
    """What a call cost at its provider's list price; ``None`` if nobody knows, or nobody pays."""
    if info.base_url is None or is_near(info.base_url):
        return None
    priced = _priced(info.name, info.base_url, usage)
    return Cost(float(priced.total_price)) if priced else None


@cache
def _is_there() -> bool:
    try:
        import genai_prices  # noqa: F401
    except ImportError:
        log.info("genai-prices is not installed: no prices, and no context windows from it")
        return False
    return True


@cache
def _window(name: str, url: str | None) -> int | None:
    priced = _priced(name, url, Usage())
    return priced.model.context_window if priced else None


def _priced(name: str, url: str | None, usage: Usage) -> PriceCalculation | None:
    """The package's word on a call; theirs counts the cached tokens as input, ours beside it."""
    if not _is_there():
        return None
    import genai_prices

    counted = genai_prices.Usage(
        input_tokens=usage.input + usage.cache_read + usage.cache_write,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=usage.output + usage.reasoning,
        output_reasoning_tokens=usage.reasoning,
    )
    try:
        return genai_prices.calc_price(counted, name, provider_api_url=url)
    except (LookupError, ValueError):
        return None
