"""Every check passes a correct agent and catches an agent that is broken in just its way."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from conformance.checks import CATALOGUE, Check
from conformance.frames import CheckResult, Status
from conformance.runner import GlobalRules, Maker, run_check, run_checks

pytestmark = pytest.mark.anyio

AGENT = (sys.executable, "-S", str(Path(__file__).with_name("mutant_agent.py")))
MUTANT_SECONDS = 4.0
"""How long a wait may take with a mutant: those that hang cost this much."""
TOGETHER = 4
CAUGHT = {Status.FAILED, Status.HUNG, Status.DIED}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def told(results: list[CheckResult]) -> str:
    lines = [
        f"{r.id}: {r.status.value} {r.reason} {[f.message for f in r.findings]}" for r in results
    ]
    return "\n".join(lines)


async def test_a_correct_agent_passes_every_check() -> None:
    run = await run_checks(AGENT, timeout=30)
    wrong = [result for result in run.results if result.status is not Status.PASSED]
    assert not wrong, told(wrong)
    assert run.agent["agentInfo"]["name"] == "toy"


async def test_an_agent_that_wants_a_login_passes_too() -> None:
    run = await run_checks((*AGENT, "--gated"), ids=["AUTH", "NEW-01", "TURN-01"], timeout=30)
    wrong = [result for result in run.results if result.status is not Status.PASSED]
    assert not wrong, told(wrong)


async def test_every_check_catches_its_mutant() -> None:
    profile = await Maker(AGENT).profile()
    slots = asyncio.Semaphore(TOGETHER)

    async def tried(check: Check) -> CheckResult:
        async with slots:
            make = Maker((*AGENT, "--mutation", check.id), timeout=MUTANT_SECONDS)
            return await run_check(check, make.context(profile), GlobalRules())

    results = await asyncio.gather(*map(tried, CATALOGUE))
    missed = [result for result in results if result.status not in CAUGHT]
    assert not missed, told(missed)
