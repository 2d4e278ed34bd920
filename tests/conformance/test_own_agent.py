"""Our own agent passes every check of the catalogue that binds it."""

from __future__ import annotations

import sys

import pytest

from conformance.frames import CheckResult, Level, Status
from conformance.runner import run_checks

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("catalogue")]

COMMAND = (sys.executable, "-m", "acp_server")
ENV = {"ACP_HARNESS_MODEL": "openai:fake-model", "ACP_HARNESS_MAX_STEPS": "20"}
GOOD = (Status.PASSED, Status.SKIPPED)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def shown(result: CheckResult) -> str:
    told = "; ".join(finding.message for finding in result.findings)
    return f"{result.id} {result.status}: {told or result.reason}"


async def test_every_must_and_should_of_what_it_advertises_is_kept() -> None:
    run = await run_checks(
        COMMAND, levels=(Level.MUST, Level.SHOULD), timeout=30.0, jobs=2, env=ENV
    )
    assert [shown(result) for result in run.results if result.status not in GOOD] == []
    passed = sum(result.status is Status.PASSED for result in run.results)
    assert passed > 100, "the scripted model was reached, so that most checks could run"
