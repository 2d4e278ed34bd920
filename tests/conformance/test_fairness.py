"""What the kit holds against nobody: differences that mean nothing, faults that are none."""

from __future__ import annotations

import json
import sys

import anyio
import pytest

from conformance.frames import Direction, Frame
from conformance.lint import lint
from conformance.lint.file import left_early
from conformance.normalise import read
from conformance.replay import replay
from conformance.script import translate
from conformance.transcript import Entry, Event, Header, Transcript, TranscriptError
from tests.conformance.talk import Talk

ECHO = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    found = {name: os.environ.get(name) for name in ("PLACE", "WORD")}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}), flush=True)
"""


def lanes(talk: Talk) -> dict[str, list[tuple[str, object]]]:
    found = read(tuple(talk.frames)).lanes
    return {name: [(item.label, item.body) for item in lane] for name, lane in found.items()}


def opened(session: str) -> Talk:
    talk = Talk()
    talk.answer(talk.ask("initialize", protocolVersion=1), {"protocolVersion": 1})
    talk.answer(talk.ask("session/new", cwd="/a", mcpServers=[]), {"sessionId": session})
    return talk


def rules(talk: Talk, *, complete: bool = True) -> set[str]:
    return {finding.rule for finding in lint(talk.frames, complete=complete)}


# -- replay ------------------------------------------------------------------------------------


def recording(**environment: object) -> Transcript:
    asked = Frame(Direction.C2A, 0, b'{"jsonrpc":"2.0","id":1,"method":"_env"}')
    result = {"PLACE": "${home}/data", "WORD": "a"}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    header = Header(cwd="${cwd}", facts={"environment": environment})
    return Transcript(header, (asked, Frame(Direction.A2C, 0, line)))


def played(transcript: Transcript, **env: str) -> str:
    async def run() -> str:
        return str(await replay(transcript, [sys.executable, "-c", ECHO], timeout=20, env=env))

    return anyio.run(run)


def test_an_agent_is_started_as_the_recording_says_in_a_home_of_its_own() -> None:
    assert played(recording(PLACE="${home}/data", WORD="a")) == "as recorded"


def test_what_the_user_sets_goes_before_the_recording() -> None:
    assert '"WORD": "b"' in played(recording(PLACE="${home}/data", WORD="a"), WORD="b")


def test_an_environment_that_is_none_is_refused() -> None:
    with pytest.raises(TranscriptError, match="environment"):
        played(recording(PLACE=7))


def test_ids_in_texts_do_not_matter() -> None:
    def talk(session: str, call: str) -> Talk:
        talk = opened(session)
        prompt = talk.ask("session/prompt", sessionId=session, prompt=[])
        talk.update(session, "tool_call", toolCallId=call, title="x", status="completed")
        talk.say(session, f"kept in /data/{session}/{call}.txt")
        talk.done(prompt)
        return talk

    assert lanes(talk("session-one", "call-7f3a")) == lanes(talk("other-session", "call-99-x"))


def test_an_id_is_replaced_in_texts_too() -> None:
    line = b'{"params":{"sessionId":"session-one"},"error":"no session-one here"}'
    expected = b'{"params":{"sessionId":"session-two"},"error":"no session-two here"}'
    assert translate(line, {("session", "session-one"): "session-two"}) == expected


def test_a_line_that_is_nested_too_deeply_is_played_as_it_is() -> None:
    line = b"[" * 5000 + b"]" * 5000
    assert translate(line, {("session", "x"): "y"}) == line


def test_what_a_command_showed_meanwhile_does_not_matter() -> None:
    def talk(*shown: str) -> Talk:
        talk = opened("s1")
        prompt = talk.ask("session/prompt", sessionId="s1", prompt=[])
        talk.update("s1", "tool_call", toolCallId="t", title="x", status="pending")
        talk.update("s1", "tool_call_update", toolCallId="t", status="in_progress")
        for text in (*shown, "all of it"):
            status = "completed" if text == "all of it" else "in_progress"
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            talk.update("s1", "tool_call_update", toolCallId="t", status=status, content=content)
        talk.done(prompt)
        return talk

    assert lanes(talk("a", "a b")) == lanes(talk())


def test_how_many_tokens_were_used_does_not_matter() -> None:
    def talk(used: int) -> Talk:
        talk = opened("s1")
        talk.update("s1", "usage_update", used=used, size=9)
        return talk

    assert lanes(talk(1)) == lanes(talk(2))


# -- lint --------------------------------------------------------------------------------------


def test_a_turn_may_end_as_cancelled_after_the_client_has_hung_up() -> None:
    talk = opened("s1")
    prompt = talk.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "x"}])
    left: list[Entry] = [*talk.frames, Event("eof", 0, Direction.C2A)]
    talk.answer(prompt, {"stopReason": "cancelled"})
    assert left_early(Transcript(Header(), (*left, talk.frames[-1])))
    assert "turn.uninvited-cancel" not in rules(talk, complete=False)
    assert "turn.uninvited-cancel" in rules(talk)


def test_an_object_that_is_no_request_may_be_refused_by_its_id() -> None:
    talk = opened("s1")
    talk.frames.append(Frame(Direction.C2A, 0, b'{"jsonrpc":"2.0","id":77,"method":7}'))
    talk.answer(77, error={"code": -32600, "message": "the method is not a string"})
    assert "answer.known-id" not in rules(talk)


def test_an_error_with_id_null_is_no_second_answer() -> None:
    talk = opened("s1")
    talk.frames.append(Frame(Direction.C2A, 0, b'{"jsonrpc":"2.0","id":null,"method":"_x"}'))
    talk.answer(None, error={"code": -32601, "message": "there is no _x"})
    talk.frames.append(Frame(Direction.C2A, 0, b"{"))
    talk.answer(None, error={"code": -32700, "message": "not JSON"})
    assert "answer.once" not in rules(talk)


def test_a_version_nobody_specified_is_judged_as_the_first() -> None:
    talk = Talk()
    talk.answer(talk.ask("initialize", protocolVersion=999), {"protocolVersion": 999})
    assert "schema.valid" not in rules(talk)


@pytest.mark.parametrize("asked", [True, False])
def test_a_client_may_ask_for_terminal_logins_in_meta(asked: bool) -> None:
    talk = Talk()
    capabilities = {"_meta": {"terminal-auth": asked}}
    first = talk.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
    login = {"id": "a", "name": "A", "type": "terminal"}
    talk.answer(first, {"protocolVersion": 1, "authMethods": [login]})
    assert ("gate.login" in rules(talk)) is not asked


def test_a_call_that_is_announced_again_is_not_a_late_one() -> None:
    talk = opened("s1")
    for _ in range(2):
        prompt = talk.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "x"}])
        talk.update("s1", "tool_call", toolCallId="t", title="x", status="pending")
        talk.update("s1", "tool_call_update", toolCallId="t", status="completed")
        talk.done(prompt)
    assert rules(talk) == {"tool.unique"}


@pytest.mark.parametrize("answer", [{"result": {"stopReason": "cancelled"}}, {"error": {}}])
def test_the_calls_of_a_turn_that_was_broken_off_are_the_clients_to_mark(
    answer: dict[str, dict[str, str]],
) -> None:
    talk = opened("s1")
    prompt = talk.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "x"}])
    talk.update("s1", "tool_call", toolCallId="t", title="x", status="in_progress")
    talk.tell("session/cancel", sessionId="s1")
    talk.answer(prompt, **answer)
    assert "tool.final" not in rules(talk)
    assert "tool.left-open" in rules(talk)
