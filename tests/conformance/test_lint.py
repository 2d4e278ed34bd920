"""The global rules: silent on correct conversations, and each able to fail.

Every broken conversation below differs from a correct one by the breach alone, and
the finding must name its rule and point at the frame that proves it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.frames import Direction, Finding, Frame, Level
from conformance.lint import RULES, lint
from tests.conformance.talk import EVERYTHING, OPTIONS, Talk, a2c, c2a, full_talk

Breaker = Callable[[Talk], None]
BREAKERS: dict[str, Breaker] = {}
CUT_SHORT = {"answer.before-exit"}
"""Rules about conversations that the client left early."""


def breaks(rule: str) -> Callable[[Breaker], Breaker]:
    """The function adds a breach of ``rule`` to a started talk; its last frame is the proof."""

    def enter(breaker: Breaker) -> Breaker:
        BREAKERS[rule] = breaker
        return breaker

    return enter


def raw(talk: Talk, data: bytes, terminated: bool = True) -> None:
    talk.frames.append(Frame(Direction.A2C, 0, data, terminated))


def judged(frames: list[Frame], rule: str | None = None) -> list[Finding]:
    findings = lint(frames, complete=rule not in CUT_SHORT, actors=("agent", "client"))
    return [found for found in findings if rule in (None, found.rule)]


@breaks("io.utf8")
def _(talk: Talk) -> None:
    raw(talk, b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\xff"}}')


@breaks("io.json")
def _(talk: Talk) -> None:
    raw(talk, b"Starting up...")


@breaks("io.terminated")
def _(talk: Talk) -> None:
    raw(talk, b'{"jsonrpc":"2.0","method":"_x"}', terminated=False)


@breaks("io.carriage-return")
def _(talk: Talk) -> None:
    raw(talk, b'{"jsonrpc":"2.0","method":"_x"}\r')


@breaks("io.surrogates")
def _(talk: Talk) -> None:
    raw(talk, b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\\ud800"}}')


@breaks("io.separators")
def _(talk: Talk) -> None:
    raw(talk, '{"jsonrpc":"2.0","method":"_x","params":{"a":"\u2028"}}'.encode())


@breaks("io.duplicate-keys")
def _(talk: Talk) -> None:
    raw(talk, b'{"jsonrpc":"2.0","method":"_x","params":{"a":1,"a":2}}')


@breaks("io.line-size")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.done(prompt)
    talk.frames[-2:] = [talk.frames[-2], talk.frames[-1]]
    talk.frames.append(a2c(method="_x", params={"a": "x" * 70_000}))


@breaks("io.first-line")
def _(talk: Talk) -> None:
    talk.frames.insert(1, a2c(method="_welcome"))


@breaks("schema.valid")
def _(talk: Talk) -> None:
    talk.update("s1", "usage_update", used=1)


@breaks("schema.stable")
def _(talk: Talk) -> None:
    talk.update("s1", "plan_removed", planId="p")


@breaks("schema.august")
def _(talk: Talk) -> None:
    talk.call("session/new", {"sessionId": "s9"}, cwd="/proj", mcpServers=[])
    talk.update("s1", "subagent_update", subagentId="a", sessionId="s9")


@breaks("schema.unknown-keys")
def _(talk: Talk) -> None:
    talk.update("s1", "usage_update", used=1, size=2, color="red")


@breaks("schema.withdrawn")
def _(talk: Talk) -> None:
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "A"}]}
    opened = {"sessionId": "s2", "models": models}
    talk.call("session/new", opened, cwd="/proj", mcpServers=[])


@breaks("schema.null")
def _(talk: Talk) -> None:
    talk.update("s1", "usage_update", used=1, size=2, cost=None)


@breaks("error.message")
def _(talk: Talk) -> None:
    talk.answer(talk.prompt(), error={"code": -32603, "message": ""})


@breaks("error.traceback")
def _(talk: Talk) -> None:
    data = "Traceback (most recent call last): …"
    talk.answer(talk.prompt(), error={"code": -32603, "message": "failed", "data": data})


@breaks("answer.once")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.done(prompt)
    talk.done(prompt)


@breaks("answer.before-exit")
def _(talk: Talk) -> None:
    talk.prompt()


@breaks("answer.known-id")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.done(prompt)
    talk.answer(str(prompt), {"stopReason": "end_turn"})


@breaks("answer.notification")
def _(talk: Talk) -> None:
    talk.tell("session/cancel", sessionId="s1")
    talk.answer(None, error={"code": -32601, "message": "no such method"})


@breaks("request.id-reuse")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    at = {"sessionId": "s1", "path": "/a"}
    talk.request(7, "fs/read_text_file", **at)
    talk.request(7, "fs/read_text_file", **at)
    talk.reply(7, {"content": ""})
    talk.reply(7, {"content": ""})
    talk.done(prompt)


@breaks("client.schema")
def _(talk: Talk) -> None:
    talk.tell("session/cancel", session="s1")


@breaks("client.answer-once")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.request(7, "fs/read_text_file", sessionId="s1", path="/a")
    talk.done(prompt)


@breaks("client.known-id")
def _(talk: Talk) -> None:
    talk.reply(77, {})


@breaks("session.unique")
def _(talk: Talk) -> None:
    talk.call("session/new", {"sessionId": "s1"}, cwd="/proj", mcpServers=[])


@breaks("session.unknown")
def _(talk: Talk) -> None:
    talk.update("ghost", "usage_update", used=1, size=2)


@breaks("session.early")
def _(talk: Talk) -> None:
    new = talk.ask("session/new", cwd="/proj", mcpServers=[])
    talk.update("s2", "usage_update", used=1, size=2)
    talk.answer(new, {"sessionId": "s2"})


@breaks("session.closed")
def _(talk: Talk) -> None:
    talk.call("session/close", {}, sessionId="s1")
    talk.update("s1", "usage_update", used=1, size=2)


@breaks("turn.late-update")
def _(talk: Talk) -> None:
    talk.done(talk.prompt())
    talk.say("s1", "one more thing")


@breaks("load.late-replay")
def _(talk: Talk) -> None:
    talk.call("session/load", {}, sessionId="s1", cwd="/proj", mcpServers=[])
    talk.say("s1", "earlier")


@breaks("resume.replay")
def _(talk: Talk) -> None:
    resume = talk.ask("session/resume", sessionId="s1", cwd="/proj", mcpServers=[])
    talk.say("s1", "earlier")
    talk.answer(resume, {})


@breaks("turn.unprompted")
def _(talk: Talk) -> None:
    talk.say("s1", "Welcome!")


@breaks("turn.stale-update")
def _(talk: Talk) -> None:
    first = talk.prompt()
    talk.tool("s1", "t1")
    talk.done(first)
    second = talk.prompt()
    talk.update("s1", "tool_call_update", toolCallId="t1", status="completed")
    talk.done(second)


@breaks("turn.late-permission")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.tool("s1", "t1")
    talk.done(prompt)
    tool = {"toolCallId": "t1"}
    refused = {"outcome": {"outcome": "cancelled"}}
    talk.use(
        7, "session/request_permission", refused, sessionId="s1", toolCall=tool, options=OPTIONS
    )


@breaks("turn.stop-reason")
def _(talk: Talk) -> None:
    talk.done(talk.prompt(), "error")


@breaks("turn.uninvited-cancel")
def _(talk: Talk) -> None:
    talk.done(talk.prompt(), "cancelled")


@breaks("turn.cancel-error")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.tell("session/cancel", sessionId="s1")
    talk.answer(prompt, error={"code": -32603, "message": "aborted"})


@breaks("tool.unique")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.tool("s1", "t1")
    talk.update("s1", "tool_call", toolCallId="t1", title="Again", status="completed")
    talk.done(prompt)


@breaks("tool.announced")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.update("s1", "tool_call_update", toolCallId="t1", status="completed")
    talk.done(prompt)


@breaks("tool.final")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.update("s1", "tool_call", toolCallId="t1", title="Run it", status="in_progress")
    talk.done(prompt)


@breaks("tool.left-open")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.update("s1", "tool_call", toolCallId="t1", title="Run it", status="in_progress")
    talk.tell("session/cancel", sessionId="s1")
    talk.done(prompt, "cancelled")


@breaks("load.final")
def _(talk: Talk) -> None:
    load = talk.ask("session/load", sessionId="s1", cwd="/proj", mcpServers=[])
    talk.update("s1", "tool_call", toolCallId="t1", title="Run it")
    talk.answer(load, {})


@breaks("tool.reopened")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.tool("s1", "t1", "failed")
    talk.update("s1", "tool_call_update", toolCallId="t1", status="completed")
    talk.done(prompt)


@breaks("tool.permission")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    tool = {"toolCallId": "t1"}
    refused = {"outcome": {"outcome": "cancelled"}}
    talk.use(
        7, "session/request_permission", refused, sessionId="s1", toolCall=tool, options=OPTIONS
    )
    talk.done(prompt)


def _permission(talk: Talk, options: list[dict[str, Any]]) -> None:
    prompt = talk.prompt()
    talk.tool("s1", "t1")
    tool = {"toolCallId": "t1"}
    refused = {"outcome": {"outcome": "cancelled"}}
    talk.use(
        7, "session/request_permission", refused, sessionId="s1", toolCall=tool, options=options
    )
    talk.done(prompt)


@breaks("permission.options")
def _(talk: Talk) -> None:
    _permission(talk, [])


@breaks("permission.unique-options")
def _(talk: Talk) -> None:
    _permission(talk, [OPTIONS[0], {**OPTIONS[1], "optionId": "yes"}])


PAGE = {"mode": "url", "message": "Look", "url": "https://pages.example/x", "elicitationId": "e"}


def ask_page(talk: Talk, number: int, **other: Any) -> None:
    """The agent sends somebody to a page, who agrees."""
    params = {"sessionId": "s1", **PAGE, **other}
    talk.use(number, "elicitation/create", {"action": "accept"}, **params)


def complete(talk: Talk, page: str) -> None:
    talk.frames.append(a2c(method="elicitation/complete", params={"elicitationId": page}))


@breaks("question.request")
def _(talk: Talk) -> None:
    login = talk.ask("authenticate", methodId="key")
    talk.answer(login, {})
    talk.request(7, "elicitation/create", requestId=login, **PAGE)


@breaks("question.credentials")
def _(talk: Talk) -> None:
    ask_page(talk, 7, url="https://ada:secret@pages.example/x")


@breaks("question.secure")
def _(talk: Talk) -> None:
    ask_page(talk, 7, url="http://pages.example/x")


@breaks("question.id")
def _(talk: Talk) -> None:
    ask_page(talk, 7)
    ask_page(talk, 8)


@breaks("question.complete")
def _(talk: Talk) -> None:
    talk.use(7, "elicitation/create", {"action": "decline"}, sessionId="s1", **PAGE)
    complete(talk, "e")


@breaks("question.link")
def _(talk: Talk) -> None:
    field = {"type": "string", "description": "See https://pages.example/x"}
    schema = {"type": "object", "properties": {"a": field}}
    asked = {"mode": "form", "message": "?", "requestedSchema": schema}
    talk.request(7, "elicitation/create", sessionId="s1", **asked)


@breaks("terminal.released")
def _(talk: Talk) -> None:
    talk.use(7, "terminal/create", {"terminalId": "x"}, sessionId="s1", command="ls")


@breaks("terminal.released-once")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.terminal("s1", "x", 7)
    talk.use(17, "terminal/release", {}, sessionId="s1", terminalId="x")
    talk.done(prompt)


@breaks("terminal.after-release")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    talk.terminal("s1", "x", 7)
    output = {"output": "", "truncated": False}
    talk.use(17, "terminal/output", output, sessionId="s1", terminalId="x")
    talk.done(prompt)


@breaks("terminal.unknown")
def _(talk: Talk) -> None:
    talk.use(7, "terminal/kill", {}, sessionId="s1", terminalId="ghost")


@breaks("terminal.shown-late")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    at = {"sessionId": "s1"}
    talk.use(7, "terminal/create", {"terminalId": "x"}, **at, command="ls")
    talk.use(8, "terminal/release", {}, **at, terminalId="x")
    shown = [{"type": "terminal", "terminalId": "x"}]
    talk.update("s1", "tool_call", toolCallId="t", title="ls", status="completed", content=shown)
    talk.done(prompt)


@breaks("path.absolute")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    at = [{"path": "src/a.py"}]
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="completed", locations=at)
    talk.done(prompt)


@breaks("path.line")
def _(talk: Talk) -> None:
    prompt = talk.prompt()
    at = [{"path": "/src/a.py", "line": 0}]
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="completed", locations=at)
    talk.done(prompt)


# The gates: the same use, with the capability taken away.

GATES: dict[str, tuple[str, Breaker]] = {
    "gate.read": (
        "fs",
        lambda talk: talk.use(
            7, "fs/read_text_file", {"content": ""}, sessionId="s1", path="/proj/a"
        ),
    ),
    "gate.write": (
        "fs",
        lambda talk: talk.use(
            7, "fs/write_text_file", {}, sessionId="s1", path="/proj/a", content=""
        ),
    ),
    "gate.terminal": (
        "terminal",
        lambda talk: talk.use(
            7, "terminal/create", {"terminalId": "x"}, sessionId="s1", command="ls"
        ),
    ),
    "gate.form": (
        "elicitation",
        lambda talk: talk.use(
            7,
            "elicitation/create",
            {"action": "decline"},
            sessionId="s1",
            mode="form",
            message="?",
            requestedSchema={"type": "object", "properties": {}},
        ),
    ),
    "gate.url": (
        "elicitation",
        lambda talk: talk.use(
            7,
            "elicitation/create",
            {"action": "decline"},
            sessionId="s1",
            mode="url",
            message="?",
            elicitationId="e",
            url="https://example.com/login",
        ),
    ),
    "gate.boolean": (
        "session",
        lambda talk: talk.update(
            "s1",
            "config_option_update",
            configOptions=[{"id": "b", "name": "B", "type": "boolean", "currentValue": True}],
        ),
    ),
    "gate.notice": (
        "session",
        lambda talk: talk.update("s1", "notice", severity="info", title="x"),
    ),
    "gate.compaction": (
        "session",
        lambda talk: talk.update("s1", "compaction_update", compactionId="c", status="completed"),
    ),
    "gate.plan": ("plan", lambda talk: talk.update("s1", "plan_removed", planId="p")),
}


@pytest.mark.parametrize("rule", GATES)
def test_an_unannounced_capability_is_never_used(rule: str) -> None:
    capability, use = GATES[rule]
    without = Talk().start(**{key: EVERYTHING[key] for key in EVERYTHING if key != capability})
    use(without)
    found = judged(without.frames, rule)
    assert [finding.rule for finding in found] == [rule]
    assert found[0].frames[0] == 0, "the proof begins with what the client announced"
    allowed = Talk().start(**EVERYTHING)
    use(allowed)
    assert not judged(allowed.frames, rule)


@pytest.mark.parametrize("value", [False, None, "yes", 1])
def test_only_true_and_objects_announce_a_capability(value: Any) -> None:
    talk = Talk().start(terminal=value)
    GATES["gate.terminal"][1](talk)
    assert judged(talk.frames, "gate.terminal")


@pytest.mark.parametrize("offered", [True, False])
def test_terminal_login_is_offered_only_to_clients_that_can(offered: bool) -> None:
    methods = [{"type": "terminal", "id": "t", "name": "Terminal", "args": ["--login"]}]
    talk = Talk()
    capabilities = {"auth": {"terminal": offered}}
    talk.call(
        "initialize",
        {"protocolVersion": 1, "authMethods": methods},
        protocolVersion=1,
        clientCapabilities=capabilities,
    )
    assert bool(judged(talk.frames, "gate.login")) is not offered


def test_calls_go_on_until_a_load_that_is_asked_for_meanwhile_replays_them() -> None:
    """Two loads behind each other, while a turn runs; one of its calls is not replayed."""
    talk = Talk().start()
    prompt = talk.prompt()
    talk.tool("s1", "t1")
    talk.tool("s1", "t2")
    loads = [talk.ask("session/load", sessionId="s1", cwd="/p", mcpServers=[]) for _ in range(2)]
    talk.update("s1", "tool_call_update", toolCallId="t1", status="completed")
    talk.update("s1", "tool_call_update", toolCallId="t2", status="in_progress")
    talk.tool("s1", "t3")
    talk.done(prompt, "cancelled")
    for load in loads:
        for name in ("t1", "t3"):
            talk.update("s1", "tool_call", toolCallId=name, title="t", status="completed")
        talk.answer(load, {})
    for name in ("tool.announced", "tool.unique", "load.final"):
        assert not judged(talk.frames, name)
    talk.update("s1", "tool_call", toolCallId="t1", title="t", status="completed")
    assert judged(talk.frames, "tool.unique")


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize("first", [True, False])
def test_a_session_asked_for_behind_its_close_is_open(method: str, first: bool) -> None:
    """Pipelined, before the close is answered; asked for before the close it is closed by it."""
    talk = Talk().start()
    again: dict[str, Any] = {"sessionId": "s1", "cwd": "/proj", "mcpServers": []}
    opening = talk.ask(method, **again) if first else None
    close = talk.ask("session/close", sessionId="s1")
    opening = opening or talk.ask(method, **again)
    talk.answer(close, {})
    talk.update("s1", "usage_update", used=1, size=2)
    talk.answer(opening, {})
    assert bool(judged(talk.frames, "session.closed")) is first


def test_without_a_seen_initialize_no_capability_is_judged() -> None:
    talk = Talk()
    talk.prompt()
    GATES["gate.terminal"][1](talk)
    assert not judged(talk.frames, "gate.terminal")


# All rules together.


def test_a_correct_conversation_that_uses_everything_has_no_finding() -> None:
    assert judged(full_talk()) == []


@pytest.mark.parametrize("rule", BREAKERS)
def test_every_rule_finds_its_breach_and_points_at_it(rule: str) -> None:
    correct = Talk().start(**EVERYTHING)
    assert not judged(correct.frames, rule)
    BREAKERS[rule](correct)
    found = judged(correct.frames, rule)
    assert found, "the rule did not see the breach"
    assert all(finding.message and finding.frames for finding in found)
    assert all(0 <= index < len(correct.frames) for finding in found for index in finding.frames)


def test_every_rule_has_a_test_that_breaks_it() -> None:
    assert {*BREAKERS, *GATES, "gate.login"} == set(RULES)


def test_every_rule_says_what_it_is_about() -> None:
    for rule in RULES.values():
        assert rule.title
        assert rule.refs
        assert isinstance(rule.level, Level)


def test_the_documentation_lists_every_rule() -> None:
    page = Path(__file__).parents[2] / "docs" / "conformance" / "rules.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert {tuple(row.split(" | ")[:2]) for row in rows} == {
        (f"| `{rule.id}`", str(rule.level)) for rule in RULES.values()
    }


def test_a_recommendation_says_so() -> None:
    recommended = {rule.id for rule in RULES.values() if rule.level is Level.REC}
    assert {"io.line-size", "schema.null", "io.separators"} <= recommended
    assert not recommended & {"answer.once", "turn.late-update", "schema.valid", "io.json"}


# Fine points: what must not be found, and what must.


def test_a_queued_prompt_keeps_the_turn_open() -> None:
    talk = Talk().start()
    first, second = talk.prompt(), talk.prompt()
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="in_progress")
    talk.done(first)
    talk.update("s1", "tool_call_update", toolCallId="t", status="completed")
    talk.done(second)
    assert judged(talk.frames) == []


def test_a_replay_may_repeat_the_ids_it_had() -> None:
    talk = Talk().start()
    prompt = talk.prompt()
    talk.tool("s1", "t")
    talk.done(prompt)
    load = talk.ask("session/load", sessionId="s1", cwd="/proj", mcpServers=[])
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="completed")
    talk.answer(load, {})
    assert judged(talk.frames) == []
    again = talk.prompt()
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="completed")
    talk.done(again)
    assert [found.rule for found in judged(talk.frames)] == ["tool.unique"]


@pytest.mark.parametrize("method", ["$/cancel_request", "session/close", "session/cancel"])
def test_whatever_the_client_cancels_with_may_end_a_turn_as_cancelled(method: str) -> None:
    talk = Talk().start()
    prompt = talk.prompt()
    if method == "session/close":
        close = talk.ask(method, sessionId="s1")
        talk.done(prompt, "cancelled")
        talk.answer(close, {})
    else:
        talk.tell(method, **({"requestId": prompt} if "$" in method else {"sessionId": "s1"}))
        talk.done(prompt, "cancelled")
    assert judged(talk.frames) == []


def test_a_listed_session_is_a_known_one() -> None:
    talk = Talk().start()
    talk.call("session/list", {"sessions": [{"sessionId": "old", "cwd": "/proj"}]})
    talk.update("old", "session_info_update", title="Renamed")
    assert judged(talk.frames) == []


def test_open_ends_are_no_finding_when_the_client_left() -> None:
    talk = Talk().start(**EVERYTHING)
    talk.prompt()
    talk.use(7, "terminal/create", {"terminalId": "x"}, sessionId="s1", command="ls")
    raw(talk, b'{"jsonrpc":"2.0","meth', terminated=False)
    assert {found.rule for found in lint(talk.frames)} >= {"answer.once", "terminal.released"}
    left = {found.rule for found in lint(talk.frames, complete=False)}
    assert left == {"answer.before-exit", "io.json"}


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"1 2", b'{"a":NaN}', b"\xef\xbb\xbf{}", b"null", b"{}{}"]
)
def test_what_is_not_one_json_object_is_found(line: bytes) -> None:
    talk = Talk().start()
    raw(talk, line)
    assert [found.frames for found in judged(talk.frames, "io.json")] == [(len(talk.frames) - 1,)]


def test_the_client_is_judged_only_if_asked_for() -> None:
    talk = Talk().start()
    talk.reply(77, {})
    assert lint(talk.frames) == []
    assert [found.rule for found in lint(talk.frames, actors=("client",))] == ["client.known-id"]


def test_a_second_version_is_judged_by_the_rules_it_shares() -> None:
    talk = Talk()
    info = {"name": "x", "version": "1"}
    talk.call("initialize", {"protocolVersion": 2, "info": info}, protocolVersion=2, info=info)
    talk.call("session/new", {"sessionId": "s1"}, cwd="/proj")
    text = [{"type": "text", "text": "hello"}]
    talk.call("session/prompt", {"messageId": "m"}, sessionId="s1", prompt=text)
    talk.update("s1", "state_update", state="running")
    talk.update("s1", "agent_message_chunk", messageId="m2", content={"type": "text", "text": "x"})
    talk.update("s1", "state_update", state="idle", stopReason="end_turn")
    assert judged(talk.frames) == []
    talk.answer(99, {})
    assert [found.rule for found in judged(talk.frames)] == ["answer.known-id"]


# Contracts over many conversations.


@st.composite
def correct_talks(draw: st.DrawFn) -> list[Frame]:
    """Sessions that live side by side, each correct in itself, interleaved at will."""
    talk = Talk().start("s0", **EVERYTHING)
    names = [f"s{number}" for number in range(draw(st.integers(1, 3)))]
    for name in names[1:]:
        talk.call("session/new", {"sessionId": name}, cwd="/proj", mcpServers=[])
    running: dict[str, int] = {}
    for step in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(names))
        if name not in running:
            running[name] = talk.prompt(name)
            continue
        match draw(st.sampled_from(["say", "tool", "terminal", "end", "cancel", "usage"])):
            case "say":
                talk.say(name, draw(st.text()), f"m{step}")
            case "tool":
                talk.tool(name, f"t{step}", draw(st.sampled_from(["completed", "failed"])))
            case "terminal":
                talk.terminal(name, f"x{step}", 1000 * (step + 1))
            case "usage":
                talk.update(name, "usage_update", used=step, size=100)
            case "end":
                talk.done(running.pop(name), draw(st.sampled_from(["end_turn", "refusal"])))
            case "cancel":
                talk.tell("session/cancel", sessionId=name)
                talk.done(running.pop(name), "cancelled")
    for number in running.values():
        talk.done(number)
    return talk.frames


@given(correct_talks())
def test_correct_conversations_have_no_finding(frames: list[Frame]) -> None:
    assert judged(frames) == []


def _is_answer(frame: Frame) -> bool:
    message = json.loads(frame.raw)
    return frame.direction is Direction.A2C and "method" not in message


@given(correct_talks(), st.data())
def test_a_lost_and_a_doubled_answer_are_always_found(
    frames: list[Frame], data: st.DataObject
) -> None:
    answers = [index for index, frame in enumerate(frames) if _is_answer(frame)]
    at = data.draw(st.sampled_from(answers))
    lost = frames[:at] + frames[at + 1 :]
    assert "answer.once" in {found.rule for found in judged(lost)}
    doubled = [*frames, frames[at]]
    assert "answer.once" in {found.rule for found in judged(doubled)}


@given(
    st.lists(st.builds(Frame, st.sampled_from(Direction), st.just(0.0), st.binary()), max_size=5)
)
def test_any_bytes_are_judged_without_a_crash(frames: list[Frame]) -> None:
    judged([*Talk().start().frames, *frames])


KEYS = "jsonrpc id method params result error code sessionId update sessionUpdate toolCallId"
KEYS += " content terminalId options locations stopReason toolCall requestId status configOptions"
scraps = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("s1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=5)
    ),
    max_leaves=12,
)
METHODS = "session/update session/new session/prompt terminal/create session/request_permission"
METHODS += " initialize session/list session/load elicitation/create fs/read_text_file"
methods = st.sampled_from(METHODS.split())


@given(st.lists(st.tuples(st.booleans(), methods, scraps, scraps), max_size=4))
def test_any_json_is_judged_without_a_crash(lines: list[tuple[bool, str, Any, Any]]) -> None:
    talk = Talk().start()
    for from_agent, method, params, identity in lines:
        frame = a2c if from_agent else c2a
        talk.frames.append(frame(method=method, params=params))
        talk.frames.append(frame(method=method, params=params, id=identity))
        talk.frames.append(frame(result=params, id=identity))
        talk.frames.append(frame(error=params, id=identity))
    judged(talk.frames)
