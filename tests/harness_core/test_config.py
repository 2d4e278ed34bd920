"""The settings tree: which layer wins, what a project may say, and what a mistake is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.config import (
    PROJECT_FILE,
    PROJECT_KEYS,
    Config,
    ConfigError,
    Settings,
    data_dir,
    user_file,
)


class Places:
    """A user's file and a project in a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.user = root / "user.toml"
        self.cwd = root / "project"
        self.project = self.cwd / PROJECT_FILE
        self.project.parent.mkdir(parents=True)
        self.env = {"ACP_HARNESS_CONFIG": str(self.user)}

    def load(self, flags: dict[str, Any] | None = None, **env: str) -> Settings:
        return Config.load(self.env | env, flags).for_cwd(self.cwd)

    def mistake(self, flags: dict[str, Any] | None = None, **env: str) -> str:
        with pytest.raises(ConfigError) as failure:
            self.load(flags, **env)
        return str(failure.value)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


# --- layers ------------------------------------------------------------------------------------


def test_without_any_source_there_are_defaults(places: Places) -> None:
    assert places.load() == Settings()


def test_each_layer_wins_over_the_one_before(places: Places) -> None:
    assert places.load().model == "demo:demo"
    places.user.write_text('model = "user:m"')
    assert places.load().model == "user:m"
    places.project.write_text('model = "project:m"')
    assert places.load().model == "project:m"
    assert places.load(ACP_HARNESS_MODEL="env:m").model == "env:m"
    assert places.load({"model": "flag:m"}, ACP_HARNESS_MODEL="env:m").model == "flag:m"


def test_tables_are_merged_key_by_key(places: Places) -> None:
    places.user.write_text("[retry]\nattempts = 7\nbase = 2\n[tools.bash]\ntimeout = 5\nshell = 1")
    places.project.write_text("[tools.bash]\ntimeout = 9\n[tools.read]\nlimit = 3")
    settings = places.load(ACP_HARNESS_RETRY__BASE="0.5")
    assert (settings.retry.attempts, settings.retry.base) == (7, 0.5)
    assert settings.tools == {"bash": {"timeout": 9, "shell": 1}, "read": {"limit": 3}}


def test_a_value_in_a_higher_layer_replaces_a_table_and_the_other_way_round(places: Places) -> None:
    places.user.write_text("[tools]\nbash = 1")
    assert places.load({"tools": {"bash": {"x": 2}}}).tools == {"bash": {"x": 2}}
    assert places.load(ACP_HARNESS_TOOLS__BASH__X="3").tools == {"bash": {"x": "3"}}
    places.user.write_text("[tools.bash]\nx = 1")
    assert places.load({"tools": {"bash": 5}}).tools == {"bash": 5}


def test_settings_without_a_project_do_not_look_for_one(places: Places) -> None:
    places.project.write_text('model = "project:m"')
    assert Config.load(places.env).for_cwd(None).model == "demo:demo"


def test_a_file_may_begin_with_a_byte_order_mark(places: Places) -> None:
    places.user.write_bytes(b'\xef\xbb\xbfmodel = "user:m"')
    assert places.load().model == "user:m"


# --- the project's file ------------------------------------------------------------------------

GUARDED = sorted(Settings.model_fields.keys() - PROJECT_KEYS)


def test_what_leaks_keys_or_widens_what_runs_is_guarded() -> None:
    assert {"providers", "mode", "data_dir", "log_file"} <= set(GUARDED)


@pytest.mark.parametrize("key", GUARDED)
def test_a_project_may_not_set_what_is_the_users_own(
    places: Places, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    places.project.write_text(f'model = "project:m"\n{key} = "evil"')
    with caplog.at_level(logging.WARNING):
        settings = places.load()
    assert settings == Settings(model="project:m")
    assert f"{places.project}: {key} can only be set in your own settings" in caplog.text


def test_a_project_may_set_the_rest(places: Places, caplog: pytest.LogCaptureFixture) -> None:
    places.project.write_text(
        'model = "a:b"\nmax_output = 5\ntemperature = 0.5\neffort = "low"\nmax_steps = 3\n'
        "[tools.bash]\ntimeout = 1"
    )
    settings = places.load()
    assert (settings.max_output, settings.temperature, settings.effort) == (5, 0.5, "low")
    assert (settings.max_steps, settings.tools) == (3, {"bash": {"timeout": 1}})
    assert caplog.text == ""


# --- the environment ---------------------------------------------------------------------------


def test_two_underscores_reach_into_tables(places: Places) -> None:
    settings = places.load(
        ACP_HARNESS_RETRY__ATTEMPTS="0", ACP_HARNESS_PROVIDERS__MINE__BASE_URL="http://x"
    )
    assert settings.retry.attempts == 0
    assert settings.providers["mine"].base_url == "http://x"


def test_other_variables_and_empty_ones_say_nothing(places: Places) -> None:
    settings = places.load(
        ACP_HARNESS_MODEL="", ACP_HARNESS_HOME="/x", MODEL="x", XACP_HARNESS_MODEL="y"
    )
    assert settings == Settings()


@pytest.mark.parametrize("names", [("MODEL", "MODEL__X"), ("TOOLS__A", "TOOLS__A__B__C")])
def test_a_variable_that_is_value_and_table_at_once_is_named(
    places: Places, names: tuple[str, str]
) -> None:
    for order in (names, reversed(names)):
        text = places.mistake(**{f"ACP_HARNESS_{name}": "x" for name in order})
        assert text.startswith(f"ACP_HARNESS_{names[1]}: ")
        assert "unset one of the two" in text


# --- mistakes ----------------------------------------------------------------------------------


def test_a_mistake_names_its_file_and_key(places: Places) -> None:
    places.user.write_text("[retry]\nattempts = -1")
    assert places.mistake() == (
        f"{places.user}: retry.attempts: input should be greater than or equal to 0"
    )
    places.user.write_text("")
    places.project.write_text("max_steps = 0")
    assert places.mistake().startswith(f"{places.project}: max_steps: ")


def test_a_mistake_names_its_variable(places: Places) -> None:
    text = places.mistake(ACP_HARNESS_RETRY__ATTEMPTS="many")
    assert text.startswith("ACP_HARNESS_RETRY__ATTEMPTS: input should be a valid integer")


def test_a_mistake_names_its_flag(places: Places) -> None:
    expected = "flag mode: input should be 'ask', 'accept-edits', 'plan' or 'auto'"
    assert places.mistake({"mode": "never"}) == expected


def test_the_layer_that_made_the_mistake_is_named_and_not_one_below(places: Places) -> None:
    places.user.write_text("max_steps = 5\n[retry]\nattempts = 1")
    assert places.mistake(ACP_HARNESS_MAX_STEPS="0").startswith("ACP_HARNESS_MAX_STEPS: ")
    assert places.mistake({"retry": {"bse": 1}}).startswith("flag retry.bse: ")


def test_an_unknown_setting_says_which_there_are(places: Places) -> None:
    places.user.write_text('modle = "x:y"')
    text = places.mistake()
    assert text.startswith(f"{places.user}: modle: ")
    assert "known are model, max_output" in text
    assert places.mistake(ACP_HARNESS_FOO="1").count("known are") == 2


def test_an_unknown_key_of_a_provider_is_not_passed_over(places: Places) -> None:
    places.user.write_text('[providers.mine]\nbase_ulr = "http://x"')
    assert places.mistake().startswith(f"{places.user}: providers.mine.base_ulr: ")


@pytest.mark.parametrize(
    "table",
    ["", 'command = "a"\nurl = "http://b"', 'type = "stdio"\nurl = "http://b"', 'url = "ftp://b"'],
)
def test_a_server_is_a_command_or_a_url(places: Places, table: str) -> None:
    places.user.write_text(f"[mcp_servers.mine]\n{table}")
    assert places.mistake().startswith(f"{places.user}: mcp_servers.mine")
    places.user.write_text('[mcp_servers.mine]\ntype = "http"\nurl = "http://b"')
    assert places.load().mcp_servers["mine"].url == "http://b"


def test_numbers_that_are_none_are_refused(places: Places) -> None:
    places.user.write_text("temperature = nan\n[retry]\nlongest = inf")
    assert places.mistake().count("finite number") == 2


@pytest.mark.parametrize("text", ["model =\n", "[retry\n", 'model = "a"\nmodel = "b"\n', "\x00"])
def test_what_is_not_toml_names_the_file_and_the_place(places: Places, text: str) -> None:
    for path in (places.user, places.project):
        path.write_text(text)
        message = places.mistake()
        assert message.startswith(f"{path} is not valid TOML: ")
        assert "line" in message or "end of document" in message
        path.unlink()


def test_a_file_that_cannot_be_read_is_named(places: Places) -> None:
    places.user.mkdir()
    assert places.mistake().startswith(f"{places.user} cannot be read: ")


def test_a_file_that_is_not_text_is_named(places: Places) -> None:
    places.user.write_bytes(b'model = "\xff"')
    assert places.mistake().startswith(f"{places.user} cannot be read: ")


def test_mistakes_tell_no_values(places: Places) -> None:
    secret = "sk-secret"
    places.user.write_text(f'max_steps = "{secret}"\n[providers.x]\nimages = "{secret}"')
    assert secret not in places.mistake(ACP_HARNESS_RETRY__BASE=secret)
    places.user.write_text(f'api_key = "{secret}')
    assert secret not in places.mistake()


@given(st.dictionaries(st.text(st.characters(codec="ascii"), max_size=8), st.text(max_size=5)))
def test_no_environment_breaks_anything_but_by_a_config_error(variables: dict[str, str]) -> None:
    env = {f"ACP_HARNESS_{name.upper()}": value for name, value in variables.items()}
    env["ACP_HARNESS_CONFIG"] = "/nowhere/settings.toml"
    told = "ACP_HARNESS_"
    try:
        Config.load(env)
    except ConfigError as failure:
        told = str(failure)
    assert "ACP_HARNESS_" in told


# --- places ------------------------------------------------------------------------------------


def test_where_things_are(tmp_path: Path) -> None:
    assert user_file({"ACP_HARNESS_CONFIG": "/my/file.toml"}) == Path("/my/file.toml")
    assert user_file({}).name == "settings.toml"
    assert "acp-harness" in user_file({}).parts
    assert data_dir(Settings(data_dir=str(tmp_path))) == tmp_path
    assert data_dir(Settings(data_dir="~/x")) == Path.home() / "x"
    assert data_dir(Settings()).name == "acp-harness"


def test_the_process_environment_is_read_by_default(tmp_path: Path) -> None:
    config = Config.load(flags={"data_dir": str(tmp_path)})
    assert config.for_cwd(None).data_dir == str(tmp_path)
