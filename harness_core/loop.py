"""The loop: what a turn does, step by step.

    repeat:
        agent/pre-step            may add context, rewrite, or block
        step/start, user/message  only now is a step open
        agent/request             how to call the model
        the model's stream        each chunk logged, then assembled
        the tools it asked for    results in model order
        step/end
    until nothing is left and agent/turn-stopping steered nothing

The loop returns why the turn ends, or raises; the agent closes what is open on every path. It is
one replaceable object: ``Harness(loop=…)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.lowlevel

from harness_core.bus import Serial, Waterfall
from harness_core.content import (
    Chunk,
    Failure,
    Finish,
    ToolCall,
    ToolCallDelta,
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    LlmRetry,
    Reason,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCalled,
    UserSaid,
)
from harness_core.fold import Fold
from harness_core.history import Assembly, History
from harness_core.model.protocol import Model, ModelConfig, ModelRequest, ModelSetupError
from harness_core.session import Session, SessionEvent

if TYPE_CHECKING:
    from harness_core.agent import Agent, Turn

CLOSING = 5.0
"""Seconds that a model has to end a call that nobody listens to any more."""


@dataclass(frozen=True, slots=True)
class Block:
    """A pre-step listener's refusal: who and why; the turn ends ``blocked``."""

    by: str
    why: str


@dataclass(frozen=True, slots=True)
class PreStep:
    """A step is about to open with these messages; ``replace`` them, or answer with ``block``."""

    agent: Agent
    turn: int
    step: int
    messages: tuple[UserMessage, ...]
    block: Block | None = None


@dataclass(frozen=True, slots=True)
class RequestDraft:
    """A model call is about to be made this way."""

    agent: Agent
    turn: int
    step: int
    config: ModelConfig


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """An attempt failed. ``attempt`` counts from 1."""

    agent: Agent
    turn: int
    step: int
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Retry:
    """Repeat the attempt after ``delay`` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """A turn has nothing left to do. Steer the agent to make it go on; ``again`` counts that."""

    agent: Agent
    turn: int
    again: int


PRE_STEP = Waterfall[PreStep, PreStep](
    "agent/pre-step", "Before a step opens: add context, rewrite messages, or block."
)
REQUEST = Waterfall[RequestDraft, ModelConfig](
    "agent/request", "Before a model call: decide how it is made."
)
REQUEST_ERROR = Waterfall[RequestFailure, Retry | None](
    "agent/request-error", "An attempt failed: repeat it, or give up."
)
TURN_STOPPING = Serial[Stopping](
    "agent/turn-stopping", "Nothing is left to do: steer to make the turn go on."
)


class Loop(Protocol):
    """What a turn does."""

    async def run(self, turn: Turn) -> Reason:
        """Run ``turn`` and say why it ends. May raise; may be cancelled at any await."""
        ...


class StepLoop:
    """The standard loop; the setting ``max_steps`` bounds the steps of one turn."""

    async def run(self, turn: Turn) -> Reason:
        """Run steps until nothing is left; see ``Loop``."""
        messages, again = turn.messages, 0
        for step in range(1, turn.agent.settings.max_steps + 1):
            reason = await Step(turn, step).run(messages)
            if reason is not None and reason.kind != "completed":
                return reason
            if reason is not None and not turn.steered:
                await turn.agent.bus.serial(TURN_STOPPING, Stopping(turn.agent, turn.number, again))
                again += 1
                if not turn.steered:
                    return reason
            if step < turn.agent.settings.max_steps:  # else it stays for the next turn
                messages = turn.take_steering()
        return reason or Reason("max-steps")


class Step:
    """One model call and the tools it asks for."""

    def __init__(self, turn: Turn, number: int) -> None:
        self.turn = turn
        self.number = number
        self.agent = turn.agent
        self.session = turn.agent.session

    async def run(self, messages: tuple[UserMessage, ...]) -> Reason | None:
        """Run it; ``None`` means: tools have run, the model must see their results."""
        draft = PreStep(self.agent, self.turn.number, self.number, messages)
        draft = await self.agent.bus.waterfall(PRE_STEP, draft, _same)
        if draft.block is not None:
            return Reason("blocked", by=draft.block.by, why=draft.block.why)
        self.session.append(StepStart(self.turn.number, self.number))
        for message in draft.messages:
            self.session.append(UserSaid(self.turn.number, message))
        self.turn.unsaid = ()
        reason = await self._work()
        self.session.append(StepEnd(self.turn.number, self.number))
        return reason

    async def _work(self) -> Reason | None:
        try:
            request, model = await self._request()
            answer = await self._answer(request, model)
        except ModelSetupError as failure:
            return _error(Failure("auth" if failure.auth else "setup", str(failure)))
        if answer.failure is not None:
            return _error(answer.failure)
        message = answer.assembly.message(prefix=answer.finish.kind == "max-tokens")
        usage = answer.assembly.usage
        self.session.append(AssistantSaid(self.turn.number, self.number, message, usage))
        if answer.finish.kind == "refusal":
            return Reason("refused", why=answer.finish.explanation)
        if answer.finish.kind == "max-tokens":
            return Reason("max-tokens")
        if not message.calls:
            return Reason("completed")
        await self._run_tools(message.calls)
        return None

    async def _request(self) -> tuple[ModelRequest, Model]:
        """Everything the model will see, logged where it changed."""
        runtime, state = self.agent.runtime, RequestState.of(self.agent)
        draft = RequestDraft(self.agent, self.turn.number, self.number, self._config())
        config = await self.agent.bus.waterfall(REQUEST, draft, _config)
        model = runtime.model(config.model)
        header = RequestHeader(config, await runtime.context_window(model.info))
        if header != state.header:
            self.session.append(header)
        context = RequestContext(
            await runtime.prompt.assemble(self.agent), self.agent.tools.specs()
        )
        if context != state.context:
            self.session.append(context)
        state.catch_up()
        messages = state.history.messages
        trace = self.turn.trace
        return ModelRequest(config, context.system, messages, context.tools, trace), model

    def _config(self) -> ModelConfig:
        """How models are called, as the settings say."""
        settings = self.agent.settings
        return ModelConfig(
            settings.model, settings.max_output, settings.temperature, settings.effort
        )

    async def _answer(self, request: ModelRequest, model: Model) -> Attempt:
        """Attempt the call until it succeeds or nobody wants to repeat it."""
        number = 1
        while True:
            attempt = Attempt(self, number)
            await attempt.run(model, request)
            failure = attempt.failure
            if failure is None:
                return attempt
            wish = RequestFailure(self.agent, self.turn.number, self.number, number, failure)
            retry = await self.agent.bus.waterfall(REQUEST_ERROR, wish, _give_up)
            if retry is None:
                return attempt
            self.session.append(
                LlmRetry(self.turn.number, self.number, number, retry.delay, failure)
            )
            await anyio.sleep(retry.delay)
            number += 1

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> None:
        facts = [
            ToolCalled(self.turn.number, self.number, call.id, call.name, call.arguments)
            for call in calls
        ]
        for fact in facts:
            self.session.append(fact)
        await self.agent.runtime.pipeline.run(self.agent, facts)


class Attempt:
    """One streamed call: every chunk is logged as it comes."""

    def __init__(self, step: Step, number: int) -> None:
        self.step = step
        self.number = number
        self.assembly = Assembly()
        self.finish = Finish("error", Failure("cut", "the model's answer ended without its end"))
        self._ids: dict[str, str] = {}

    @property
    def failure(self) -> Failure | None:
        """Why it failed, ``None`` if it did not."""
        if self.finish.kind != "error":
            return None
        return self.finish.failure or Failure("internal", "the model failed without saying why")

    async def run(self, model: Model, request: ModelRequest) -> None:
        """Stream to the end. When cancelled, the visible prefix becomes an interrupted message."""
        stream = model.stream(request)
        try:
            async for chunk in stream:
                if self.step.turn.cause is not None:
                    await anyio.lowlevel.checkpoint()
                self._take(chunk)
        except anyio.get_cancelled_exc_class():
            self._keep_prefix()
            raise
        finally:
            with anyio.move_on_after(CLOSING, shield=True):
                await stream.aclose()

    def _take(self, chunk: Chunk) -> None:
        if isinstance(chunk, ToolCallDelta):
            chunk = self._unique(chunk)
        elif isinstance(chunk, Finish):
            self.finish = chunk
        step = self.step
        step.session.append(AssistantChunk(step.turn.number, step.number, self.number, chunk))
        self.assembly.add(chunk)

    def _unique(self, chunk: ToolCallDelta) -> ToolCallDelta:
        """Give the call an id new in this session: providers reuse theirs (V1-TOOL-02)."""
        if chunk.id not in self._ids:
            seen = self.step.session.structure.seen_ids
            id, count = chunk.id, 1
            while id in seen:
                count += 1
                id = f"{chunk.id}_{count}"
            self._ids[chunk.id] = id
        id = self._ids[chunk.id]
        return chunk if id == chunk.id else replace(chunk, id=id)

    def _keep_prefix(self) -> None:
        step, message = self.step, self.assembly.message(prefix=True)
        if message.content:
            fact = AssistantSaid(
                step.turn.number, step.number, message, self.assembly.usage, interrupted=True
            )
            step.session.append(fact)


class RequestState(Fold):
    """What a session's log says about requests: its history and the last header and context."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.history = History()
        self.header: RequestHeader | None = None
        self.context: RequestContext | None = None

    def feed(self, event: SessionEvent) -> None:
        """Take one event."""
        self.history.feed(event)
        if isinstance(event.fact, RequestHeader):
            self.header = event.fact
        elif isinstance(event.fact, RequestContext):
            self.context = event.fact


def _error(failure: Failure) -> Reason:
    return Reason(
        "error",
        message=failure.message,
        code=failure.code,
        status=failure.status,
        request_id=failure.request_id,
    )


async def _same(draft: PreStep) -> PreStep:
    return draft


async def _config(draft: RequestDraft) -> ModelConfig:
    return draft.config


async def _give_up(_: RequestFailure) -> Retry | None:
    return None
