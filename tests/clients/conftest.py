"""Every test here drives the installed agent through a client, and every frame is judged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.clients.harness import Agent


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The official SDK is made for asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Agent]:
    """The agent under test. When the test is over, everything it ever sent must be flawless."""
    agent = Agent(tmp_path)
    yield agent
    verdict = [*agent.verdict(), *_complaints(caplog.get_records("call"))]
    if verdict:
        pytest.fail("\n".join(["the agent's frames are not flawless:", *verdict]), pytrace=False)


def _complaints(records: Iterable[logging.LogRecord]) -> Iterator[str]:
    """What the official SDK logged about the agent. It does not know ``$/cancel_request`` yet."""
    for record in records:
        if record.levelno >= logging.ERROR and "$/cancel_request" not in record.getMessage():
            yield f"the Python SDK complains: {record.getMessage()}: {record.exc_info}"
