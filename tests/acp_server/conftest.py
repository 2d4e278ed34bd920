"""What all tests of the server share: asyncio, and property tests that are judged by their answers.

How long an example takes says something about the machine, so no deadline is set for one.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
