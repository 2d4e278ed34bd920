"""What a call costs and what a model can take, as far as anybody knows."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Usage
from harness_core.model.demo import DemoModel
from harness_core.model.prices import Cost, context_window, cost, preload
from harness_core.model.protocol import ModelInfo

pytest.importorskip("genai_prices", reason="genai-prices is not installed: there are no prices")

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
GPT = ModelInfo("openai", "gpt-4o", base_url=OPENAI)
CLAUDE = ModelInfo("anthropic", "claude-sonnet-4-5-20250929", base_url=ANTHROPIC)


def priced(info: ModelInfo, usage: Usage) -> float:
    found = cost(info, usage)
    assert found is not None
    assert found.currency == "USD"
    return found.amount


def test_cached_tokens_have_their_own_price() -> None:
    """Per million tokens of this model: 3 $ in, 0.30 $ read, 3.75 $ written, 15 $ out."""
    usage = Usage(input=1_000, cache_read=10_000, cache_write=2_000, output=300, reasoning=200)
    told = 1_000 * 3 + 10_000 * 0.3 + 2_000 * 3.75 + 500 * 15
    assert priced(CLAUDE, usage) == pytest.approx(told / 1e6)


def test_cached_tokens_are_not_paid_twice() -> None:
    """Per million tokens of this model: 2.50 $ in, 1.25 $ read, 10 $ out."""
    assert priced(GPT, Usage(input=1_000_000)) == pytest.approx(2.5)
    assert priced(GPT, Usage(cache_read=1_000_000)) == pytest.approx(1.25)
    assert priced(GPT, Usage(output=500_000, reasoning=500_000)) == pytest.approx(10)


tokens = st.integers(0, 50_000)


@given(tokens, tokens, tokens, tokens, tokens)
def test_the_parts_of_a_call_add_up(
    plain: int, read: int, write: int, said: int, thought: int
) -> None:
    parts = (
        Usage(input=plain),
        Usage(cache_read=read),
        Usage(cache_write=write),
        Usage(output=said),
        Usage(reasoning=thought),
    )
    whole = priced(GPT, Usage(plain, read, write, said, thought))
    assert whole == pytest.approx(sum(priced(GPT, part) for part in parts))


@pytest.mark.parametrize(
    "info",
    [
        ModelInfo("openai", "gpt-of-tomorrow", base_url=OPENAI),
        ModelInfo("gateway", "gpt-4o", base_url="https://llm.example/v1"),
        ModelInfo("ollama", "gpt-oss:20b", base_url="http://127.0.0.1:11434/v1"),
        ModelInfo("studio", "gpt-4o", base_url="http://studio.local:8000/v1"),
        ModelInfo("scripted", "gpt-4o"),
        DemoModel().info,
    ],
    ids=lambda info: info.id,
)
def test_what_nobody_knows_or_pays_has_no_cost(info: ModelInfo) -> None:
    assert cost(info, Usage(input=1000, output=1000)) is None


@pytest.mark.parametrize(
    ("info", "window"),
    [
        (GPT, 128_000),
        (ModelInfo("openai", "gpt-4o", 9, base_url=OPENAI), 9),
        (ModelInfo("gateway", "gpt-4o", base_url="https://llm.example/v1"), 128_000),
        (ModelInfo("gateway", "openai/gpt-4o", base_url="https://llm.example/v1"), 128_000),
        (ModelInfo("openai", "gpt-of-tomorrow", base_url=OPENAI), None),
        (ModelInfo("ollama", "gpt-4o", base_url="http://127.0.0.1:11434/v1"), None),
        (ModelInfo("ollama", "gpt-4o", 4096, base_url="http://127.0.0.1:11434/v1"), 4096),
        (ModelInfo("scripted", "gpt-4o"), None),
    ],
)
def test_a_context_window_is_what_is_known_best(info: ModelInfo, window: int | None) -> None:
    assert context_window(info) == window


def test_it_can_be_loaded_beforehand() -> None:
    preload()
    assert cost(GPT, Usage()) == Cost(0.0)


def test_without_the_package_nothing_is_known() -> None:
    code = """
import sys
sys.modules["genai_prices"] = None  # as if it were not installed
from harness_core.content import Usage
from harness_core.model.prices import context_window, cost, preload
from harness_core.model.protocol import ModelInfo
preload()
info = ModelInfo("openai", "gpt-4o", base_url="https://api.openai.com/v1")
print(cost(info, Usage(input=1)), context_window(info))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["None", "None"]
    assert done.stderr == ""
