"""What a turn does, step by step, and what happens where it breaks: the failure matrix."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import anyio
import pytest

from harness_core.agent import AGENT_ERROR, INBOX_DISCARDED, InboxChange
from harness_core.bus import Next
from harness_core.content import (
    AssistantMessage,
    Failure,
    Finish,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    UsageReport,
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    Fact,
    LlmRetry,
    Reason,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.harness import Harness
from harness_core.history import derive_messages, repair
from harness_core.loop import (
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    TURN_STOPPING,
    Block,
    PreStep,
    RequestDraft,
    RequestFailure,
    Retry,
    Stopping,
)
from harness_core.model.protocol import ModelConfig, ModelSetupError
from harness_core.model.scripted import asked, failed, said
from harness_core.session import SESSION_EVENT, SessionEvent
from harness_core.tools.tool import ToolOutput
from tests.harness_core.kit import VIRTUAL, Doing, FlakyJournal, World, call, paced, refuse, world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


async def ends_well(w: World) -> None:
    """Everything is closed, and the next prompt is answered."""
    assert repair(w.agent.session.events) == []
    assert len(w.all(TurnStart)) == len(w.all(TurnEnd))
    assert (await w.turn("and now?")).kind == "completed"
    assert w.last(AssistantSaid).message.text == "next"


# --- the failure matrix ------------------------------------------------------------------------


async def test_a_refused_turn_start_leaves_nothing_and_its_message_fails() -> None:
    async with world(said("next")) as w:
        w.agent.session.validators.append(refuse(TurnStart, times=1))
        id = w.send()
        await w.idle()
        assert w.facts == []
        assert [(failure.code, failure.turn) for failure in w.errors] == [("refused", None)]
        assert w.discarded[id].failed
        assert "no turn is possible" in w.discarded[id].why
        await ends_well(w)


async def test_a_failing_pre_step_listener_ends_the_turn_without_a_step() -> None:
    async with world(said("next")) as w:

        async def fail(*_: object) -> PreStep:
            raise RuntimeError("secret detail")

        remove = w.agent.bus.on(PRE_STEP, fail)
        reason = await w.turn()
        assert (reason.kind, reason.code) == ("error", "internal")
        assert "secret detail" not in (reason.message or "")
        assert w.types == ["turn/start", "user/message", "session/title", "turn/end"]
        assert [failure.turn for failure in w.errors] == [1]
        remove()
        await ends_well(w)


async def test_a_block_before_a_step_is_a_pair_without_a_step() -> None:
    async with world(said("next")) as w:

        async def block(draft: PreStep, _: Next[PreStep, PreStep]) -> PreStep:
            return replace(draft, block=Block("the guard", "not on Sundays"))

        remove = w.agent.bus.on(PRE_STEP, block)
        assert await w.turn() == Reason("blocked", by="the guard", why="not on Sundays")
        assert w.types == ["turn/start", "turn/end"]
        assert w.errors == []
        remove()
        await ends_well(w)


async def test_a_refused_step_start_owes_no_step_end() -> None:
    async with world(said("next")) as w:
        w.agent.session.validators.append(refuse(StepStart, times=1))
        assert (await w.turn()).kind == "error"
        assert w.types == ["turn/start", "user/message", "session/title", "turn/end"]
        await ends_well(w)


async def test_a_refused_step_end_stays_owed_and_is_retried() -> None:
    async with world(said("hi"), said("next")) as w:
        w.agent.session.validators.append(refuse(StepEnd, times=1))
        assert (await w.turn()).kind == "error"
        assert w.types[-2:] == ["step/end", "turn/end"]
        await ends_well(w)


@pytest.mark.parametrize(
    "kind", [UserSaid, RequestHeader, RequestContext, AssistantChunk, AssistantSaid, ToolCalled]
)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_refused_fact_inside_a_step_ends_the_turn_in_order(
    kind: type[Fact], times: int
) -> None:
    replies = [asked(call("c1"), call("c2")), said("next")]
    if kind in (UserSaid, RequestHeader, RequestContext):
        del replies[0]
    async with world(*replies) as w:
        w.agent.session.validators.append(refuse(kind, times=times))
        w.send()
        await w.idle()
        w.agent.session.validators.clear()
        reason = w.last(TurnEnd).reason
        assert (reason.kind, reason.code) == ("error", "internal")
        assert_balanced(w)
        await ends_well(w)


async def test_a_model_that_fails_for_good_leaves_its_chunks_and_no_message() -> None:
    failure = Failure("bad-request", "the API refused it", 400, None, "req-1")
    reply = (TextDelta("half an ans"), Finish("error", failure))
    async with world(reply, said("next")) as w:
        reason = await w.turn()
        assert reason == Reason(
            "error",
            message="the API refused it",
            code="bad-request",
            status=400,
            request_id="req-1",
        )
        assert [fact.chunk for fact in w.all(AssistantChunk)] == list(reply)
        assert w.all(AssistantSaid) == []
        assert w.types[-2:] == ["step/end", "turn/end"]
        assert [(e.message, e.code) for e in w.errors] == [("the API refused it", "bad-request")]
        await ends_well(w)


async def test_a_stream_without_its_end_was_cut_and_is_tried_again() -> None:
    cut = (TextDelta("half an ans"),)
    async with world(cut, said("whole"), said("next")) as w:
        assert (await w.turn()).kind == "completed"
        assert w.last(LlmRetry).failure.code == "cut"
        assert [said.message.text for said in w.all(AssistantSaid)] == ["whole"]
        await ends_well(w)


async def test_a_stream_that_is_always_cut_never_completes() -> None:
    async with world((), (), said("next"), settings={"retry": {"attempts": 1}}) as w:
        reason = await w.turn()
        assert (reason.kind, reason.code) == ("error", "cut")
        await ends_well(w)


async def test_a_model_that_raises_ends_the_turn_without_telling_secrets() -> None:
    async with world(
        paced(TextDelta("so f"), RuntimeError("key sk-123 rejected")), said("next")
    ) as w:
        reason = await w.turn()
        assert (reason.kind, reason.code) == ("error", "internal")
        assert "sk-123" not in str(w.facts)
        assert "sk-123" not in str(w.errors)
        await ends_well(w)


async def test_a_model_that_fails_without_saying_why_has_failed() -> None:
    async with world((TextDelta("half"), Finish("error")), said("next")) as w:
        reason = await w.turn()
        assert (reason.kind, reason.code) == ("error", "internal")
        assert w.all(AssistantSaid) == []
        await ends_well(w)


async def test_a_cancellation_that_leaks_out_of_a_model_is_an_error_like_any_other() -> None:
    async with world(paced(TextDelta("so f"), asyncio.CancelledError()), said("next")) as w:
        assert (await w.turn()).kind == "error"
        await ends_well(w)


@pytest.mark.parametrize(("auth", "code"), [(True, "auth"), (False, "setup")])
async def test_a_model_that_cannot_be_used_says_what_to_set(auth: bool, code: str) -> None:
    async with world(paced(ModelSetupError("set FOO_KEY", auth=auth)), said("next")) as w:
        reason = await w.turn()
        assert (reason.kind, reason.code, reason.message) == ("error", code, "set FOO_KEY")
        await ends_well(w)


async def test_a_model_that_does_not_exist_says_what_to_set() -> None:
    async with world() as w:

        def resolve(id: str) -> None:
            raise ModelSetupError(f"there is no model {id}")

        w.harness.runtime.resolve = resolve
        reason = await w.turn()
        assert (reason.code, reason.message) == ("setup", "there is no model demo:demo")
        assert repair(w.agent.session.events) == []


async def test_a_tool_that_throws_is_an_error_result_and_the_turn_goes_on() -> None:
    async def crash(*_: object) -> ToolOutput:
        raise RuntimeError("boom")

    replies = asked(call("c", "crash")), said("I see"), said("next")
    async with world(*replies, tools=[Doing("crash", crash)]) as w:
        assert (await w.turn()).kind == "completed"
        assert w.result("c").error == "failed"
        await ends_well(w)


async def test_a_failing_turn_stopping_listener_ends_the_turn() -> None:
    async with world(said("hi"), said("next")) as w:

        async def fail(_: Stopping) -> None:
            raise RuntimeError

        remove = w.agent.bus.on(TURN_STOPPING, fail)
        assert (await w.turn()).kind == "error"
        assert w.types[-2:] == ["step/end", "turn/end"]
        remove()
        await ends_well(w)


async def test_a_failing_observer_is_logged_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(said("hi"), said("next")) as w:
        heard: list[int] = []

        def fail(event: SessionEvent) -> None:
            raise RuntimeError("bad observer")

        remove = w.agent.bus.on(SESSION_EVENT, fail)
        w.agent.bus.on(SESSION_EVENT, lambda event: heard.append(event.seq))
        with caplog.at_level(logging.ERROR):
            assert (await w.turn()).kind == "completed"
        assert heard == [event.seq for event in w.agent.session.events]
        assert w.errors == []
        assert "bad observer" in caplog.text
        remove()
        await ends_well(w)


async def test_a_failing_flush_is_told_and_the_outcome_stands() -> None:
    async with world(said("hi"), said("next"), journal=FlakyJournal(lambda n: n == 1)) as w:
        assert (await w.turn()).kind == "completed"
        assert [failure.code for failure in w.errors] == ["not-saved"]
        assert "No space left" in w.errors[0].message
        await ends_well(w)


async def test_an_error_is_announced_before_the_turn_is_closed() -> None:
    async with world(failed("auth", "no key")) as w:
        ended: list[bool] = []
        w.agent.bus.on(AGENT_ERROR, lambda _: ended.append(bool(w.all(TurnEnd))))
        await w.turn()
        assert ended == [False]


# --- steps -------------------------------------------------------------------------------------


async def test_tools_run_between_steps_and_the_model_sees_their_results() -> None:
    async with world(asked(call("c", arguments='{"word": "a"}')), said("done")) as w:
        await w.turn()
        assert [(s.turn, s.step) for s in w.all(StepStart)] == [(1, 1), (1, 2)]
        *_, result = w.script.requests[1].messages
        assert (result.role, result.call_id, result.content) == ("tool", "c", (Text("a"),))


async def test_the_bound_on_steps_ends_the_turn() -> None:
    replies = [asked(call("c")) for _ in range(3)]
    async with world(*replies, settings={"max_steps": 3}) as w:
        assert await w.turn() == Reason("max-steps")
        assert len(w.all(StepStart)) == 3
        assert len(w.all(ToolReturned)) == 3


@pytest.mark.parametrize("last", ["wants more", "is done"])
async def test_steering_at_the_last_allowed_step_is_not_lost(last: str) -> None:
    first = asked(call("c")) if last == "wants more" else said("done")
    async with world(first, said("next"), settings={"max_steps": 1}) as w:

        def steer(event: SessionEvent) -> None:
            if isinstance(event.fact, AssistantSaid) and event.fact.turn == 1:
                w.agent.steer(w.message("wait", "steering"))

        w.agent.bus.on(SESSION_EVENT, steer)
        w.send()
        await w.idle()
        assert [said.message.id for said in w.all(UserSaid)] == ["m1", "m2"]
        assert [start.messages for start in w.all(TurnStart)] == [("m1",), ("m2",)]


async def test_a_stop_listener_may_make_the_turn_go_on_and_counts() -> None:
    async with world(said("1"), said("2"), said("3")) as w:
        counted: list[int] = []

        async def again(stopping: Stopping) -> None:
            counted.append(stopping.again)
            if stopping.again < 2:
                stopping.agent.steer(w.message("go on", "hook"))

        w.agent.bus.on(TURN_STOPPING, again)
        assert (await w.turn()).kind == "completed"
        assert counted == [0, 1, 2]
        assert len(w.all(TurnStart)) == 1
        assert len(w.all(StepStart)) == 3


async def test_a_stop_listener_is_not_asked_when_the_turn_did_not_complete() -> None:
    async with world((TextDelta("cut off"), Finish("max-tokens"))) as w:
        asked_for: list[Stopping] = []

        async def listen(stopping: Stopping) -> None:
            asked_for.append(stopping)

        w.agent.bus.on(TURN_STOPPING, listen)
        assert await w.turn() == Reason("max-tokens")
        assert asked_for == []


async def test_listeners_may_add_and_rewrite_what_enters_a_step() -> None:
    async with world(said("hi")) as w:

        async def add(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
            extra = UserMessage("extra", (Text("today is Monday"),), "context")
            return await following(replace(draft, messages=(*draft.messages, extra)))

        w.agent.bus.on(PRE_STEP, add)
        await w.turn()
        assert [m.id for m in w.script.requests[0].messages] == ["m1", "extra"]
        assert [said.message.id for said in w.all(UserSaid)] == ["m1", "extra"]


# --- requests ----------------------------------------------------------------------------------


async def test_header_and_context_are_logged_only_when_they_change() -> None:
    async with world(said("1"), said("2"), said("3"), said("4")) as w:
        await w.turn()
        await w.turn()
        assert (len(w.all(RequestHeader)), len(w.all(RequestContext))) == (1, 1)

        async def hotter(draft: RequestDraft, following: Next[RequestDraft, ModelConfig]) -> object:
            return replace(await following(draft), temperature=0.9)

        w.agent.bus.on(REQUEST, hotter)
        w.harness.runtime.tools.register(Doing("new", lambda *_: None))
        await w.turn()
        await w.turn()
        assert (len(w.all(RequestHeader)), len(w.all(RequestContext))) == (2, 2)
        assert w.script.requests[-1].config.temperature == 0.9
        assert [tool.name for tool in w.script.requests[-1].tools] == ["echo", "new"]


async def test_a_refused_turn_is_not_told_to_the_model_again() -> None:
    refusal = (TextDelta("I will not"), Finish("refusal", explanation="policy"))
    async with world(said("1"), refusal, said("next")) as w:
        await w.turn("fine")
        assert await w.turn("bad") == Reason("refused", why="policy")
        await w.turn("fine again")
        texts = [m.content[0].text for m in w.script.requests[-1].messages]
        assert texts == ["fine", "1", "fine again"]


async def test_an_answer_cut_by_the_token_limit_keeps_text_and_drops_half_calls() -> None:
    reply = (TextDelta("I will"), ToolCallDelta("c", "echo", '{"wo'), Finish("max-tokens"))
    async with world(reply, said("next")) as w:
        assert (await w.turn()).kind == "max-tokens"
        assert w.last(AssistantSaid).message == AssistantMessage((Text("I will"),))
        assert w.all(ToolCalled) == []
        await ends_well(w)


async def test_an_answer_is_assembled_in_the_order_it_came() -> None:
    reply = (
        ReasoningDelta("hm"),
        ReasoningDelta("m", "sealed"),
        TextDelta("Let "),
        TextDelta("me"),
        ToolCallDelta("c", "echo", '{"word"'),
        ToolCallDelta("c", "", ': "x"}'),
        UsageReport(Usage(input=3, output=5)),
        Finish("tool-calls"),
    )
    async with world(reply, said("done")) as w:
        await w.turn()
        answer = w.all(AssistantSaid)[0]
        assert answer.message.content == (
            Reasoning("hmm", "sealed"),
            Text("Let me"),
            ToolCall("c", "echo", '{"word": "x"}'),
        )
        assert answer.usage == Usage(input=3, output=5)
        assert [fact.chunk for fact in w.all(AssistantChunk) if fact.step == 1] == list(reply)


async def test_an_empty_answer_ends_the_turn_and_leaves_no_empty_message() -> None:
    async with world((Finish("stop"),), said("next")) as w:
        assert (await w.turn()).kind == "completed"
        assert [m.role for m in derive_messages(w.agent.session.events)] == ["user"]
        await ends_well(w)


async def test_calls_that_reuse_an_id_get_one_of_their_own() -> None:
    """Requirement V1-TOOL-02: ids are unique in a session, whatever a provider does."""
    cut = (ToolCallDelta("c", "echo", "{}"),)
    replies = asked(call("c")), cut, asked(call("c"), call("c_2")), said("done")
    async with world(*replies) as w:
        await w.turn()
        ids = [fact.call_id for fact in w.all(ToolCalled)]
        assert len(set(ids)) == 3
        assert ids[0] == "c"
        assert_balanced(w)


# --- repeated attempts -------------------------------------------------------------------------


async def test_a_listener_decides_how_often_to_repeat_and_each_is_logged_before_the_wait() -> None:
    async with world(failed("internal"), failed("internal"), said("hi"), plugins=[]) as w:
        seen: list[tuple[int, float]] = []

        async def retry(wish: RequestFailure, _: Next[RequestFailure, Retry | None]) -> Retry:
            seen.append((wish.attempt, anyio.current_time()))
            return Retry(10.0)

        w.agent.bus.on(REQUEST_ERROR, retry)
        began = anyio.current_time()
        assert (await w.turn()).kind == "completed"
        assert seen == [(1, began), (2, began + 10)]
        assert [(fact.attempt, fact.delay) for fact in w.all(LlmRetry)] == [(1, 10.0), (2, 10.0)]
        assert {fact.step for fact in w.all(LlmRetry)} == {1}
        assert {fact.attempt for fact in w.all(AssistantChunk)} == {1, 2, 3}
        assert w.script.requests[0] == w.script.requests[2]


async def test_a_failing_request_error_listener_ends_the_turn() -> None:
    async with world(failed("internal"), said("next"), plugins=[]) as w:

        async def fail(*_: object) -> None:
            raise RuntimeError

        w.agent.bus.on(REQUEST_ERROR, fail)
        assert (await w.turn()).kind == "error"
        await ends_well(w)


# --- the loop is replaceable -------------------------------------------------------------------


async def test_another_loop_may_stand_in() -> None:
    class Silent:
        async def run(self, turn: object) -> Reason:
            return Reason("completed")

    async with world(loop=Silent()) as w:
        await w.turn()
        assert w.types == ["turn/start", "turn/end"]


@pytest.mark.parametrize("outcome", [None, "completed", RuntimeError()])
async def test_a_loop_that_breaks_its_promise_still_leaves_a_closed_turn(outcome: object) -> None:
    class Broken:
        async def run(self, turn: object) -> object:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    async with world(loop=Broken()) as w:  # type: ignore[arg-type]
        for _ in range(2):
            assert (await w.turn()).kind == "error"
        assert repair(w.agent.session.events) == []


async def test_a_plugin_hears_what_every_agent_does() -> None:
    heard: list[str] = []

    def plugin(harness: Harness) -> None:
        def discarded(change: InboxChange) -> None:
            heard.append(change.message.id)

        harness.bus.on(INBOX_DISCARDED, discarded)

    async with world(plugins=[plugin]) as w:
        w.agent.discard(w.send())
        await w.idle()
    assert heard == ["m1"]


def assert_balanced(w: World) -> None:
    """Every call that the model will see has exactly one result, and no result is without call."""
    waiting: list[str] = []
    for message in derive_messages(w.agent.session.events):
        if message.role == "tool":
            waiting.remove(message.call_id)
        else:
            assert waiting == []
        if message.role == "assistant":
            waiting += [one.id for one in message.calls]
    assert waiting == []
