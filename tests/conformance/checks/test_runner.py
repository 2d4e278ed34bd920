"""The runner: what it selects, and what it makes of agents that do not work at all."""

from __future__ import annotations

import sys

import pytest

from conformance.checks import CATALOGUE
from conformance.checks.catalogue import Catalogue, Check
from conformance.checks.context import Context, filled
from conformance.checks.profile import Profile
from conformance.frames import CheckResult, Direction, Frame, Level, Run, Status
from conformance.runner import LINT, Maker, run_checks, thinned

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def nothing(_context: Context) -> None:
    """Do nothing."""


def made(id: str, level: Level = Level.MUST) -> Check:
    return Check(id, "title", level, ("X",), (), nothing)


def catalogue(*ids: str) -> Catalogue:
    found = Catalogue()
    for id in ids:
        found.add(made(id))
    return found


def chosen(wanted: list[str]) -> list[str]:
    checks = catalogue("IO-01", "IO-01.more", "IO-02", "RPC-01")
    return [check.id for check in checks.select(wanted, Level)]


def test_checks_are_selected_by_id_by_number_and_by_group() -> None:
    assert chosen([]) == ["IO-01", "IO-01.more", "IO-02", "RPC-01"]
    assert chosen(["IO-01"]) == ["IO-01", "IO-01.more"]
    assert chosen(["IO-01.more"]) == ["IO-01.more"]
    assert chosen(["rpc", "io-02"]) == ["IO-02", "RPC-01"]


def test_levels_narrow_the_selection() -> None:
    checks = Catalogue()
    checks.add(made("A-01"))
    checks.add(made("A-02", Level.REC))
    assert [check.id for check in checks.select([], [Level.REC])] == ["A-02"]


def test_an_id_that_names_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="NOPE-01"):
        chosen(["NOPE-01"])


def test_an_id_is_used_once() -> None:
    with pytest.raises(ValueError, match="A-01"):
        catalogue("A-01", "A-01")


def test_every_check_says_what_it_does_and_what_it_refers_to() -> None:
    for check in CATALOGUE:
        assert check.description, check.id
        assert check.refs, check.id
        assert check.title, check.id


def test_musts_rest_on_the_specification() -> None:
    advice = [check.id for check in CATALOGUE if "advice" in check.refs]
    assert all(CATALOGUE[id].level is Level.REC for id in advice)


def agent(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def by_status(run: Run) -> dict[Status, list[str]]:
    found: dict[Status, list[str]] = {}
    for result in run.results:
        if not result.id.startswith(LINT):
            found.setdefault(result.status, []).append(result.id)
    return found


async def test_a_silent_agent_hangs_where_it_is_asked_and_the_rest_is_skipped() -> None:
    run = await run_checks(agent("import time; time.sleep(60)"), ids=["INIT"], timeout=0.5)
    found = by_status(run)
    assert found[Status.HUNG] == ["INIT-01", "INIT-08", "INIT-09"]
    assert set(found) == {Status.HUNG, Status.SKIPPED}
    assert run.agent == {}


async def test_an_agent_that_ends_at_once_has_died() -> None:
    run = await run_checks(agent("import sys; sys.exit('no licence')"), ids=["INIT-01"], timeout=10)
    (result,) = (r for r in run.results if r.id == "INIT-01")
    assert result.status is Status.DIED
    assert "no licence" in result.findings[0].message


async def test_a_skipped_check_says_why() -> None:
    run = await run_checks(agent("input()"), ids=["CAN-01"], timeout=10)
    (result,) = (r for r in run.results if r.id == "CAN-01")
    assert result.status is Status.SKIPPED
    assert "initialize does not work" in result.reason


async def test_noise_on_stdout_is_found_by_the_global_rules() -> None:
    program = "import sys; print('Welcome!', flush=True); sys.stdin.read()"
    run = await run_checks(agent(program), ids=["INIT-09"], timeout=0.5)
    (result,) = (r for r in run.results if r.id == f"{LINT}.io.json")
    assert result.status is Status.FAILED
    assert "INIT-09" in result.findings[0].message
    assert result.frames[result.findings[0].frames[0]].raw == b"Welcome!"


async def test_results_are_told_as_they_come() -> None:
    told: list[CheckResult] = []
    run = await run_checks(
        agent("input()"), ids=["INIT-01", "INIT-02"], timeout=5, on_result=told.append
    )
    assert sorted(r.id for r in told) == sorted(r.id for r in run.results)


async def test_a_command_that_does_not_exist_is_an_error_of_the_user() -> None:
    with pytest.raises(FileNotFoundError):
        await run_checks(["/no/such/agent"], ids=["INIT-01"])


async def test_without_a_model_its_checks_are_skipped() -> None:
    profile = await Maker(tuple(agent("input()")), timeout=5).profile(model=False)
    assert "switched off" in profile.lacks("model")


def test_what_is_advertised_is_what_is_true_or_an_object() -> None:
    capabilities = {"loadSession": False, "sessionCapabilities": {"list": {}, "close": None}}
    profile = Profile(info={"agentCapabilities": capabilities})
    assert profile.lacks("agent:sessionCapabilities.list") == ""
    for path in ("loadSession", "sessionCapabilities.close", "sessionCapabilities.x.y"):
        assert path in profile.lacks(f"agent:{path}")


async def test_an_agent_gets_a_clean_environment() -> None:
    async with Context(["x"], env={"URL": "{openai_base_url}/x", "HOME_OF": "{home}"}) as context:
        env = context.environment()
        assert env["URL"] == f"{context.model.openai_base_url}/x"
        assert env["HOME_OF"] == env["HOME"] == str(context.home)
        assert not {name for name in env if name.endswith("_PROXY")} - {"NO_PROXY"}
        bare = context.environment(model=False)
        assert not {"URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"} & set(bare)


def test_only_known_placeholders_are_filled_in() -> None:
    assert filled('{"a": {home}} {other}', {"home": "/h"}) == '{"a": /h} {other}'


def test_long_conversations_are_judged_without_the_bulk_of_their_text() -> None:
    text = [Frame(Direction.A2C, 0, b'"agent_message_chunk"') for _ in range(5000)]
    frames = [Frame(Direction.C2A, 0, b"ask"), *text, Frame(Direction.A2C, 0, b"answer")]
    kept = thinned(frames)
    assert (kept[0], kept[-1]) == (frames[0], frames[-1])
    assert len(kept) == 1002
    assert thinned(frames[:50]) == frames[:50]
