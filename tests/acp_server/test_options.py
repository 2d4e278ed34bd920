"""Options: the complete list, with the value that is set, in one message however long it is."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.framing import INVALID_PARAMS, encode
from acp_server.options import checked, config_options
from acp_server.rpc import RpcError
from harness_core.model.protocol import ModelInfo
from tests.acp_server.judge import sound

MANY = [ModelInfo(f"provider{n // 500}", f"vendor/model-number-{n}") for n in range(1_500)]
MODELS = st.lists(
    st.builds(ModelInfo, st.sampled_from(["a", "b"]), st.text("mn-/é", min_size=1, max_size=6)),
    min_size=1,
    max_size=8,
    unique_by=lambda model: model.id,
).map(lambda models: sorted(models, key=lambda model: model.provider))


def listed(models: list[ModelInfo], current: str) -> list[dict[str, Any]]:
    values: dict[str, str | bool] = {
        "mode": "ask",
        "model": current,
        "thought_level": "default",
        "delegate": True,
    }
    return config_options(values, models, booleans=True)


def offered(options: list[dict[str, Any]]) -> list[str]:
    """The models that can be chosen."""
    (model,) = (option for option in options if option["id"] == "model")
    return [v["value"] for v in chain.from_iterable(g["options"] for g in model["options"])]


@given(MODELS, st.data())
def test_every_model_can_be_chosen(models: list[ModelInfo], data: st.DataObject) -> None:
    current = data.draw(st.sampled_from(models)).id
    options = listed(models, current)
    assert offered(options) == [model.id for model in models]
    sound({"sessionUpdate": "config_option_update", "configOptions": options})
    for model in models:
        assert checked(options, "model", model.id) == model.id


@pytest.mark.parametrize("current", [MANY[0].id, MANY[-1].id])
def test_of_very_many_models_as_many_are_listed_as_a_message_holds(current: str) -> None:
    options = listed(MANY, current)
    sound({"sessionUpdate": "config_option_update", "configOptions": options})
    assert current in offered(options)
    assert len(offered(options)) > 200


@pytest.mark.parametrize(
    ("id", "value"),
    [("model", "x" * 100_000), ("model", 5), ("mode", ""), ("x" * 100_000, "ask"), ("mode", True)],
)
def test_a_value_that_is_none_is_refused_in_a_sentence(id: str, value: Any) -> None:
    with pytest.raises(RpcError) as caught:
        checked(listed(MANY, MANY[0].id), id, value)
    assert caught.value.code == INVALID_PARAMS
    assert len(encode(caught.value.body())) < 1_000
