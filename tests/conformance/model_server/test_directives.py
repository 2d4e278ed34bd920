"""Directives in a prompt become the replies of one turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model_server import (
    PLAIN,
    Call,
    Cut,
    Delay,
    Failure,
    Finish,
    Hang,
    Malformed,
    Repeat,
    Reply,
    Text,
    Think,
    ToolCall,
    parse,
)
from conformance.model_server.directives import DirectiveError
from conformance.model_server.reply import cut


def first(text: str) -> Reply | Failure:
    plan = parse(text)
    assert plan is not None
    return plan.reply(0, 0)


@pytest.mark.parametrize("text", ["", "hello", "mail me @home", "@unknown word", "x @say hi"])
def test_text_without_directives_has_no_plan(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("@say hello there", Text("hello there")),
        ('@say "a\\u2028b\\n"', Text("a\u2028b\n")),
        ("@think hm", Think("hm")),
        ("@chunks 3 w{i} ", Repeat("w{i}", 3)),
        ("@call ls", Call("ls", "{}")),
        ('@call ls {"a": 1}', Call("ls", '{"a": 1}')),
        ("@call ls not json", Call("ls", "not json")),
        ('@tool shell {"command": "ls"}', ToolCall("shell", {"command": "ls"})),
        ("@id same\n@call ls", Call("ls", "{}", "same")),
        ("@fragments 3\n@tool read", ToolCall("read", {}, "", 3)),
        ("@delay 20", Delay(0.02)),
        ("@cut", Cut()),
        ("@cut clean", Cut(clean=True)),
        ("@malformed", Malformed()),
        ("@hang", Hang()),
    ],
)
def test_each_directive_is_one_part(line: str, part: object) -> None:
    reply = first(f"please\n{line}\nthank you")
    assert isinstance(reply, Reply)
    assert reply.parts == (part,)


def test_slow_text_waits_between_its_deltas() -> None:
    reply = first("@slow 2 10 x{i}")
    assert isinstance(reply, Reply)
    assert reply.parts == (Text("x0"), Delay(0.01), Text("x1"), Delay(0.01))


def test_a_status_is_a_failure_with_its_retry_after() -> None:
    assert first("@status 429 slow down\n@retry-after 2") == Failure(429, "slow down", 2)


def test_finish_and_usage_belong_to_the_reply() -> None:
    reply = first('@say x\n@finish length\n@usage {"input": 7, "cached": 3}')
    assert isinstance(reply, Reply)
    assert reply.finish is Finish.LENGTH
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.cached) == (7, 3)


def test_then_scripts_the_next_call_and_the_rest_is_plain() -> None:
    plan = parse("@say one\n@then\n@say two")
    assert plan is not None
    said = [plan.reply(call, 0) for call in range(3)]
    assert said == [Reply.say("one"), Reply.say("two"), Reply.say(PLAIN)]


def test_retry_scripts_the_repeated_attempt_at_one_call() -> None:
    plan = parse("@status 500\n@retry\n@say fine\n@then\n@say two")
    assert plan is not None
    assert isinstance(plan.reply(0, 0), Failure)
    assert plan.reply(0, 1) == plan.reply(0, 2) == Reply.say("fine")
    assert plan.reply(1, 0) == Reply.say("two")


def test_loop_repeats_the_last_reply() -> None:
    plan = parse("@say one\n@then\n@call ls\n@loop")
    assert plan is not None
    assert plan.reply(9, 0) == plan.reply(1, 0)


def test_begin_forgets_what_stands_above() -> None:
    assert first("@hang\n@loop\n@begin\n@say new") == Reply.say("new")
    assert first("@hang\n@begin") == Reply.say(PLAIN)


def test_empty_is_a_reply_without_parts() -> None:
    assert first("@empty") == Reply.of()


@pytest.mark.parametrize("line", ["@status x", "@tool shell []", "@usage {no", "@finish maybe"])
def test_a_broken_directive_is_named(line: str) -> None:
    with pytest.raises(DirectiveError, match=line.split()[0]):
        parse(line)


@given(st.text(), st.integers(1, 20))
def test_cutting_text_loses_nothing(text: str, count: int) -> None:
    pieces = cut(text, count)
    assert "".join(pieces) == text
    assert len(pieces) == min(count, len(text))
