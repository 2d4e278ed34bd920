"""The pytest plugin: another project's tests ask for its agent and fail with a reason."""

from __future__ import annotations

import shlex

import pytest

from conformance.transcript import Transcript, load, render
from tests.conformance.editor import TOY, converse
from tests.conformance.talk import EVERYTHING, Talk, full_talk

pytest_plugins = ["pytester"]
AGENT = shlex.join(TOY)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with an agent, a recording of it and two transcripts to judge."""
    work = pytester.mkdir("work")
    pytester.path.joinpath("tape.jsonl").write_bytes(render(converse(work, "say hello")))
    late = Talk().start(**EVERYTHING)
    late.done(late.prompt())
    late.say("s1", "too late")
    for name, frames in (("good", full_talk()), ("bad", late.frames)):
        transcript = Transcript(entries=tuple(frames))
        pytester.path.joinpath(f"{name}.jsonl").write_bytes(render(transcript))
    return pytester


def outcome(project: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    project.makepyfile(f"def test_it(acp_agent):\n    {body}\n")
    return project.runpytest_subprocess("-p", "no:cacheprovider", *options, timeout=100)


def test_a_recording_of_the_agent_passes(project: pytest.Pytester) -> None:
    result = outcome(project, 'assert acp_agent.replay("tape.jsonl").ok', "--acp-agent", AGENT)
    result.assert_outcomes(passed=1)


def test_an_agent_that_does_something_else_fails_with_a_diff(project: pytest.Pytester) -> None:
    other = f"{AGENT} --reply bye"
    result = outcome(project, 'acp_agent.replay("tape.jsonl")', "--acp-agent", other)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*-    "text": "hello"*', '*+    "text": "bye"*'])


def test_the_update_option_rewrites_the_recording(project: pytest.Pytester) -> None:
    options = ["--acp-agent", f"{AGENT} --reply bye"]
    body = 'acp_agent.replay("tape.jsonl")'
    outcome(project, body, *options, "--acp-update").assert_outcomes(passed=1)
    outcome(project, body, *options).assert_outcomes(passed=1)
    tape = load(project.path / "tape.jsonl")
    assert any(b'"bye"' in frame.raw for frame in tape.frames)


def test_the_ini_file_may_name_the_agent(project: pytest.Pytester) -> None:
    project.makeini(f"[pytest]\nacp_agent = {AGENT}\n")
    result = outcome(project, 'assert acp_agent.lint("good.jsonl") == []')
    result.assert_outcomes(passed=1)


def test_a_transcript_that_breaks_a_duty_fails(project: pytest.Pytester) -> None:
    result = outcome(project, 'acp_agent.lint("bad.jsonl")', "--acp-agent", AGENT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*turn.late-update: agent_message_chunk after the answer*"])


def test_the_catalogue_runs_against_the_agent(project: pytest.Pytester) -> None:
    body = 'run = acp_agent.check("INIT-0[12]", model=False); assert run.results'
    outcome(project, body, "--acp-agent", AGENT).assert_outcomes(passed=1)


def test_without_an_agent_the_fixture_says_how_to_name_one(project: pytest.Pytester) -> None:
    result = outcome(project, "pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs an agent: name the agent with --acp-agent*"])


def test_a_project_that_never_asks_for_it_pays_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        "import sys\n"
        "def test_it():\n"
        "    loaded = [name for name in sys.modules if name.startswith('conformance')]\n"
        "    assert sorted(loaded) == ['conformance', 'conformance.pytest_plugin']\n"
    )
    project.runpytest_subprocess("-p", "no:cacheprovider", timeout=60).assert_outcomes(passed=1)
