"""The way of a tool call: every stage, every verdict, and what never runs."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import orjson
import pytest

from harness_core.bus import Next
from harness_core.content import Text
from harness_core.facts import (
    ApprovalAsked,
    ApprovalDecided,
    PlanWrite,
    ToolArguments,
    ToolCalled,
    ToolPrinted,
    ToolReturned,
    ToolStarted,
    TurnEnd,
)
from harness_core.history import repair
from harness_core.model.scripted import asked, said
from harness_core.tools.pipeline import (
    APPROVE,
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    Approval,
    ApprovalRequest,
    Call,
    Executed,
    Verdict,
)
from harness_core.tools.tool import ToolContext, ToolError, ToolOutput
from tests.harness_core.kit import (
    LONG,
    VIRTUAL,
    Doing,
    FlakyJournal,
    Words,
    World,
    call,
    echo,
    paced,
    refuse,
    world,
)

pytestmark = pytest.mark.anyio

FOREVER = 10 * LONG
ONE = asked(call("c", "do", '{"word": "x"}'))
PreExecute = Callable[[Call, Next[Call, Verdict]], Awaitable[Verdict]]


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


class Recorder:
    """A tool that remembers what it was run with."""

    def __init__(self, effect: str = "reads") -> None:
        self.ran: list[Words] = []
        self.tool = Doing("do", self._body, effect)

    async def _body(self, arguments: Words, _: ToolContext) -> ToolOutput:
        self.ran.append(arguments)
        return ToolOutput.text(f"did {arguments.word}")


async def one_call(w: World) -> ToolReturned:
    """Run the turn whose one call is ``c``; its result. The turn must complete."""
    reason = await w.turn()
    assert reason.kind == "completed", reason
    assert repair(w.agent.session.events) == []
    return w.result("c")


# --- before the body ---------------------------------------------------------------------------


async def test_a_call_is_started_run_and_returned() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        heard: list[ToolReturned] = []
        w.agent.bus.on(RESULT, heard.append)
        result = await one_call(w)
        assert recorder.ran == [Words("x")]
        assert (result.name, result.content, result.error) == ("do", (Text("did x"),), None)
        assert heard == [result]
        types = [fact.type for fact in w.facts if fact.type.startswith("tool/")]
        assert types == ["tool/call", "tool/start", "tool/result"]


async def test_an_unknown_tool_says_which_there_are() -> None:
    async with world(asked(call("c", "dance")), said("ok")) as w:
        result = await one_call(w)
        assert result.error == "unknown-tool"
        assert w.result_text("c") == "there is no tool 'dance'; use echo"
        assert w.all(ToolStarted) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        "[1]",
        "null",
        "  ",
        '{"word": "a"} tail',
        '{"word": 5}',
        '{"other": "a"}',
        '{"count": NaN}',
        '{"count": 1e999}',
        '{"word": "\\ud800"}',
    ],
)
async def test_arguments_that_do_not_fit_are_told_and_nothing_runs(arguments: str) -> None:
    recorder = Recorder()
    async with world(asked(call("c", "do", arguments)), said("ok"), tools=[recorder.tool]) as w:
        result = await one_call(w)
        assert result.error == "invalid-arguments"
        assert recorder.ran == []
        assert w.last(ToolCalled).arguments == arguments
        assert w.all(ToolStarted) == []


async def test_no_arguments_at_all_mean_an_empty_object() -> None:
    recorder = Recorder()
    async with world(asked(call("c", "do", "")), said("ok"), tools=[recorder.tool]) as w:
        assert (await one_call(w)).error is None
        assert recorder.ran == [Words()]


async def test_large_numbers_reach_the_body_as_they_were_written() -> None:
    recorder = Recorder()
    large = 123456789012345678901234567890
    arguments = f'{{"count": {large}}}'
    async with world(asked(call("c", "do", arguments)), said("ok"), tools=[recorder.tool]) as w:
        await one_call(w)
        assert recorder.ran == [Words(count=large)]


# --- verdicts ----------------------------------------------------------------------------------


def answering(verdict: object) -> PreExecute:
    async def answer(_: Call, __: Next[Call, Verdict]) -> Any:
        return verdict

    return answer


async def test_a_denied_call_tells_the_reason_and_does_not_run() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(Verdict("deny", "not here", "guard")))
        result = await one_call(w)
        assert result.error == "denied"
        assert w.result_text("c") == "do was not run: not here"
        assert recorder.ran == []


@pytest.mark.parametrize("verdict", [None, "allow", Verdict("perhaps"), Verdict("")])
async def test_a_verdict_that_is_none_is_a_refusal(verdict: object) -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(verdict))
        assert (await one_call(w)).error == "denied"
        assert recorder.ran == []


async def test_a_failing_check_before_a_call_keeps_it_from_running() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:

        async def fail(*_: object) -> Verdict:
            raise RuntimeError("secret")

        w.agent.bus.on(PRE_EXECUTE, fail)
        assert (await one_call(w)).error == "denied"
        assert "secret" not in w.result_text("c")
        assert recorder.ran == []


async def test_a_check_may_refuse_with_a_sentence_of_its_own() -> None:
    async with world(ONE, said("ok"), tools=[Recorder().tool]) as w:

        async def refuse_it(*_: object) -> Verdict:
            raise ToolError("read the file first", code="denied")

        w.agent.bus.on(PRE_EXECUTE, refuse_it)
        await one_call(w)
        assert w.result_text("c") == "read the file first"


async def test_rewritten_arguments_are_logged_and_used() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        seen: list[Call] = []

        async def watch(call: Call, following: Next[Call, ToolOutput]) -> ToolOutput:
            seen.append(call)
            return await following(call)

        verdict = Verdict("allow", by="hook", arguments={"word": "y", "count": 2})
        w.agent.bus.on(PRE_EXECUTE, answering(verdict))
        w.agent.bus.on(EXECUTE, watch)
        await one_call(w)
        assert recorder.ran == [Words("y", 2)]
        assert w.last(ToolArguments).by == "hook"
        assert orjson.loads(w.last(ToolArguments).arguments) == {"word": "y", "count": 2}
        assert w.last(ToolCalled).arguments == '{"word": "x"}'
        assert dict(seen[0].arguments) == {"word": "y", "count": 2}


@pytest.mark.parametrize("arguments", [{"word": 5}, {"else": 1}, {"word": object()}, {1: "x"}])
async def test_rewritten_arguments_that_do_not_fit_run_nothing(arguments: Any) -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(Verdict("allow", arguments=arguments)))
        assert (await one_call(w)).error is not None
        assert recorder.ran == []
        assert w.all(ToolArguments) == []


async def test_arguments_changed_behind_the_back_have_no_effect() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:

        async def meddle(call: Call, following: Next[Call, Verdict]) -> Verdict:
            call.arguments["word"] = "evil"  # type: ignore[index]
            return await following(replace(call, arguments={"word": "worse"}))

        w.agent.bus.on(PRE_EXECUTE, meddle)
        await one_call(w)
        assert recorder.ran == [Words("x")]


# --- asking ------------------------------------------------------------------------------------

ASK = Verdict("ask", "may I?", "guard")


def decided(approval: object) -> Callable[..., Awaitable[Any]]:
    async def decide(_: ApprovalRequest, __: object) -> Any:
        if isinstance(approval, BaseException):
            raise approval
        return approval

    return decide


@pytest.mark.parametrize("decision", ["allow-once", "allow-always"])
async def test_an_allowed_call_runs_after_its_question_was_answered(decision: Any) -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(ASK))
        w.agent.bus.on(APPROVE, decided(Approval(decision, "user")))
        assert (await one_call(w)).error is None
        assert w.last(ApprovalAsked) == ApprovalAsked("c", "may I?")
        assert w.last(ApprovalDecided) == ApprovalDecided("c", decision, "user")
        kinds = [f.type for f in w.facts if f.type.startswith(("tool/", "approval/"))]
        assert kinds == [
            "tool/call",
            "approval/asked",
            "approval/decided",
            "tool/start",
            "tool/result",
        ]


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        ("reject-once", "rejected this call of do"),
        ("reject-always", "rejected do for the rest"),
        ("cancelled", "cancelled the question"),
        ("unavailable", "needs a person's approval"),
    ],
)
async def test_a_call_that_is_not_allowed_does_not_run(decision: Any, says: str) -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(ASK))
        w.agent.bus.on(APPROVE, decided(Approval(decision, "user")))
        assert (await one_call(w)).error == "denied"
        assert says in w.result_text("c")
        assert recorder.ran == []


async def test_without_anybody_to_answer_nothing_runs() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool], plugins=[]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(ASK))
        assert (await one_call(w)).error == "denied"
        assert w.last(ApprovalDecided) == ApprovalDecided("c", "unavailable", "nobody")
        assert recorder.ran == []


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("the front end is gone"),
        asyncio.CancelledError("the front end gave up"),
        None,
        "allow-once",
        Approval("yes", "user"),  # type: ignore[arg-type]
        Approval("", "user"),  # type: ignore[arg-type]
        Approval(None, "user"),  # type: ignore[arg-type]
    ],
)
async def test_a_failing_or_unknown_answer_is_not_an_allowance(answer: object) -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        w.agent.bus.on(PRE_EXECUTE, answering(ASK))
        w.agent.bus.on(APPROVE, decided(answer))
        assert (await one_call(w)).error == "denied"
        assert w.last(ApprovalDecided) == ApprovalDecided("c", "unavailable", "failure")
        assert recorder.ran == []


async def test_an_asked_call_may_be_rewritten_too() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:
        asked_about: list[Call] = []

        async def decide(request: ApprovalRequest, _: object) -> Approval:
            asked_about.append(request.call)
            return Approval("allow-once", "user")

        w.agent.bus.on(PRE_EXECUTE, answering(replace(ASK, arguments={"word": "y"})))
        w.agent.bus.on(APPROVE, decide)
        await one_call(w)
        assert dict(asked_about[0].arguments) == {"word": "y"}
        assert recorder.ran == [Words("y")]


# --- write-ahead -------------------------------------------------------------------------------


async def test_a_changing_body_runs_only_after_its_call_is_safe() -> None:
    safe: list[bool] = []
    async with world(ONE, said("ok"), tools=[]) as w:

        async def change(*_: object) -> ToolOutput:
            flushed = w.facts[: w.agent.session.log.flushed]  # type: ignore[attr-defined]
            safe.append({"tool/call", "tool/start"} <= {fact.type for fact in flushed})
            return ToolOutput.text("changed")

        w.harness.runtime.tools.register(Doing("do", change, "changes"))
        await one_call(w)
        assert safe == [True]


async def test_a_changing_body_does_not_run_if_its_call_cannot_be_saved() -> None:
    recorder = Recorder("changes")
    journal = FlakyJournal(lambda number: number == 1)
    async with world(ONE, said("ok"), tools=[recorder.tool], journal=journal) as w:
        assert (await one_call(w)).error == "failed"
        assert "cannot be written" in w.result_text("c")
        assert recorder.ran == []
        assert [failure.code for failure in w.errors] == ["not-saved"]


@pytest.mark.parametrize("effect", ["reads", "none"])
async def test_what_changes_nothing_does_not_wait_for_the_disk(effect: str) -> None:
    recorder = Recorder(effect)
    journal = FlakyJournal(lambda number: number == 1)
    async with world(ONE, said("ok"), tools=[recorder.tool], journal=journal) as w:
        assert (await one_call(w)).error is None
        assert len(recorder.ran) == 1


# --- the body ----------------------------------------------------------------------------------


async def test_around_the_body_a_listener_may_answer_or_change_the_output() -> None:
    recorder = Recorder()
    async with world(ONE, said("ok"), tools=[recorder.tool]) as w:

        async def shout(call: Call, following: Next[Call, ToolOutput]) -> ToolOutput:
            output = await following(call)
            return ToolOutput.text(output.content[0].text.upper())  # type: ignore[union-attr]

        w.agent.bus.on(EXECUTE, shout)
        await one_call(w)
        assert w.result_text("c") == "DID X"


@pytest.mark.parametrize(
    ("failure", "error", "says"),
    [
        (ToolError("no such file", code="failed"), "failed", "no such file"),
        (ToolError("took too long", code="timeout"), "timeout", "took too long"),
        (RuntimeError("secret"), "failed", "do failed unexpectedly (RuntimeError)"),
        (ExceptionGroup("many", [KeyError("secret")]), "failed", "(ExceptionGroup)"),
        (asyncio.CancelledError("its own"), "failed", "do failed unexpectedly"),
        (SystemExit("secret"), "failed", "do failed unexpectedly"),
    ],
)
async def test_a_body_that_throws_fails_its_call_alone(
    failure: BaseException, error: str, says: str
) -> None:
    async def throw(*_: object) -> ToolOutput:
        raise failure

    replies = asked(call("c", "do"), call("d")), said("ok")
    async with world(*replies, tools=[Doing("do", throw), Doing("echo", echo)]) as w:
        assert (await one_call(w)).error == error
        assert says in w.result_text("c")
        assert "secret" not in w.result_text("c")
        assert w.result("d").error is None


async def test_an_error_may_carry_data_for_its_card() -> None:
    async def throw(*_: object) -> ToolOutput:
        raise ToolError("exit status 2", meta={"exit": 2})

    async with world(ONE, said("ok"), tools=[Doing("do", throw)]) as w:
        assert (await one_call(w)).meta == {"exit": 2}


async def test_a_result_that_is_an_error_is_marked() -> None:
    async def fail(*_: object) -> ToolOutput:
        return ToolOutput.text("exit status 1", is_error=True)

    async with world(ONE, said("ok"), tools=[Doing("do", fail)]) as w:
        assert (await one_call(w)).error == "failed"


@pytest.mark.parametrize(
    "output",
    [
        None,
        "text",
        ToolOutput("text"),  # type: ignore[arg-type]
        ToolOutput(("text",)),  # type: ignore[arg-type]
        ToolOutput((Text(5),)),  # type: ignore[arg-type]
        ToolOutput.text("fine", meta={"when": object()}),
        ToolOutput.text("fine", meta={1: "x"}),
        ToolOutput.text("fine", meta=math.nan),
        ToolOutput.text("fine", meta={"bytes": b"x"}),
    ],
)
async def test_an_output_that_cannot_be_kept_is_told_and_the_turn_goes_on(output: Any) -> None:
    async def wrong(*_: object) -> ToolOutput:
        return output

    async with world(ONE, said("ok"), tools=[Doing("do", wrong)]) as w:
        assert (await one_call(w)).error == "invalid-output"
        assert w.result("c").meta is None


async def test_text_that_no_disk_can_hold_is_mended() -> None:
    async def names(*_: object) -> ToolOutput:
        return ToolOutput.text("caf\udce9.txt", meta={"\udcff": ["a\ud800", ("b\udfff",)]})

    async with world(ONE, said("ok"), tools=[Doing("do", names)]) as w:
        result = await one_call(w)
        assert w.result_text("c") == "caf\ufffd.txt"
        assert result.meta == {"\ufffd": ["a\ufffd", ["b\ufffd"]]}


async def test_the_context_prints_appends_and_keeps_large_outputs() -> None:
    async def work(_: Words, context: ToolContext) -> ToolOutput:
        context.output(b"\xff\x00", "stderr")
        context.append(PlanWrite(()))
        path = context.spill("out.txt", b"large")
        assert context.roots == (context.cwd,)
        assert context.settings["mine"] == {"deep": 1}
        assert context.files is context.files
        return ToolOutput.text(f"{context.call_id} {path.read_bytes().decode()}")

    settings = {"tools": {"mine": {"deep": 1}}}
    async with world(ONE, said("ok"), tools=[Doing("do", work)], settings=settings) as w:
        await one_call(w)
        assert w.result_text("c") == "c large"
        assert w.last(ToolPrinted) == ToolPrinted("c", "stderr", "/wA=")
        assert w.all(PlanWrite) == [PlanWrite(())]


# --- after the body ----------------------------------------------------------------------------


async def test_after_a_call_its_result_may_be_replaced() -> None:
    async with world(ONE, said("ok"), tools=[Recorder().tool]) as w:

        async def block(executed: Executed, following: Next[Executed, Executed]) -> Executed:
            executed = await following(executed)
            output = ToolOutput.text("lint failed", is_error=True)
            return replace(executed, output=output, error="failed")

        w.agent.bus.on(POST_EXECUTE, block)
        assert (await one_call(w)).error == "failed"
        assert w.result_text("c") == "lint failed"


async def test_denied_and_failed_calls_pass_the_last_check_too() -> None:
    replies = asked(call("c", "do"), call("d", "dance")), said("ok")
    async with world(*replies, tools=[Recorder().tool]) as w:
        seen: list[tuple[str, str | None]] = []

        async def watch(executed: Executed, following: Next[Executed, Executed]) -> Executed:
            seen.append((executed.call_id, executed.error))
            return await following(executed)

        w.agent.bus.on(PRE_EXECUTE, answering(Verdict("deny", "no")))
        w.agent.bus.on(POST_EXECUTE, watch)
        await one_call(w)
        assert sorted(seen) == [("c", "denied"), ("d", "unknown-tool")]


@pytest.mark.parametrize("answer", [RuntimeError("secret"), None])
async def test_a_failing_last_check_withholds_the_result(answer: object) -> None:
    async with world(ONE, said("ok"), tools=[Recorder().tool]) as w:
        w.agent.bus.on(POST_EXECUTE, decided(answer))
        assert (await one_call(w)).error == "failed"
        assert w.result_text("c") == "A check after do failed; its result is withheld."


# --- side by side ------------------------------------------------------------------------------


def timed(seconds: float, log: list[tuple[str, str, float]]) -> Callable[..., Awaitable[Any]]:
    async def body(arguments: Words, context: ToolContext) -> ToolOutput:
        log.append(("begin", context.call_id, anyio.current_time()))
        await anyio.sleep(seconds * arguments.count)
        log.append(("end", context.call_id, anyio.current_time()))
        return ToolOutput.text(context.call_id)

    return body


async def test_readers_run_side_by_side_and_their_results_keep_the_models_order() -> None:
    log: list[tuple[str, str, float]] = []
    calls = [call(f"c{n}", "look", f'{{"count": {4 - n}}}') for n in range(4)]
    async with world(asked(*calls), said("ok"), tools=[Doing("look", timed(1, log))]) as w:
        w.send()
        await w.idle()
        assert {at for what, _, at in log if what == "begin"} == {0.0}
        assert [one for what, one, _ in log if what == "end"] == ["c3", "c2", "c1", "c0"]
        assert [result.call_id for result in w.all(ToolReturned)] == ["c0", "c1", "c2", "c3"]
        assert anyio.current_time() == 4


async def test_no_more_readers_run_side_by_side_than_the_pool_holds() -> None:
    log: list[tuple[str, str, float]] = []
    calls = [call(f"c{n}", "look") for n in range(5)]
    async with world(asked(*calls), said("ok"), tools=[Doing("look", timed(1, log))]) as w:
        w.harness.runtime.pipeline.parallel = 2
        w.send()
        await w.idle()
        begun = [at for what, _, at in log if what == "begin"]
        assert begun == [0, 0, 1, 1, 2]


async def test_whatever_changes_something_is_a_barrier() -> None:
    log: list[tuple[str, str, float]] = []
    tools = [Doing("look", timed(1, log)), Doing("change", timed(1, log), "changes")]
    names = ["look", "look", "change", "look", "dance", "change", "change"]
    calls = [call(f"{n}-{name}", name) for n, name in enumerate(names)]
    async with world(asked(*calls), said("ok"), tools=tools) as w:
        w.send()
        await w.idle()
        begun = [(one, at) for what, one, at in log if what == "begin"]
        assert begun == [
            ("0-look", 0),
            ("1-look", 0),
            ("2-change", 1),
            ("3-look", 2),
            ("5-change", 3),
            ("6-change", 4),
        ]
        assert [result.call_id for result in w.all(ToolReturned)] == [one.id for one in calls]


async def test_a_cancel_keeps_what_is_done_and_aborts_what_runs() -> None:
    log: list[tuple[str, str, float]] = []
    calls = [call(f"c{n}", "look", f'{{"count": {n}}}') for n in range(1, 4)]
    async with world(asked(*calls), tools=[Doing("look", timed(10, log))]) as w:
        w.send()
        await anyio.sleep(15)
        w.agent.cancel()
        await w.idle()
        assert [(r.call_id, r.error) for r in w.all(ToolReturned)] == [
            ("c1", None),
            ("c2", "aborted"),
            ("c3", "aborted"),
        ]


async def test_a_result_that_is_refused_for_good_ends_the_turn_and_loses_no_other() -> None:
    calls = [call("c"), call("d")]
    async with world(asked(*calls), said("next")) as w:
        w.agent.session.validators.append(refuse(ToolReturned, times=2))
        w.send()
        await w.idle()
        assert w.last(TurnEnd).reason.kind == "error"
        assert sorted(r.call_id for r in w.all(ToolReturned)) == ["c", "d"]
        assert repair(w.agent.session.events) == []
        assert (await w.turn()).kind == "completed"


# --- bodies that do not listen -----------------------------------------------------------------


async def test_a_body_that_ignores_cancellation_is_left_behind_and_can_do_no_harm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    after: list[object] = []

    async def deaf(_: Words, context: ToolContext) -> ToolOutput:
        until = anyio.current_time() + 100
        while anyio.current_time() < until:
            try:
                await anyio.sleep(100)
            except asyncio.CancelledError:
                continue
        context.output(b"still here")
        try:
            context.append(PlanWrite(()))
        except ToolError as failure:
            after.append(failure.code)
        raise RuntimeError("nobody hears this")

    replies = asked(call("c", "do")), paced(1000, *said("next"))
    async with world(*replies, tools=[Doing("do", deaf, "changes")], grace=3) as w:
        w.send()
        await w.until_logged(ToolStarted)
        w.agent.cancel()
        began = anyio.current_time()
        with caplog.at_level(logging.ERROR):
            await w.idle()
        assert anyio.current_time() - began == 3
        assert "did not end 3 s after it was cancelled" in caplog.text
        assert w.result("c").error == "aborted"
        assert (await w.turn()).kind == "completed"
        assert after == ["aborted"]
        assert w.all(PlanWrite) == []
        assert w.all(ToolPrinted) == []


async def test_a_body_may_clean_up_within_its_grace() -> None:
    cleaned: list[float] = []

    async def tidy(*_: object) -> ToolOutput:
        try:
            await anyio.sleep(FOREVER)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
            cleaned.append(anyio.current_time())
        raise AssertionError("unreachable")

    async with world(asked(call("c", "do")), tools=[Doing("do", tidy)], grace=3) as w:
        w.send()
        await w.until_logged(ToolStarted)
        w.agent.cancel()
        await w.idle()
        assert cleaned == [anyio.current_time()]


async def test_a_body_that_fails_while_it_is_cancelled_is_aborted_all_the_same() -> None:
    async def fail(*_: object) -> ToolOutput:
        try:
            await anyio.sleep(FOREVER)
        finally:
            raise RuntimeError("cleaning up failed")

    async with world(asked(call("c", "do")), said("next"), tools=[Doing("do", fail)]) as w:
        w.send()
        await w.until_logged(ToolStarted)
        w.agent.cancel()
        await w.idle()
        assert w.last(TurnEnd).reason.kind == "aborted"
        assert w.result("c").error == "aborted"
        assert (await w.turn()).kind == "completed"
