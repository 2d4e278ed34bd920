"""The page on models says what is so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from harness_core.config import Config, Settings
from harness_core.model.catalogue import resolve
from harness_core.model.failures import CODES
from harness_core.model.providers import PRESETS
from harness_core.model.responses import ResponsesModel
from harness_core.model.settings import ModelSettings, ProviderSettings

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")


def test_its_example_settings_are_valid_and_lead_to_models() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = Settings.model_validate(tomllib.loads(example))
    models = ModelSettings(settings.model, settings.providers)
    assert resolve(None, models, {}).info.context_window == 32768
    env = dict.fromkeys(("DEEPSEEK_API_KEY", "GATEWAY_KEY", "OPENAI_API_KEY"), "k")
    for provider in settings.providers:
        assert resolve(f"{provider}:some-model", models, env).info.provider == provider


def test_a_provider_can_be_changed_by_the_environment_alone(tmp_path: Path) -> None:
    (setting,) = re.findall(r"`(ACP_HARNESS_PROVIDERS__\w+)=([\w-]+)`", PAGE)
    env = {"ACP_HARNESS_CONFIG": str(tmp_path / "none"), setting[0]: setting[1]}
    settings = Config.load(env).for_cwd(None)
    models = ModelSettings("openai:gpt-x", settings.providers)
    assert isinstance(resolve(None, models, {"OPENAI_API_KEY": "k"}), ResponsesModel)


def test_every_built_in_provider_is_listed() -> None:
    table = PAGE.partition("## Providers")[2].partition("There can be")[0]
    assert re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE) == list(PRESETS)
    for preset in PRESETS.values():
        for said in filter(None, (preset.base_url, preset.base_url_variable, preset.key_variable)):
            assert f"`{said}`" in table


def test_every_setting_of_a_provider_is_listed() -> None:
    for field in fields(ProviderSettings):
        assert re.search(rf"^\| .*`{field.name}`.* \|", PAGE, re.MULTILINE), field.name


def test_every_failure_code_is_listed() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("## Failures")[2], re.MULTILINE) == (
        list(CODES)
    )
