"""What the model tests share: asyncio, and a bound on everything that waits."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
