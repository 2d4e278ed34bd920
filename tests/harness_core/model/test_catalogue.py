"""From ``provider:name``, settings and environment to a model, or to what has to be set."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness_core.model.anthropic import AnthropicModel
from harness_core.model.catalogue import default_model_id, resolve
from harness_core.model.demo import DemoModel
from harness_core.model.http import HttpModel
from harness_core.model.openai import OpenAIModel
from harness_core.model.protocol import Model, ModelConfig, ModelRequest, ModelSetupError
from harness_core.model.providers import PRESETS, is_near
from harness_core.model.responses import ResponsesModel
from harness_core.model.settings import ModelSettings, ProviderSettings

NOTHING = ModelSettings()


def http_model(model: Model) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


def settings(model: str | None = None, **providers: ProviderSettings) -> ModelSettings:
    return ModelSettings(model, providers)


def test_the_demo_model_is_the_default() -> None:
    assert default_model_id(NOTHING, {}) == "demo:demo"
    assert isinstance(resolve(None, NOTHING, {}), DemoModel)


def test_the_setting_wins_over_the_environment() -> None:
    env = {"ACP_HARNESS_MODEL": "demo:environment"}
    assert default_model_id(NOTHING, env) == "demo:environment"
    assert default_model_id(settings("demo:setting"), env) == "demo:setting"
    assert resolve(None, settings("demo:setting"), env).info.id == "demo:setting"


@pytest.mark.parametrize(
    ("id", "env", "kind", "url"),
    [
        ("openai:gpt-x", {"OPENAI_API_KEY": "k"}, OpenAIModel, "https://api.openai.com/v1"),
        (
            "openai:gpt-x",
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://gate.example/v1/"},
            OpenAIModel,
            "https://gate.example/v1",
        ),
        (
            "anthropic:claude",
            {"ANTHROPIC_API_KEY": "k"},
            AnthropicModel,
            "https://api.anthropic.com",
        ),
        (
            "anthropic:claude",
            {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://gate.example/v1"},
            AnthropicModel,
            "https://gate.example",
        ),
    ],
)
def test_built_in_providers_need_a_key_and_nothing_else(
    id: str, env: dict[str, str], kind: type[HttpModel], url: str
) -> None:
    model = http_model(resolve(id, NOTHING, env))
    assert type(model) is kind
    assert model.endpoint.base_url == url
    assert model.info.id == id


@pytest.mark.parametrize(
    ("id", "variable"),
    [("openai:gpt-x", "OPENAI_API_KEY"), ("anthropic:claude", "ANTHROPIC_API_KEY")],
)
@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_a_missing_key_says_which_variable_to_set(
    id: str, variable: str, blank: str | None
) -> None:
    env = {} if blank is None else {variable: blank}
    with pytest.raises(ModelSetupError, match=variable) as raised:
        resolve(id, NOTHING, env)
    assert raised.value.auth


def test_a_provider_of_ones_own() -> None:
    acme = ProviderSettings(
        base_url="https://llm.acme.example/v1",
        api_key_env="ACME_KEY",
        headers={"X-Team": "core"},
        body={"top_k": 5},
        context_windows={"big:latest": 32768},
        reasoning_field="reasoning_content",
        images=False,
    )
    model = http_model(resolve("acme:big:latest", settings(acme=acme), {"ACME_KEY": "secret-key"}))
    assert (model.info.name, model.info.context_window) == ("big:latest", 32768)
    assert not model.info.images
    assert model.endpoint.headers == {"authorization": "Bearer secret-key", "x-team": "core"}
    assert model.endpoint.body == {"top_k": 5}
    assert "secret-key" in model.endpoint.secrets
    assert "secret-key" not in repr(model.endpoint)


def test_a_provider_that_speaks_another_dialect() -> None:
    acme = ProviderSettings(kind="anthropic", base_url="https://llm.acme.example", api_key="k")
    model = http_model(resolve("acme:claude", settings(acme=acme), {}))
    assert isinstance(model, AnthropicModel)
    assert model.endpoint.headers["x-api-key"] == "k"
    assert model.endpoint.headers["anthropic-version"] == "2023-06-01"


def test_settings_change_a_built_in_provider() -> None:
    said = settings(openai=ProviderSettings(api_key="mine", context_windows={"gpt-x": 9}))
    model = http_model(resolve("openai:gpt-x", said, {"OPENAI_API_KEY": "theirs"}))
    assert model.endpoint.headers["authorization"] == "Bearer mine"
    assert model.endpoint.base_url == "https://api.openai.com/v1"
    assert model.info.context_window == 9
    assert resolve("openai:gpt-y", said, {}).info.context_window is None


def test_a_built_in_providers_key_is_not_sent_to_another_kind() -> None:
    said = settings(openai=ProviderSettings(kind="anthropic", base_url="https://x.example"))
    with pytest.raises(ModelSetupError):
        resolve("openai:claude", said, {"OPENAI_API_KEY": "k"})


def test_the_same_provider_can_be_called_by_its_newer_api() -> None:
    said = settings(openai=ProviderSettings(kind="openai-responses"))
    model = http_model(resolve("openai:gpt-x", said, {"OPENAI_API_KEY": "k"}))
    assert isinstance(model, ResponsesModel)
    assert model.endpoint.base_url == "https://api.openai.com/v1"
    assert model.endpoint.headers["authorization"] == "Bearer k"


def test_the_responses_api_has_no_place_for_sounds() -> None:
    said = settings(
        a=ProviderSettings(kind="openai-responses", base_url="http://localhost/v1", audio=True),
        b=ProviderSettings(kind="openai", base_url="http://localhost/v1", audio=True),
    )
    assert not resolve("a:m", said, {}).info.audio
    assert resolve("b:m", said, {}).info.audio


@pytest.mark.parametrize("id", [id for id, preset in PRESETS.items() if preset.local])
def test_the_usual_local_servers_need_no_settings(id: str) -> None:
    model = http_model(resolve(f"{id}:qwen3:8b", NOTHING, {"OPENAI_API_KEY": "k"}))
    assert isinstance(model, OpenAIModel)
    assert model.endpoint.base_url.startswith("http://127.0.0.1:")
    assert "authorization" not in model.endpoint.headers


def test_a_server_nearby_needs_no_key() -> None:
    local = ProviderSettings(base_url="http://localhost:11434/v1")
    model = http_model(resolve("local:qwen3:8b", settings(local=local), {}))
    assert "authorization" not in model.endpoint.headers
    assert model.info.name == "qwen3:8b"


def test_a_key_may_come_in_a_header() -> None:
    acme = ProviderSettings(
        base_url="https://x.example", headers={"Authorization": "Bearer tok12345"}
    )
    model = http_model(resolve("acme:m", settings(acme=acme), {}))
    assert model.endpoint.headers["authorization"] == "Bearer tok12345"
    assert "tok12345" in model.endpoint.secrets


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://localhost:1234/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.5:8000", True),
        ("http://ollama:11434", True),
        ("http://studio.local", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
    ],
)
def test_what_is_near(url: str, near: bool) -> None:
    assert is_near(url) is near


MISTAKES = {
    "gpt-x": "write provider:name",
    "openai:": "write provider:name",
    ":gpt": "write provider:name",
    "opnai:gpt-x": "known are anthropic, broken, demo, homeless, llamacpp, lmstudio, odd, ollama",
    "homeless:m": "providers.homeless.base_url",
    "odd:m": "kind is 'gopher': it can be anthropic, demo, openai, openai-responses",
    "typo:m": "http:// or https://",
    "broken:m": "http:// or https://",
}


@pytest.mark.parametrize("id", MISTAKES)
def test_a_mistake_says_what_to_change(id: str) -> None:
    said = settings(
        homeless=ProviderSettings(kind="openai"),
        odd=ProviderSettings(kind="gopher"),
        typo=ProviderSettings(base_url="localhost:11434"),
        broken=ProviderSettings(base_url="http://[::1/v1"),
    )
    with pytest.raises(ModelSetupError) as raised:
        resolve(id, said, {})
    assert MISTAKES[id] in str(raised.value)
    assert not raised.value.auth


@pytest.mark.parametrize(
    ("env", "field"),
    [({}, "max_completion_tokens"), ({"OPENAI_BASE_URL": "http://localhost/v1"}, "max_tokens")],
)
def test_the_newer_name_of_the_limit_is_for_openai_itself(env: dict[str, str], field: str) -> None:
    model = http_model(resolve("openai:gpt-x", NOTHING, {"OPENAI_API_KEY": "k", **env}))
    config = ModelConfig("openai:gpt-x", max_output=7)
    assert model.body(ModelRequest(config, "", []))[field] == 7


def test_resolving_imports_nothing_slow() -> None:
    code = (
        "import sys; from harness_core.model.catalogue import known_models, resolve;"
        "from harness_core.model.settings import ModelSettings;"
        "env = {'OPENAI_API_KEY': 'k', 'ANTHROPIC_API_KEY': 'k'};"
        "[resolve(id, ModelSettings(), env) for id in ('demo:demo', 'openai:m', 'anthropic:m')];"
        "known_models(ModelSettings(), env);"
        "slow = ('pydantic', 'httpx', 'httpx_sse', 'genai_prices', 'ssl');"
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
