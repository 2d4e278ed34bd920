"""What all tests of the server share: asyncio, settings of their own, and untimed properties.

How long an example takes says something about the machine, so no deadline is set for one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite(
    "tests.acp_server.editor", "tests.acp_server.judge", "tests.acp_server.screen"
)
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nobody_elses_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    """The environment of whoever runs the tests says nothing about ours."""
    monkeypatch.setenv("ACP_HARNESS_CONFIG", str(tmp_path_factory.mktemp("config") / "none.toml"))


@pytest.fixture
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The whole environment of an agent that is a process of its own: the same settings."""
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ACP_HARNESS_CONFIG": str(home / "none.toml"),
        "ACP_HARNESS_DATA_DIR": str(home / "data"),
        "ACP_HARNESS_RETRY__ATTEMPTS": "0",
    }


@pytest.fixture
def flags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings of an agent with the demo model that never repeats a failed call."""
    return {
        "model": "demo:demo",
        "data_dir": str(tmp_path_factory.mktemp("data")),
        "retry": {"attempts": 0},
    }
