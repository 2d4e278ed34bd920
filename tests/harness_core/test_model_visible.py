"""Model-visible means logged: every request is what the log tells of, and nothing else.

``WatchedModel`` of the kit asserts it on each request of every test of the kernel; here it is shown
that the watch itself is awake, and that it holds where a request is least like the one before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness_core.agent import Agent
from harness_core.bus import Next
from harness_core.content import (
    Finish,
    Image,
    ReasoningDelta,
    Text,
    TextDelta,
    UserMessage,
)
from harness_core.facts import (
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    Reason,
    RequestContext,
    RequestHeader,
    UserSaid,
)
from harness_core.history import derive_messages
from harness_core.loop import PRE_STEP, REQUEST, PreStep, RequestDraft, StepLoop
from harness_core.model.protocol import Model, ModelConfig, ModelRequest
from harness_core.model.scripted import asked, failed, said
from tests.harness_core.kit import VIRTUAL, Doing, call, echo, logged_request, paced, world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


class Whispering(StepLoop):
    """A loop that tells the model something that is in no log."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    async def run(self, turn: object) -> Reason:
        agent: Agent = turn.agent  # type: ignore[attr-defined]
        model: Model = agent.runtime.model("any")
        agent.session.append(RequestHeader(ModelConfig("any")))
        agent.session.append(RequestContext("", ()))
        secret = UserMessage("secret", (Text(self.secret),))
        messages = [*derive_messages(agent.session.events)]
        if self.secret:
            messages.append(secret)
        async for _ in model.stream(ModelRequest(ModelConfig("any"), "", messages, ())):
            pass
        return Reason("completed")


async def whisper(secret: str) -> None:
    async with world(said("hm"), loop=Whispering(secret)) as w:
        await w.turn()


async def test_the_watch_sees_what_is_not_in_the_log() -> None:
    await whisper("")
    with pytest.raises(AssertionError, match="not in the log"):
        await whisper("psst")


async def test_everything_that_changes_a_request_is_logged_before_it() -> None:
    replies = [
        (ReasoningDelta("hm", "seal"), *asked(call("c1"), call("c2", "nothing"))),
        said("one"),
        failed("overloaded"),
        said("two"),
        (TextDelta("no"), Finish("refusal")),
        paced(TextDelta("so far"), 1e6),
        said("three"),
        said("four"),
    ]
    async with world(*replies) as w:
        await w.turn("tools, one of which is not there")
        await w.turn("a retry")
        await w.turn("a refusal")
        w.send("a cancel")
        await w.until_logged(UserSaid, 4)
        w.agent.cancel()
        await w.idle()

        async def warmer(draft: RequestDraft, _: Next[RequestDraft, ModelConfig]) -> ModelConfig:
            return replace(draft.config, temperature=0.7, effort="high")

        async def enrich(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
            extra = UserMessage(f"extra-{draft.turn}", (Image("aGk=", "image/png"),), "context")
            return await following(replace(draft, messages=(extra, *draft.messages)))

        w.agent.bus.on(REQUEST, warmer)
        w.agent.bus.on(PRE_STEP, enrich)
        w.agent.set_roots([Path("/elsewhere")])
        w.harness.runtime.tools.register(Doing("late", echo))
        w.agent.inject(w.message("by the way", "context"))
        await w.turn("everything else")
        assert len(w.script.requests) == 7
        last = w.script.requests[-1]
        answered = max(n for n, kind in enumerate(w.types) if kind == "assistant/message")
        assert last == logged_request(w.agent.session.events[:answered])
        assert last.config.temperature == 0.7
        assert "/elsewhere" in last.system.replace("\\", "/")
        assert [tool.name for tool in last.tools] == ["echo", "late"]
        roles = [message.role for message in last.messages]
        assert roles == [
            *("user", "assistant", "tool", "tool", "assistant"),
            *("user", "assistant"),
            *("user", "assistant"),
            *("user", "user", "user"),
        ]


async def test_a_summary_takes_the_place_of_what_it_sums_up() -> None:
    async with world(said("1"), said("2"), said("3")) as w:
        await w.turn("long ago")
        await w.turn("lately")
        summary = UserMessage("summary", (Text("they said things"),), "summary")
        session = w.agent.session
        before = next(
            event.seq
            for event in session.events
            if isinstance(event.fact, UserSaid) and event.fact.message.id == "m2"
        )
        session.append(CompactionStart("k"))
        session.append(CompactionSummary("k", before, summary))
        session.append(CompactionEnd("k", "completed"))
        await w.turn("now")
        texts = [message.content[0].text for message in w.script.requests[-1].messages]
        assert texts == ["they said things", "lately", "2", "now"]


async def test_a_retried_request_is_the_same_request() -> None:
    async with world(failed("overloaded"), failed("timeout"), said("at last")) as w:
        await w.turn()
        assert len({id(request) for request in w.script.requests}) == 1
