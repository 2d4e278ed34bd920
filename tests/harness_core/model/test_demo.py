"""The demo model: the documented language, and that an answer is a function of the request."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import (
    AssistantMessage,
    Chunk,
    Failure,
    Finish,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Resource,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UsageReport,
    UserBlock,
    UserMessage,
)
from harness_core.model.demo import GREETING, DemoModel
from harness_core.model.demo_script import DIRECTIVES, ScriptError, has_directives, parse
from harness_core.model.protocol import ModelConfig, ModelRequest, ToolSpec

PAGE = Path(__file__).parents[3] / "docs" / "demo-model.md"
EXAMPLE = re.compile(r"```script\n(.*?)```\n\n```answers\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.anyio


def prompt(text: str, id: str = "m1", source: str = "prompt") -> UserMessage:
    return UserMessage(id, (Text(text),), source)


async def answer(
    *messages: Message, system: str = "", tools: Sequence[ToolSpec] = ()
) -> list[Chunk]:
    request = ModelRequest(ModelConfig("demo:demo"), system, messages, tools)
    with anyio.fail_after(10):
        return [chunk async for chunk in DemoModel().stream(request)]


async def say(text: str, *, system: str = "", tools: Sequence[ToolSpec] = ()) -> str:
    return said(await answer(prompt(text), system=system, tools=tools))


def said(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def calls(chunks: Sequence[Chunk]) -> list[ToolCall]:
    found: dict[str, ToolCall] = {}
    for chunk in chunks:
        if isinstance(chunk, ToolCallDelta):
            call = found.get(chunk.id, ToolCall(chunk.id, "", ""))
            found[chunk.id] = ToolCall(
                chunk.id, call.name + chunk.name, call.arguments + chunk.arguments
            )
    return list(found.values())


async def conversation(*messages: Message, steps: int = 10) -> list[list[Chunk]]:
    """The answers until the model stops asking for tools; each call gets ``result of TOOL``."""
    history, answers = list(messages), []
    for _ in range(steps):
        chunks = await answer(*history)
        answers.append(chunks)
        asked = calls(chunks)
        history.append(AssistantMessage((Text(said(chunks)), *asked)))
        history += [ToolMessage(c.id, c.name, (Text(f"result of {c.name}"),)) for c in asked]
        if not asked:
            break
    return answers


def shown(chunks: Sequence[Chunk], *, usage: bool) -> list[str]:
    """An answer as the page writes it."""
    reasoning = "".join(c.text for c in chunks if isinstance(c, ReasoningDelta))
    lines = [f"reasoning: {reasoning}"] if reasoning else []
    lines += [f"text: {said(chunks)}"] if said(chunks) else []
    lines += [f"call: {call.name} {call.arguments}" for call in calls(chunks)]
    for chunk in chunks:
        if usage and isinstance(chunk, UsageReport):
            lines.append(f"usage: {chunk.usage.input} in, {chunk.usage.output} out")
    return [*lines, ending(chunks)]


def ending(chunks: Sequence[Chunk]) -> str:
    last = chunks[-1]
    if not isinstance(last, Finish):
        return "cut"
    if last.failure:
        status = f", status {last.failure.status}" if last.failure.status else ""
        return f"finish: error ({last.failure.code}{status}: {last.failure.message})"
    return f"finish: {last.kind}" + (f" ({last.explanation})" if last.explanation else "")


EXAMPLES = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("script", "expected"), EXAMPLES, ids=[e[0].split()[0] for e in EXAMPLES])
async def test_the_page_is_true(script: str, expected: str) -> None:
    answers = await conversation(prompt(script.removesuffix("\n")))
    told = "usage: " in expected
    lines = [line for chunks in answers for line in shown(chunks, usage=told)]
    assert "\n".join(lines) + "\n" == expected


def test_the_page_lists_the_language_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for directive in DIRECTIVES.values():
        usage = directive.usage.replace("|", r"\|")
        assert f"| `{usage}` | {directive.meaning} |" in page


async def test_the_greeting_says_how_to_get_a_real_model() -> None:
    chunks = await answer(prompt("hello there"))
    assert said(chunks) == GREETING
    assert len(chunks) > 10
    for word in ("ACP_HARNESS_MODEL=openai:", "OPENAI_API_KEY", "--model", "!help"):
        assert word in GREETING


async def test_help_lists_every_directive() -> None:
    text = await say("!help")
    assert all(directive.usage in text for directive in DIRECTIVES.values())


MISTAKES = {
    "!jump": "there is no directive !jump",
    "!say": "`!say TEXT`",
    "!call": "name is missing",
    "!call read [1]": "not a JSON object",
    "!call read {": "not a JSON object",
    "!plan ; ;": "items are missing",
    "!plan [x]": "no text after [x]",
    "!stream": "not a number",
    "!stream ten": "not a number",
    "!stream 99999999": "from 0 to 1000000",
    "!delay -1": "not a number",
    "!fail 200": "not the status of an HTTP error",
    "!fail 4000": "from 0 to 599",
    "!stop now": "no reason to stop",
    "!usage 1": "two numbers",
    "!context everything": "nothing I can list",
    "!cut it": "nothing may follow",
    "!loop\n!say more": "has to be the last",
}


@pytest.mark.parametrize("script", MISTAKES)
async def test_a_mistake_is_answered_with_a_sentence_and_nothing_is_done(script: str) -> None:
    chunks = await answer(prompt(f"!call first\n{script}"))
    assert MISTAKES[script] in said(chunks)
    assert "!help" in said(chunks)
    assert not calls(chunks)
    assert chunks[-1] == Finish("stop")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(lambda text: "!" + text))
def test_any_script_is_read_or_refused(text: str) -> None:
    if has_directives(text):
        with suppress(ScriptError):
            assert parse(text).answer(0)


async def test_lines_end_only_at_line_feeds() -> None:
    assert await say("!say one\u2028two\u0085three\r\nplain\r\n") == "one\u2028two\u0085three"


async def test_directives_may_be_indented_and_stand_in_any_text_block() -> None:
    blocks: tuple[UserBlock, ...] = (Text("Look:"), Image("AA==", "image/png"), Text("  !say yes"))
    assert said(await answer(UserMessage("m1", blocks))) == "yes"


async def test_what_is_quoted_from_a_file_is_not_followed() -> None:
    blocks = (Text("Explain"), Resource("file:///a", text="!fail 500"))
    assert said(await answer(UserMessage("m1", blocks))) == GREETING


STATUSES = {
    "400": "bad-request",
    "401": "auth",
    "403": "auth",
    "408": "timeout",
    "413": "context-overflow",
    "429": "rate-limit",
    "500": "server",
    "503": "overloaded",
    "529": "overloaded",
}


@pytest.mark.parametrize("status", STATUSES)
async def test_a_failure_gets_the_code_of_its_status(status: str) -> None:
    failure = Failure(STATUSES[status], "No.", status=int(status))
    assert await answer(prompt(f"!fail {status} No.")) == [Finish("error", failure)]


async def test_a_failure_without_a_status_is_the_servers() -> None:
    failure = Failure("server", "the disk is full", status=500)
    assert await answer(prompt("!fail the disk is full")) == [Finish("error", failure)]


async def test_an_answer_of_nothing_is_an_empty_one() -> None:
    (finish,) = await answer(prompt("!usage 1 1"))
    assert isinstance(finish, Finish)
    assert finish.failure is not None
    assert finish.failure.code == "empty"


async def test_the_loop_never_ends_and_its_ids_never_repeat() -> None:
    answers = await conversation(prompt("!say again\n!loop ls {}"), steps=30)
    asked = [call for chunks in answers for call in calls(chunks)]
    assert [call.name for call in asked] == ["ls"] * 30
    assert len({call.id for call in asked}) == 30
    assert {said(chunks) for chunks in answers} == {"again"}


async def test_ids_differ_between_prompts_of_one_session() -> None:
    script = "!call ls\n!call ls"
    one, two = await answer(prompt(script, "m1")), await answer(prompt(script, "m2"))
    assert len({call.id for call in calls(one) + calls(two)}) == 4


async def test_a_request_is_answered_the_same_whenever_it_is_made() -> None:
    messages = [prompt("!think Hm.\n!call ls\n!call ls\n!say over")]
    assert await answer(*messages) == await answer(*messages)
    assert await conversation(*messages) == await conversation(*messages)


async def test_steering_with_directives_replaces_the_rest_of_the_script() -> None:
    started: list[Message] = [
        prompt("!call ls\n!say never"),
        AssistantMessage((ToolCall("c", "ls", "{}"),)),
    ]
    result = ToolMessage("c", "ls", (Text("files"),))
    steered = prompt("!say instead", "m2", "steering")
    assert said(await answer(*started, result, steered)) == "instead"


async def test_steering_without_directives_leaves_the_script_alone() -> None:
    started: list[Message] = [
        prompt("!call ls\n!say next"),
        AssistantMessage((ToolCall("c", "ls", "{}"),)),
    ]
    context = prompt("be brief", "m2", "steering")
    assert said(await answer(*started, context)) == "next"


async def test_only_what_people_say_is_followed() -> None:
    context = prompt("From AGENTS.md:\n!important\n!fail 500", "m2", "context")
    assert said(await answer(prompt("!say yes"), context)) == "yes"


async def test_a_plain_prompt_ends_an_abandoned_loop() -> None:
    stopped: list[Message] = [prompt("!loop"), AssistantMessage((Text("interrupted"),))]
    assert said(await answer(*stopped, prompt("hello", "m2"))) == GREETING


async def test_the_conversation_can_be_listed() -> None:
    history: list[Message] = [
        UserMessage("m1", (Text("see"), Image("AAAA", "image/png"), Resource("f:///a", "x=1"))),
        AssistantMessage((Reasoning("hidden"), Text("ok"), ToolCall("c", "ls", '{"a":1}'))),
        ToolMessage("c", "ls", (Text("files"),), error=True),
    ]
    listing = said(await answer(*history, prompt("!context", "m2", "steering")))
    assert listing.splitlines() == [
        "[user] see",
        "[image of type image/png, 3 bytes, not shown]",
        '<resource uri="f:///a">',
        "x=1",
        "</resource>",
        "[assistant] ok",
        '[call ls] {"a":1}',
        "[tool ls failed] files",
        "[user (steering)] !context",
    ]


async def test_system_prompt_and_tools_can_be_listed() -> None:
    tools = [ToolSpec("ls", "Lists files.", {"type": "object"})]
    text = await say("!context system\n!context tools", system="Be kind.", tools=tools)
    assert text == "Be kind.\nls: Lists files."


async def test_usage_is_about_four_characters_a_token() -> None:
    chunks = await answer(prompt("!think " + "r" * 400 + "\n!say " + "t" * 800))
    (report,) = [chunk for chunk in chunks if isinstance(chunk, UsageReport)]
    assert report.usage == Usage(input=304, output=200, reasoning=100)


async def test_many_deltas_are_each_a_chunk_and_the_stream_can_be_cancelled_among_them() -> None:
    seen: list[Chunk] = []
    request = ModelRequest(ModelConfig("demo:demo"), "", [prompt("!stream 5000 x")])
    with anyio.CancelScope() as scope:
        async for chunk in DemoModel().stream(request):
            seen.append(chunk)
            if len(seen) == 100:
                scope.cancel()
    assert scope.cancelled_caught
    assert 100 <= len(seen) < 1000
    assert said(await answer(prompt("!stream 5000 x"))) == "x" * 5000


async def test_hanging_ends_with_its_task_and_with_its_generator() -> None:
    request = ModelRequest(ModelConfig("demo:demo"), "", [prompt("!say wait\n!hang")])
    stream = DemoModel().stream(request)
    with anyio.fail_after(10):
        assert await anext(stream) == TextDelta("wait")
        await stream.aclose()
        async with anyio.create_task_group() as group:
            group.start_soon(anext, DemoModel().stream(request))
            hanging = DemoModel().stream(request)
            await anext(hanging)
            group.start_soon(anext, hanging)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()


def test_it_needs_no_heavy_library() -> None:
    code = (
        "import sys, harness_core.model.demo;"
        "print([name for name in ('pydantic', 'httpx', 'httpx_sse') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
