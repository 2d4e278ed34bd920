"""The command line: what is asked is done, and the exit status says how it went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.transcript import Event, Transcript, load, render
from tests.conformance.editor import TOY, converse
from tests.conformance.talk import EVERYTHING, Talk, full_talk

PATIENCE = 60.0


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "conformance", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE)


def stored(path: Path, *entries: object) -> Path:
    path.write_bytes(render(Transcript(entries=tuple(entries))))  # type: ignore[arg-type]
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return stored(tmp_path / "good.jsonl", *full_talk())


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    talk = Talk().start(**EVERYTHING)
    talk.done(talk.prompt())
    talk.say("s1", "too late")
    return stored(tmp_path / "bad.jsonl", *talk.frames)


@pytest.fixture
def advised(tmp_path: Path) -> Path:
    talk = Talk().start()
    talk.update("s1", "usage_update", used=1, size=2, cost=None)
    return stored(tmp_path / "advised.jsonl", *talk.frames)


# lint


def test_lint_is_silent_and_0_on_a_correct_transcript(good: Path) -> None:
    done = run("lint", good)
    assert done.returncode == 0
    assert done.stdout.decode().strip() == f"{good}: {len(full_talk())} frames, no findings"


def test_lint_names_rule_and_line_and_ends_with_1(good: Path, bad: Path) -> None:
    done = run("lint", good, bad)
    out = done.stdout.decode()
    assert done.returncode == 1
    assert "MUST turn.late-update: agent_message_chunk after the answer of its prompt" in out
    assert f"{bad}:8: ← " in out
    assert "too late" in out
    assert "too late" in bad.read_text().splitlines()[8 - 1], "the line is that of the file"


def test_lint_counts_recommendations_only_if_strict(advised: Path) -> None:
    assert run("lint", advised).returncode == 0
    assert run("lint", advised, "--strict").returncode == 1
    assert run("lint", advised, "--strict", "--ignore", "schema.*").returncode == 0
    assert b"REC schema.null" in run("lint", advised).stdout


def test_lint_gives_json_lines(bad: Path) -> None:
    found = [json.loads(line) for line in run("lint", bad, "--json").stdout.splitlines()]
    assert [(item["rule"], item["lines"]) for item in found] == [("turn.late-update", [7, 8])]


def test_lint_does_not_blame_the_agent_for_a_client_that_left(tmp_path: Path) -> None:
    talk = Talk().start()
    talk.prompt()
    asked = stored(tmp_path / "asked.jsonl", *talk.frames)
    left = stored(tmp_path / "left.jsonl", *talk.frames, Event("signal", 1, detail="SIGTERM"))
    assert run("lint", asked).returncode == 1
    assert run("lint", left).returncode == 0
    assert b"REC answer.before-exit" in run("lint", left).stdout


def test_lint_lists_its_rules() -> None:
    listed = run("lint", "--rules").stdout.decode()
    assert "MUST   answer.once" in listed


def test_lint_judges_the_client_if_asked(tmp_path: Path) -> None:
    talk = Talk().start()
    talk.reply(7, {})
    path = stored(tmp_path / "client.jsonl", *talk.frames)
    assert run("lint", path).returncode == 0
    assert run("lint", path, "--client").returncode == 1


# record and replay


def test_what_was_recorded_can_be_replayed(tmp_path: Path) -> None:
    work, tape = tmp_path / "work", tmp_path / "tape.jsonl"
    work.mkdir()
    (work / "a.txt").write_text("content")
    recording = converse(work, "read a.txt; tool; say bye")
    tape.write_bytes(render(recording))
    done = run("replay", tape, "--", *TOY)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "as recorded")


def test_a_difference_is_shown_and_taken_over_on_request(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    (tmp_path / "work").mkdir()
    tape.write_bytes(render(converse(tmp_path / "work", "say hello")))
    other = [*TOY, "--reply", "good bye"]
    differs = run("replay", tape, "--", *other)
    assert differs.returncode == 1
    assert b'+    "text": "good bye"' in differs.stdout
    assert run("replay", tape, "--update", "--", *other).returncode == 0
    assert run("replay", tape, "--", *other).returncode == 0
    assert str(tmp_path) not in tape.read_text()


def test_variables_reach_the_agent(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    tape = tmp_path / "tape.jsonl"
    tape.write_bytes(render(converse(tmp_path / "work", "say hi")))
    guard = "import os, sys; sys.exit(5) if os.environ.get('TOKEN') != 'x=1' else None;"
    code = f"{guard} os.execv(sys.executable, {TOY!r})"
    agent = [sys.executable, "-c", code]
    assert run("replay", tape, "--env", "TOKEN=x=1", "--", *agent).returncode == 0
    assert run("replay", tape, "--", *agent).returncode == 1


def test_record_passes_everything_after_the_dashes_to_the_agent(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    code = "import sys; print(sys.argv[1:])"
    done = run("record", "-o", tape, "--", sys.executable, "-c", code, "--", "-o", "--x")
    assert done.stdout.strip() == b"['--', '-o', '--x']"
    assert load(tape).header.command[-3:] == ("--", "-o", "--x")


# check


def test_check_writes_the_reports_and_ends_with_the_verdict(tmp_path: Path) -> None:
    junit, page = tmp_path / "r.xml", tmp_path / "r.html"
    reports = ["--report", f"junit={junit}", "--report", f"html={page}", "--report", "badge=-"]
    done = run("check", "--no-model", "--only", "INIT-0[12]", *reports, "--", *TOY)
    assert done.returncode == 0, done.stderr
    assert ElementTree.parse(junit).getroot()[0].get("failures") == "0"
    assert "INIT-02" in page.read_text("utf-8")
    assert done.stdout.startswith(b"<svg")


def test_check_finds_what_is_broken() -> None:
    broken = [sys.executable, "-c", "import sys; print('hello'); sys.stdin.read()"]
    done = run("check", "--no-model", "--only", "INIT-01", "--timeout", "1", "--", *broken)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_check_lists_the_catalogue() -> None:
    listed = run("check", "--list").stdout.decode()
    assert "INIT-01" in listed


# wrong questions


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["record", "-o", "x"], "after --"),
        (["record", "--", "agent"], "-o"),
        (["record", "-o", "/no/such/dir/x.jsonl", "--", sys.executable], "No such file"),
        (["replay", "--", "agent"], "file"),
        (["replay", "no-such-file", "--", "agent"], "no-such-file"),
        (["replay", "x", "--timeout", "0", "--", "agent"], "above 0"),
        (["replay", "x", "--env", "novalue", "--", "agent"], "NAME=VALUE"),
        (["lint"], "at least one"),
        (["lint", "x", "--", "agent"], "no agent command"),
        (["lint", __file__], "is this a transcript"),
        (["check"], "after --"),
        (["check", "--report", "pdf=x", "--", "agent"], "junit"),
        (["check", "--level", "maybe", "--", "agent"], "must, should, may, rec"),
        (["check", "--jobs", "0", "--", "agent"], "above 0"),
        (["check", "--only", "NOPE-*", "--", "agent"], "no check fits"),
        (["check", "--only", "NOPE", "--", "agent"], "NOPE"),
        (["check", "--", "no-such-agent-anywhere"], "no-such-agent-anywhere"),
        (["dance"], "invalid choice"),
        ([], "usage"),
    ],
)
def test_a_wrong_question_is_2_and_says_what_to_do(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert says in (done.stderr + done.stdout).decode()
    assert b"Traceback" not in done.stderr


def test_a_reader_that_went_away_is_no_crash(bad: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "conformance", "lint", str(bad)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE)
    os.close(writer)
    assert done.stderr == b""


# what an import costs


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("conformance", "orjson rich jsonschema anyio pydantic"),
        ("conformance.pytest_plugin", "orjson rich jsonschema anyio pydantic conformance.cli"),
        ("conformance.cli", "orjson rich jsonschema anyio pydantic"),
        ("conformance.recorder", "rich jsonschema anyio pydantic asyncio"),
        ("conformance.lint", "rich jsonschema anyio pydantic"),
        ("conformance.schema", "rich jsonschema anyio pydantic"),
        ("conformance.report.badge", "rich jsonschema anyio pydantic"),
    ],
)
def test_a_room_costs_only_what_it_needs(module: str, absent: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE)
    loaded = set(done.stdout.decode().split())
    assert module in loaded
    assert not loaded & set(absent.split())


def test_the_kit_imports_nothing_of_the_agent() -> None:
    root = Path(__file__).parents[2] / "conformance"
    for path in root.rglob("*.py"):
        text = path.read_text("utf-8")
        assert "harness_core" not in text, path
        assert "acp_server" not in text, path
