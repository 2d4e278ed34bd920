"""The agent through the official TypeScript SDK: whole scenarios, played by ``full_client.mjs``.

The client itself fails on late updates, leaked terminals and an agent that does not leave.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.harness import POEM, Agent
from tests.clients.install import HERE, node, npm_ci

FOLDER = HERE / "typescript"
PATIENCE = 120.0
"""Seconds a whole scenario may take."""

LOOK = '!call read {"path": "poem.txt"}'
EDIT = '!call edit {"path": "poem.txt", "old_text": "blue", "new_text": "golden"}'
FULL = ("--fs", "read,write", "--terminal", "--form")

Step = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """What the client says at the end."""

    hello: dict[str, Any]
    results: list[Any]
    questions: list[dict[str, Any]]


Play = Callable[..., Report]
Run = Callable[[list[Step], list[str], list[str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(agent: Agent) -> Run:
    """Let the client play a scenario with flags and an agent's command."""
    program = node()
    npm_ci(FOLDER)

    def run(
        steps: list[Step], flags: list[str], command: list[str]
    ) -> subprocess.CompletedProcess[str]:
        file = agent.root / "steps.json"
        file.write_text(json.dumps(steps))
        client = [program, str(FOLDER / "full_client.mjs"), *flags, "--steps", str(file)]
        return subprocess.run(
            [*client, "--", *command],
            env=agent.env,
            cwd=agent.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run


@pytest.fixture
def play(agent: Agent, run: Run) -> Play:
    """Play a scenario with our agent; the client must be content with everything."""

    def play(steps: list[Step], *flags: str) -> Report:
        done = run(steps, list(flags), agent.command())
        assert done.stderr == ""
        report = json.loads(done.stdout)
        assert report.pop("failures") == []
        assert done.returncode == 0
        return Report(**report)

    return play


def prompt(session: str, *lines: str, **more: Any) -> Step:
    return {"prompt": session, "text": "\n".join(lines), **more}


def test_the_whole_life_of_a_session(agent: Agent, play: Play) -> None:
    cwd = str(agent.work)
    steps: dict[str, Step] = {
        "new": {"new": "a", "cwd": cwd},
        "everything": prompt(
            "a", "!think Hm.", "!say Look.", LOOK, "!say Change.", EDIT, "!say Changed."
        ),
        "command": prompt("a", '!call shell {"command": "echo out; echo more"}', "!say Ran."),
        "plan": prompt("a", "!plan [x] look; [>] change", "!say Planned."),
        "cancelled": prompt("a", "!delay 5", "!stream 3000 {i} ", cancel="5 "),
        "next": prompt("a", "!say Next."),
        "another": {"new": "b", "cwd": str(agent.home)},
        "together": {
            "all": [
                prompt("a", "!delay 2", "!stream 50 a"),
                prompt("b", "!delay 2", "!stream 50 b"),
                {"list": True},
            ]
        },
        "restart": {"restart": True},
        "load": {"load": "a", "cwd": cwd},
        "context": prompt("a", "!context"),
        "again": {"restart": True},
        "resume": {"resume": "a", "cwd": cwd},
        "resumed": prompt("a", "!context"),
        "listed": {"list": True, "cwd": cwd},
        "close": {"close": "a"},
        "closed": prompt("a", "!say Nobody hears this."),
        "delete": {"delete": "a"},
        "deleted": {"delete": "a"},
        "left": {"list": True},
        "gone": {"load": "a", "cwd": cwd},
    }
    report = play(list(steps.values()), *FULL)
    results = dict(zip(steps, report.results, strict=True))
    a, b = results["new"]["sessionId"], results["another"]["sessionId"]

    everything = results["everything"]
    assert everything["stopReason"] == "end_turn"
    assert everything["thought"] == "Hm."
    assert everything["text"] == "Look.Change.Changed."
    assert [call["status"] for call in everything["calls"].values()] == ["completed"] * 2
    assert agent.file.read_text() == POEM.replace("blue", "golden")
    (command,) = results["command"]["calls"].values()
    assert (command["kind"], command["status"]) == ("execute", "completed")
    assert len(report.questions) == 2
    assert [entry["status"] for entry in results["plan"]["plans"][0]] == [
        "completed",
        "in_progress",
    ]
    assert results["cancelled"]["stopReason"] == "cancelled"
    assert "2900 " not in results["cancelled"]["text"]
    assert (results["next"]["stopReason"], results["next"]["text"]) == ("end_turn", "Next.")
    first, second, listed = results["together"]
    assert (first["text"], second["text"]) == ("a" * 50, "b" * 50)
    assert {info["sessionId"] for info in listed["sessions"]} == {a, b}

    loaded = results["load"]
    assert loaded["thought"] == "Hm."
    assert "Look.Change.Changed.Ran.Planned." in loaded["text"]
    assert loaded["text"].endswith("Next." + "a" * 50)
    assert "Changed." in results["context"]["text"]
    assert results["resume"]["text"] == ""
    assert "Changed." in results["resumed"]["text"]
    assert [info["sessionId"] for info in results["listed"]["sessions"]] == [a]
    assert results["closed"]["error"]["code"] == -32002
    assert (results["close"], results["delete"], results["deleted"]) == ({}, {}, {})
    assert [info["sessionId"] for info in results["left"]["sessions"]] == [b]
    assert results["gone"]["error"]["code"] == -32002


def test_only_a_yes_is_a_yes(agent: Agent, play: Play) -> None:
    noes = ("reject_once", "cancelled", "unknown", "malformed", "empty", "error")
    steps: list[Step] = [{"new": "a", "cwd": str(agent.work)}, prompt("a", LOOK)]
    for answer in noes:
        steps += [{"permission": answer}, prompt("a", EDIT)]
    steps += [
        {"permission": "never"},
        prompt("a", EDIT, cancel=True),
        {"permission": "allow_always"},
        prompt("a", EDIT),
        {"permission": "never"},
        prompt("a", '!call edit {"path": "poem.txt", "old_text": "golden", "new_text": "red"}'),
    ]
    report = play(steps)

    turns = [result for result in report.results[1:] if "stopReason" in result]
    assert [_status(turn) for turn in turns[1:8]] == ["failed"] * 7
    assert turns[7]["stopReason"] == "cancelled"
    assert [_status(turn) for turn in turns[8:]] == ["completed"] * 2
    assert len(report.questions) == len(noes) + 2
    assert agent.file.read_text() == POEM.replace("blue", "red")


def _status(turn: dict[str, Any]) -> str:
    (call,) = turn["calls"].values()
    return str(call["status"])


@pytest.mark.parametrize(
    "flags",
    [("--fs", "read"), ("--terminal", "--fs", "write")],
    ids=["read", "write-and-terminal"],
)
def test_what_an_editor_does_not_offer_is_done_without(
    agent: Agent, play: Play, flags: tuple[str, ...]
) -> None:
    """The linter holds that nothing is asked of the client that it did not offer."""
    turn = prompt("a", LOOK, "!say Now.", EDIT, '!call shell {"command": "cat poem.txt > copy"}')
    report = play([{"new": "a", "cwd": str(agent.work)}, turn], *flags)
    calls = report.results[1]["calls"].values()
    assert [call["status"] for call in calls] == ["completed"] * 3
    assert (agent.work / "copy").read_text() == POEM.replace("blue", "golden")


RUDE = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    match message:
        case {"method": "initialize", "id": id}:
            send(id=id, result={"protocolVersion": 1})
        case {"method": "session/new", "id": id}:
            send(id=id, result={"sessionId": "s"})
        case {"method": "session/prompt", "id": prompt}:
            params = {"sessionId": "s", "command": "true"}
            send(id=0, method="terminal/create", params=params)
        case {"result": _}:
            send(id=prompt, result={"stopReason": "end_turn"})
            text = {"type": "text", "text": "One more thing."}
            update = {"sessionUpdate": "agent_message_chunk", "content": text}
            send(method="session/update", params={"sessionId": "s", "update": update})
sys.exit(3)
"""


def test_the_client_itself_finds_what_an_agent_does_wrong(agent: Agent, run: Run) -> None:
    steps = [{"new": "a", "cwd": str(agent.work)}, prompt("a", "Be rude.")]
    done = run(steps, ["--terminal"], [sys.executable, "-c", RUDE])
    assert done.stderr == ""
    assert done.returncode == 1
    assert [failure.split(":")[0] for failure in json.loads(done.stdout)["failures"]] == [
        "exit",
        "late",
        "leak",
    ]
