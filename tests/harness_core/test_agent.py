"""An agent's life: what is sent to it, when it runs, how it is cancelled, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

from harness_core.agent import (
    AGENT_DISPOSED,
    AGENT_STATUS,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    INBOX_INSERTED,
    SESSION_START,
    Agent,
    AgentDisposed,
    InboxChange,
    StatusChange,
)
from harness_core.bus import Next
from harness_core.content import AssistantMessage, Failure, Finish, Text, TextDelta, UserMessage
from harness_core.facts import (
    ApprovalDecided,
    AssistantChunk,
    AssistantSaid,
    LlmRetry,
    Reason,
    StepEnd,
    StepStart,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.harness import Harness
from harness_core.history import NEVER_STARTED, derive_messages, repair
from harness_core.inbox import DuplicateMessage
from harness_core.loop import PRE_STEP, REQUEST, TURN_STOPPING, PreStep
from harness_core.model.scripted import asked, failed, said
from harness_core.session import SESSION_EVENT, SessionEvent
from harness_core.tools.pipeline import APPROVE, EXECUTE, POST_EXECUTE, PRE_EXECUTE, Approval
from harness_core.tools.tool import ToolOutput
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


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


async def wait_forever(*_: object) -> ToolOutput:
    await anyio.sleep(FOREVER)
    raise AssertionError("unreachable")


# --- turns -------------------------------------------------------------------------------------


async def test_a_prompt_becomes_a_turn_with_its_id() -> None:
    async with world(said("hi")) as w:
        id = w.send("hello")
        await w.idle()
        assert w.types == [
            "turn/start",
            "step/start",
            "user/message",
            "session/title",
            "request/header",
            "request/context",
            "assistant/chunk",
            "assistant/chunk",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        assert w.last(TurnStart) == TurnStart(1, (id,))
        assert w.last(UserSaid).message == UserMessage(id, (Text("hello"),))
        assert w.last(AssistantSaid).message == AssistantMessage((Text("hi"),))
        assert w.last(TurnEnd) == TurnEnd(1, Reason("completed"))
        assert [event.seq for event in w.agent.session.events] == list(range(11))


async def test_prompts_queue_in_order_and_each_has_its_own_turn() -> None:
    async with world(said("1"), said("2"), said("3")) as w:
        ids = [w.send(), w.send(), w.send()]
        await w.idle()
        assert [fact.messages for fact in w.all(TurnStart)] == [(id,) for id in ids]
        assert [fact.turn for fact in w.all(TurnEnd)] == [1, 2, 3]


async def test_steering_joins_the_running_turn_at_its_next_step() -> None:
    async with world(asked(call("c")), said("done")) as w:

        def steer(event: SessionEvent) -> None:
            if isinstance(event.fact, ToolStarted):
                w.agent.steer(w.message("faster", "steering"))

        w.agent.bus.on(SESSION_EVENT, steer)
        await w.turn()
        assert [fact.messages for fact in w.all(TurnStart)] == [("m1",)]
        assert [said.message.id for said in w.all(UserSaid)] == ["m1", "m2"]
        assert [type(message).__name__ for message in w.script.requests[1].messages] == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
            "UserMessage",
        ]


@pytest.mark.parametrize("step", [1, 2])
async def test_what_was_claimed_is_kept_when_a_cancel_comes_before_its_step(step: int) -> None:
    """Whatever was said is in the log, and the model sees it with the next prompt."""
    async with world(*[asked(call("c"))][: step - 1], said("done")) as w:

        def steer(event: SessionEvent) -> None:
            if isinstance(event.fact, ToolStarted):
                w.agent.steer(w.message("faster", "steering"))

        async def cancel(draft: PreStep, then: Next[PreStep, PreStep]) -> PreStep:
            if draft.step == step:
                w.agent.cancel()
                await anyio.sleep(1)
            return await then(draft)

        w.agent.bus.on(SESSION_EVENT, steer)
        remove = w.agent.bus.on(PRE_STEP, cancel)
        assert (await w.turn()).kind == "aborted"
        assert [said.message.id for said in w.all(UserSaid)] == ["m1", "m2"][:step]
        assert w.last(StepStart).step == 1 if step == 2 else w.all(StepStart) == []
        remove()
        assert (await w.turn()).kind == "completed"
        seen = [m.id for m in w.script.requests[-1].messages if isinstance(m, UserMessage)]
        assert seen == ["m1", "m2", "m3"][: step + 1]


async def test_steering_after_the_last_step_gets_a_turn_of_its_own() -> None:
    async with world(said("1"), said("2")) as w:

        def steer(event: SessionEvent) -> None:
            if isinstance(event.fact, TurnEnd) and event.fact.turn == 1:
                w.agent.steer(w.message("one more thing", "steering"))

        w.agent.bus.on(SESSION_EVENT, steer)
        await w.turn()
        assert [fact.messages for fact in w.all(TurnStart)] == [("m1",), ("m2",)]


async def test_steering_makes_a_turn_that_had_nothing_left_go_on() -> None:
    async with world(paced(1, *said("1")), said("2")) as w:
        w.send()
        await w.until_logged(StepStart)
        w.agent.steer(w.message("and?", "steering"))
        await w.idle()
        assert [fact.messages for fact in w.all(TurnStart)] == [("m1",)]
        assert len(w.all(StepStart)) == 2


async def test_steering_an_idle_agent_gets_a_turn_of_its_own() -> None:
    async with world(said("1"), said("2")) as w:
        await w.turn()
        w.agent.steer(w.message("one more thing", "steering"))
        await w.idle()
        assert [fact.messages for fact in w.all(TurnStart)] == [("m1",), ("m2",)]


async def test_injected_context_waits_for_what_comes_next() -> None:
    async with world(said("1")) as w:
        w.agent.inject(w.message("context", "context"))
        await w.idle()
        assert w.facts == []
        assert w.agent.status == "idle"
        w.send()
        await w.idle()
        assert w.last(TurnStart).messages == ("m1", "m2")


async def test_context_may_be_injected_when_the_session_starts() -> None:
    def plugin(harness: Harness) -> None:
        def inject(agent: Agent) -> None:
            agent.inject(UserMessage("context", (Text("you are in a test"),), "context"))

        harness.bus.on(SESSION_START, inject)

    async with world(said("1"), plugins=[plugin]) as w:
        await w.turn()
        assert w.last(TurnStart).messages == ("context", "m1")


async def test_ids_are_unique_for_good() -> None:
    async with world(said("1")) as w:
        message = w.message()
        w.agent.send(message)
        with pytest.raises(DuplicateMessage):
            w.agent.send(message)
        await w.idle()
        with pytest.raises(DuplicateMessage):
            w.agent.steer(message)
        assert len(w.all(TurnStart)) == 1


# --- the inbox as others hear of it ------------------------------------------------------------


async def test_every_message_is_announced_when_it_comes_and_when_it_leaves() -> None:
    async with world(paced(1, *said("1")), said("2")) as w:
        heard: list[tuple[str, str, str]] = []

        def listen(what: str) -> Callable[[InboxChange], None]:
            return lambda change: heard.append((what, change.message.id, change.why))

        w.agent.bus.on(INBOX_INSERTED, listen("inserted"))
        w.agent.bus.on(INBOX_CLAIMED, listen("claimed"))
        w.agent.bus.on(INBOX_DISCARDED, listen("discarded"))
        first, second = w.send(), w.send()
        await w.until_logged(StepStart)
        assert w.agent.discard(second)
        assert not w.agent.discard(second)
        assert not w.agent.discard(first)
        await w.idle()
        assert heard == [
            ("inserted", first, ""),
            ("inserted", second, ""),
            ("claimed", first, ""),
            ("discarded", second, "cancelled"),
        ]
        assert len(w.all(TurnStart)) == 1


async def test_idle_again_when_the_only_message_is_taken_back() -> None:
    async with world() as w:
        w.agent.discard(w.send())
        await w.idle()
        assert w.facts == []


async def test_status_says_when_it_runs_and_when_it_waits() -> None:
    async with world(said("1"), said("2")) as w:
        heard: list[str] = []
        w.agent.bus.on(AGENT_STATUS, lambda change: heard.append(change.status))
        await w.turn()
        await w.turn()
        assert heard == ["running", "idle", "running", "idle"]
        assert w.agent.status == "idle"


async def test_a_prompt_sent_on_the_news_that_it_is_idle_is_run() -> None:
    async with world(said("1"), said("2")) as w:

        def again(change: StatusChange) -> None:
            if change.status == "idle" and len(w.all(TurnStart)) == 1:
                w.send("again")

        w.agent.bus.on(AGENT_STATUS, again)
        await w.turn()
        assert [end.reason.kind for end in w.all(TurnEnd)] == ["completed", "completed"]


async def test_idle_means_that_nothing_is_queued_either() -> None:
    async with world(said("1"), said("2")) as w:
        order: list[str] = []

        def again(change: StatusChange) -> None:
            order.append(change.status)
            if order == ["running", "idle"]:
                w.send("again")

        w.agent.bus.on(AGENT_STATUS, again)
        w.send()
        await w.agent.when_idle()
        assert len(w.all(TurnEnd)) == 2


# --- cancelling --------------------------------------------------------------------------------


async def hold(_: object, following: Callable[[object], object]) -> object:
    await anyio.sleep(FOREVER)
    raise AssertionError("unreachable")


async def hold_alone(_: object) -> None:
    await anyio.sleep(FOREVER)


CANCEL_AT = {
    "pre-step": PRE_STEP,
    "request": REQUEST,
    "pre-execute": PRE_EXECUTE,
    "approval": APPROVE,
    "execute": EXECUTE,
    "post-execute": POST_EXECUTE,
    "turn-stopping": TURN_STOPPING,
}


@pytest.mark.parametrize("where", CANCEL_AT)
async def test_a_cancel_at_any_await_closes_the_turn_and_the_next_prompt_works(where: str) -> None:
    """Requirements V1-CANCEL-02 and -03: whatever waits, the turn ends and nothing stays open."""
    tools = [Doing("echo", echo, "changes")]
    settings = {"mode": "ask"} if where == "approval" else {}
    replies = [asked(call("c")), said("done"), said("next")]
    if where in ("pre-step", "request"):
        replies = [said("next")]
    elif where != "turn-stopping":
        del replies[1]
    async with world(*replies, tools=tools, settings=settings) as w:
        listener = hold_alone if where == "turn-stopping" else hold
        release = w.agent.bus.on(CANCEL_AT[where], listener)
        w.send()
        await anyio.sleep(1)
        w.agent.cancel()
        await w.idle()
        assert w.last(TurnEnd).reason == Reason("aborted", cause="user")
        assert_closed(w)
        release()
        w.agent.bus.on(APPROVE, hold)
        assert (await w.turn("and now?")).kind == "completed"
        assert_closed(w)


STALLS = {
    "before the first token": paced(FOREVER),
    "in the middle of its text": paced(TextDelta("so far"), FOREVER),
    "before its end": paced(TextDelta("all"), FOREVER, Finish("stop")),
}


@pytest.mark.parametrize("where", STALLS)
async def test_a_cancelled_stream_leaves_its_visible_prefix(where: str) -> None:
    async with world(STALLS[where], said("next")) as w:
        w.send()
        await anyio.sleep(1)
        w.agent.cancel()
        await w.idle()
        prefix = [(said.message.text, said.interrupted) for said in w.all(AssistantSaid)]
        text = "".join(getattr(fact.chunk, "text", "") for fact in w.all(AssistantChunk))
        assert prefix == ([(text, True)] if text else [])
        assert_closed(w)
        assert (await w.turn()).kind == "completed"


async def test_a_cancel_in_the_wait_before_a_retry() -> None:
    busy = (Finish("error", Failure("overloaded", "busy", retry_after=30.0)),)
    async with world(busy, said("next")) as w:
        w.send()
        await w.until_logged(LlmRetry)
        w.agent.cancel()
        before = anyio.current_time()
        await w.idle()
        assert anyio.current_time() == before
        assert w.last(TurnEnd).reason == Reason("aborted", cause="user")
        assert (await w.turn()).kind == "completed"


async def test_a_cancel_while_a_tool_runs_and_others_wait() -> None:
    tools = [Doing("hang", wait_forever, "changes"), Doing("echo", echo)]
    replies = asked(call("c1"), call("c2", "hang"), call("c3")), said("next")
    async with world(*replies, tools=tools) as w:
        w.send()
        await anyio.sleep(1)
        w.agent.cancel()
        await w.idle()
        assert [(r.call_id, r.error) for r in w.all(ToolReturned)] == [
            ("c1", None),
            ("c2", "aborted"),
            ("c3", "never-started"),
        ]
        assert w.result_text("c3") == NEVER_STARTED
        assert_closed(w)
        assert (await w.turn()).kind == "completed"


async def test_a_cancel_while_the_turn_is_flushed_comes_too_late() -> None:
    journal = FlakyJournal()
    journal.flush_time = 10
    async with world(said("1"), said("2"), journal=journal) as w:
        w.send()
        await w.until_logged(TurnEnd)
        w.agent.cancel()
        await w.idle()
        assert w.last(TurnEnd).reason.kind == "completed"
        assert (await w.turn()).kind == "completed"


async def test_a_cancel_in_the_write_ahead_flush_keeps_the_tool_from_running() -> None:
    journal, ran = FlakyJournal(), []

    async def change(arguments: Words, _: object) -> ToolOutput:
        ran.append(arguments.word)
        return ToolOutput.text("changed")

    async with world(
        asked(call("c", "change")), tools=[Doing("change", change, "changes")], journal=journal
    ) as w:
        journal.flush_time = 10
        w.send()
        await anyio.sleep(5)
        w.agent.cancel()
        await w.idle()
        assert ran == []
        assert_closed(w)


async def test_a_cancelled_question_is_decided_as_cancelled() -> None:
    tools = [Doing("echo", echo, "changes")]
    async with world(asked(call("c")), tools=tools, settings={"mode": "ask"}) as w:
        w.agent.bus.on(APPROVE, hold)
        w.send()
        await anyio.sleep(1)
        w.agent.cancel()
        await w.idle()
        assert w.last(ApprovalDecided) == ApprovalDecided("c", "cancelled", "cancel")
        assert w.all(ToolStarted) == []
        assert w.result("c").error == "never-started"


@pytest.mark.parametrize("at", range(11))
async def test_a_cancel_on_the_news_of_any_fact_ends_that_turn_alone(at: int) -> None:
    """From ``turn/start`` on a cancel counts; from ``turn/end`` on it is too late."""
    async with world(said("1"), said("2")) as w:

        def cancel(event: SessionEvent) -> None:
            if event.seq == at:
                w.agent.cancel("hook", "because")

        w.agent.bus.on(SESSION_EVENT, cancel)
        first, second = w.send(), w.send()
        await w.idle()
        assert [fact.messages for fact in w.all(TurnStart)] == [(first,), (second,)]
        kinds = [end.reason.kind for end in w.all(TurnEnd)]
        late = w.types[at] == "turn/end"
        assert kinds == ["completed" if late else "aborted", "completed"]
        if not late:
            assert w.all(TurnEnd)[0].reason == Reason("aborted", cause="hook", why="because")
        assert_closed(w)


@pytest.mark.parametrize("quarters", range(30))
async def test_a_cancel_at_any_moment_of_an_eventful_turn(quarters: int) -> None:
    """Stopping never wedges a session, whatever it interrupts."""

    async def work(*_: object) -> ToolOutput:
        await anyio.sleep(1)
        return ToolOutput.text("worked")

    async def think(_: object, __: object) -> Approval:
        await anyio.sleep(1)
        return Approval("allow-once", "user")

    slow = paced(
        0.5, TextDelta("let me see"), 0.5, *asked(call("c1", "change"), call("c2", "look"))
    )
    tools = [Doing("change", work, "changes"), Doing("look", work)]
    journal = FlakyJournal()
    journal.flush_time = 0.5
    replies = slow, failed("overloaded"), paced(0.5, *said("done")), *[said("next")] * 2
    settings = {"mode": "ask", "retry": {"base": 1, "attempts": 1}}
    async with world(*replies, tools=tools, settings=settings, journal=journal) as w:
        w.agent.bus.on(APPROVE, think)
        w.send()
        await anyio.sleep(quarters / 4 + 0.01)
        ran = w.agent.turn is not None
        w.agent.cancel()
        await w.idle()
        assert w.last(TurnEnd).reason.kind == ("aborted" if ran else "completed")
        assert_closed(w)
        w.agent.bus.on(APPROVE, think)
        while (await w.turn("and now?")).kind != "completed":
            assert w.last(TurnEnd).reason.kind == "error"
        assert_closed(w)


async def test_a_cancel_when_idle_or_a_second_time_has_no_effect() -> None:
    async with world(paced(FOREVER), said("2")) as w:
        w.agent.cancel()
        w.send()
        await w.until_logged(StepStart)
        w.agent.cancel("user")
        w.agent.cancel("hook")
        await w.idle()
        w.agent.cancel()
        assert w.last(TurnEnd).reason.cause == "user"
        assert (await w.turn()).kind == "completed"


async def test_a_cancel_leaves_queued_prompts_alone() -> None:
    async with world(paced(FOREVER), said("2")) as w:
        w.send()
        second = w.send()
        await w.until_logged(StepStart)
        w.agent.cancel()
        await w.idle()
        assert [end.reason.kind for end in w.all(TurnEnd)] == ["aborted", "completed"]
        assert w.all(TurnStart)[1].messages == (second,)


async def test_what_was_steered_before_a_cancel_begins_no_turn_and_goes_with_the_next() -> None:
    async with world(paced(1000.0), said("done")) as w:
        w.send()
        await anyio.sleep(1)
        w.agent.steer(w.message("and this", "steering"))
        w.agent.cancel()
        await w.idle()
        assert [fact.messages for fact in w.all(TurnStart)] == [("m1",)]
        assert (await w.turn()).kind == "completed"
        assert w.last(TurnStart).messages == ("m2", "m3")
        assert [said.message.id for said in w.all(UserSaid)] == ["m1", "m2", "m3"]


async def test_a_model_that_ignores_cancellation_is_stopped_at_its_next_chunk() -> None:
    async def deaf(_: object):
        while True:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            yield TextDelta("la")

    async with world(deaf, said("next")) as w:
        w.send()
        await w.until_logged(AssistantChunk)
        w.agent.cancel()
        await w.idle()
        assert w.last(AssistantSaid).interrupted
        assert_closed(w)


async def test_a_model_whose_stream_does_not_close_holds_nobody_up() -> None:
    async def sticky(_: object):
        try:
            yield TextDelta("la")
            yield TextDelta("la")
        finally:
            await anyio.sleep(FOREVER)

    async with world(sticky, said("next")) as w:

        def cancel(event: SessionEvent) -> None:
            if isinstance(event.fact, AssistantChunk) and event.fact.turn == 1:
                w.agent.cancel()

        w.agent.bus.on(SESSION_EVENT, cancel)
        w.send()
        await w.idle()
        assert anyio.current_time() < 60
        assert (await w.turn()).kind == "completed"


# --- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("callers", [1, 3])
async def test_disposal_closes_the_turn_and_is_announced_once(callers: int) -> None:
    async with world(paced(TextDelta("so far"), FOREVER)) as w:
        heard: list[Agent] = []
        w.agent.bus.on(AGENT_DISPOSED, heard.append)
        w.send()
        waiting = w.send()
        await w.until_logged(AssistantChunk)
        async with anyio.create_task_group() as tasks:
            for _ in range(callers):
                tasks.start_soon(w.agent.dispose)
        await w.agent.dispose()
        assert w.last(TurnEnd).reason == Reason("aborted", cause="disposed")
        assert w.discarded[waiting].why == "disposed"
        assert heard == [w.agent]
        assert w.agent.session.closed
        assert_closed(w)
        await w.idle()
        for use in (w.agent.send, w.agent.steer, w.agent.inject):
            with pytest.raises(AgentDisposed):
                use(w.message())


async def test_disposal_before_the_first_turn_leaves_nothing() -> None:
    async with world() as w:
        id = w.send()
        await w.agent.dispose()
        assert w.facts == []
        assert id in w.discarded


async def test_disposal_waits_for_tools_to_end() -> None:
    ended: list[float] = []

    async def slow_to_end(*_: object) -> ToolOutput:
        try:
            await anyio.sleep(FOREVER)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            ended.append(anyio.current_time())
        raise AssertionError("unreachable")

    async with world(asked(call("c", "slow")), tools=[Doing("slow", slow_to_end)]) as w:
        w.send()
        await w.until_logged(ToolStarted)
        await w.agent.dispose()
        assert ended == [anyio.current_time()]
        assert w.result("c").error == "aborted"


async def test_an_agent_may_be_ended_from_inside_its_own_turn() -> None:
    async with world(asked(call("c", "quit"))) as w:

        async def quit(*_: object) -> ToolOutput:
            await w.agent.dispose()
            raise AssertionError("unreachable")

        w.harness.runtime.tools.register(Doing("quit", quit))
        w.send()
        await w.until_logged(TurnEnd)
        await w.agent.dispose()
        assert w.last(TurnEnd).reason.cause == "disposed"
        assert_closed(w)


async def test_disposal_on_the_news_of_an_idle_agent_is_not_missed() -> None:
    async with world(said("1")) as w, anyio.create_task_group() as tasks:
        w.agent.bus.on(
            AGENT_STATUS,
            lambda change: tasks.start_soon(w.agent.dispose) if change.status == "idle" else None,
        )
        w.send()
        with anyio.fail_after(LONG):
            await w.agent.dispose()
        assert_closed(w)


async def test_a_log_that_cannot_be_closed_does_not_hold_up_disposal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = FlakyJournal()
    journal.fails_to_close = True
    async with world(said("1"), journal=journal) as w:
        await w.turn()
        with anyio.fail_after(LONG), caplog.at_level(logging.ERROR):
            await w.agent.dispose()
    assert "could not be closed" in caplog.text


async def test_parts_of_an_agent_are_closed_last_in_first_out_whatever_one_of_them_does() -> None:
    async with world(paced(FOREVER)) as w:
        closed: list[str] = []

        def part(name: str, failure: BaseException | None = None) -> Callable[[], Awaitable[None]]:
            async def close() -> None:
                await anyio.sleep(1)
                closed.append(f"{name} after {w.types[-1]}")
                if failure is not None:
                    raise failure

            return close

        w.agent.closers += [
            part("first"),
            part("failing", RuntimeError()),
            part("leaking", asyncio.CancelledError()),
            partial(anyio.sleep, FOREVER),
            part("last"),
        ]
        w.send()
        await w.until_logged(StepStart)
        await w.agent.dispose()
        order = ["last", "leaking", "failing", "first"]
        assert closed == [f"{name} after turn/end" for name in order]
        assert w.agent.session.closed


async def test_the_last_flush_may_fail_and_the_agent_still_ends() -> None:
    async with world(said("1"), journal=FlakyJournal(lambda number: number > 1)) as w:
        await w.turn()
        await w.agent.dispose()
        assert [failure.code for failure in w.errors] == ["not-saved"]


async def test_a_turn_that_cannot_be_closed_ends_the_agent() -> None:
    async with world(said("1"), said("2")) as w:
        w.agent.session.validators.append(refuse(TurnEnd))
        w.send()
        second = w.send()
        with anyio.fail_after(LONG):
            await w.agent.when_idle()
            await w.agent.dispose()
        assert w.all(TurnEnd) == []
        assert second in w.discarded
        assert {failure.code for failure in w.errors} == {"refused"}
        assert [fact.type for fact in repair(w.agent.session.events)] == ["turn/end"]


async def test_the_harness_ends_its_agents() -> None:
    async with world(paced(FOREVER)) as w:
        w.send()
        await w.until_logged(StepStart)
    assert w.last(TurnEnd).reason.cause == "disposed"
    assert w.agent.session.closed


async def test_a_cancelled_harness_ends_its_agents_too() -> None:
    with anyio.CancelScope() as scope:
        async with world(paced(FOREVER)) as w:
            w.send()
            await w.until_logged(StepStart)
            scope.cancel()
            await anyio.sleep(1)
    assert w.last(TurnEnd).reason.cause == "disposed"
    assert w.agent.session.closed


async def test_an_agent_whose_driver_was_cancelled_takes_no_messages() -> None:
    with anyio.CancelScope() as scope:
        async with world() as w:
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            with pytest.raises(AgentDisposed):
                w.send()


def assert_closed(w: World) -> None:
    """Nothing is open, everything is paired, and the history is one that a model accepts."""
    events = w.agent.session.events
    assert repair(events) == []
    assert len(w.all(TurnEnd)) == len(w.all(TurnStart))
    assert len(w.all(StepEnd)) == len(w.all(StepStart))
    asked_for, answered = [], []
    for message in derive_messages(events):
        if message.role == "assistant":
            asked_for += [one.id for one in message.calls]
        elif message.role == "tool":
            answered.append(message.call_id)
    assert sorted(asked_for) == sorted(answered)
