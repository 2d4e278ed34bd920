"""How the lists of models read that servers of all kinds give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.model.listing import LONGEST, models
from harness_core.model.protocol import ModelInfo


def names(answer: Any) -> list[str]:
    return [info.name for info in models(answer, "acme")]


def only(**entry: Any) -> ModelInfo:
    (info,) = models({"data": [{"id": "m", **entry}]}, "acme")
    return info


def test_a_list_may_be_wrapped_or_not() -> None:
    entries = [{"id": "a"}, {"id": "b"}]
    assert names({"object": "list", "data": entries}) == ["a", "b"]
    assert names(entries) == ["a", "b"]
    assert models(entries, "acme")[0].id == "acme:a"


def test_the_newest_come_first_where_times_are_told() -> None:
    entries = [{"id": "old", "created": 1}, {"id": "new", "created": 9}]
    assert names({"data": entries}) == ["new", "old"]
    assert names({"data": [*entries, {"id": "undated"}]}) == ["old", "new", "undated"]


@pytest.mark.parametrize(
    "id",
    [
        "text-embedding-3-large",
        "nomic-embed-text:latest",
        "whisper-1",
        "gpt-4o-mini-tts",
        "dall-e-3",
        "gpt-image-1",
        "omni-moderation-latest",
        "gpt-realtime",
        "gpt-4o-transcribe",
        "gpt-3.5-turbo-instruct",
        "llama-guard-4",
        "bge-reranker-v2",
    ],
)
def test_what_holds_no_conversation_is_left_out(id: str) -> None:
    assert names({"data": [{"id": id}]}) == []


@pytest.mark.parametrize(
    "id", ["gpt-5.2", "o4-mini", "claude-opus-4-5", "llama-3.1-8b-instruct", "qwen3:8b", "a/b:free"]
)
def test_what_does_is_kept(id: str) -> None:
    assert names({"data": [{"id": id}]}) == [id]


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        ({"type": "embeddings"}, False),
        ({"type": "model"}, True),
        ({"lifecycle": "retired"}, False),
        ({"lifecycle": "deprecated"}, True),
        ({"supported_parameters": ["temperature"]}, False),
        ({"supported_parameters": ["temperature", "tools"]}, True),
    ],
)
def test_a_list_may_tell_what_a_model_is_for(entry: dict[str, Any], kept: bool) -> None:
    assert bool(names([{"id": "m", **entry}])) is kept


@pytest.mark.parametrize(
    "entry",
    [
        {"max_model_len": 8192},
        {"context_length": 8192},
        {"context_window": 8192},
        {"max_context_length": 8192},
        {"max_input_tokens": 8192},
        {"meta": {"n_ctx": 8192, "n_ctx_train": 32768}},
    ],
)
def test_a_context_window_has_many_names(entry: dict[str, Any]) -> None:
    assert only(**entry).context_window == 8192


@pytest.mark.parametrize(
    "entry", [{}, {"context_length": None}, {"context_length": "big"}, {"context_length": 0}]
)
def test_a_window_that_nobody_told_is_unknown(entry: dict[str, Any]) -> None:
    assert only(**entry).context_window is None


def test_people_see_its_title() -> None:
    assert only(display_name="Claude Opus 4.5").label == "Claude Opus 4.5"
    assert only(name="Big").label == "Big"
    assert only().label == "m"
    (local,) = models([{"id": "/home/me/models/gemma-3-Q4.gguf"}], "acme")
    assert (local.label, local.name) == ("gemma-3-Q4", "/home/me/models/gemma-3-Q4.gguf")


def test_whether_it_sees_is_believed() -> None:
    assert only().images
    assert only(architecture={"input_modalities": ["text", "image"]}).images
    assert not only(architecture={"input_modalities": ["text"]}).images


def test_a_list_is_bounded() -> None:
    assert len(names([{"id": f"m{n}"} for n in range(LONGEST + 9)])) == LONGEST


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("data", "id", "created", "name", "meta", "architecture", "type")),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(json)
def test_no_answer_breaks_the_reading(answer: Any) -> None:
    for info in models(answer, "acme"):
        assert info.name
        assert info.label
