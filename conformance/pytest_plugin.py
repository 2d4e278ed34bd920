"""The pytest plugin of the kit: fixtures for projects that test their own agent.

    pytest --acp-agent "my-agent --acp"

    def test_conformance(acp_agent):
        acp_agent.check()

It is loaded in every run of pytest where the kit is installed, so it imports
nothing until a test asks for the fixture.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.frames import Finding, Frame, Level, Run
    from conformance.replay import Replay

HOW = 'name the agent with --acp-agent "COMMAND" or with acp_agent in the ini file'


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and ini keys of the plugin."""
    group = parser.getgroup("acp", "Agent Client Protocol conformance")
    group.addoption("--acp-agent", metavar="COMMAND", help="the command that starts the agent")
    group.addoption(
        "--acp-update",
        action="store_true",
        help="replayed transcripts take what the agent does now as right",
    )
    parser.addini("acp_agent", "the command that starts the ACP agent under test")


@pytest.fixture(scope="session")
def acp_agent(pytestconfig: pytest.Config) -> AcpAgent:
    """The agent under test, as named on the command line or in the ini file."""
    command = pytestconfig.getoption("--acp-agent") or pytestconfig.getini("acp_agent")
    if not command:
        raise pytest.UsageError(f"the fixture acp_agent needs an agent: {HOW}")
    return AcpAgent(
        shlex.split(command, posix=os.name != "nt"), update=pytestconfig.getoption("--acp-update")
    )


class AcpAgent:
    """An agent command and what can be asked about it; every breach fails the test.

    The methods run an event loop of their own, so call them from plain tests.
    """

    def __init__(self, command: Sequence[str], *, update: bool = False) -> None:
        self.command = tuple(command)
        self.update = update

    def check(
        self,
        *only: str,
        levels: Sequence[Level | str] = ("MUST", "SHOULD"),
        timeout: float = 10.0,
        jobs: int = 2,
        model: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Run the catalogue, or the checks named by id or pattern in ``only``.

        ``timeout`` is in seconds and bounds each single wait. Fails the test with a
        report if the agent breaks a duty; returns the run otherwise.
        """
        __tracebackhide__ = True
        import anyio

        from conformance.commands import select
        from conformance.frames import Level
        from conformance.report.summary import ok
        from conformance.report.terminal import render
        from conformance.runner import run_checks

        wanted = [Level(str(level).upper()) for level in levels]
        run = anyio.run(
            partial(
                run_checks,
                self.command,
                ids=select(only),
                levels=wanted,
                model=model,
                timeout=timeout,
                jobs=jobs,
                env=env,
            )
        )
        if not ok(run):
            pytest.fail(render(run), pytrace=False)
        return run

    def lint(self, recording: Path | str | Sequence[Frame]) -> list[Finding]:
        """Judge a transcript file or frames by the global rules.

        Fails the test if a duty is broken; returns the recommendations otherwise.
        """
        __tracebackhide__ = True
        from conformance.frames import Level
        from conformance.lint import RULES, lint
        from conformance.lint.file import left_early
        from conformance.transcript import Transcript, load

        if isinstance(recording, str | Path):
            transcript = load(Path(recording))
        else:
            transcript = Transcript(entries=tuple(recording))
        findings = lint(transcript.frames, complete=not left_early(transcript))
        duties = [f for f in findings if RULES[f.rule].level in (Level.MUST, Level.SHOULD)]
        if duties:
            lines = [f"{found.rule}: {found.message} (frames {found.frames})" for found in duties]
            pytest.fail("\n".join(lines), pytrace=False)
        return findings

    def replay(
        self,
        path: Path | str,
        *,
        timeout: float = 10.0,
        env: Mapping[str, str] | None = None,
    ) -> Replay:
        """Play a recording's client to the agent.

        Fails the test with a diff if the agent does something else, unless
        ``--acp-update`` was given: then the recording is rewritten.
        """
        __tracebackhide__ = True
        import anyio

        from conformance.replay import replay, update
        from conformance.transcript import load, render

        transcript = load(Path(path))
        result = anyio.run(partial(replay, transcript, self.command, timeout=timeout, env=env))
        if self.update and result.hung is None and not result.ok:
            Path(path).write_bytes(render(update(transcript, result)))
        elif not result.ok:
            pytest.fail(f"{path}\n{result}", pytrace=False)
        return result
