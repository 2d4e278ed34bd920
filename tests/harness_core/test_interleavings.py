"""Whatever happens at whatever moment: the promises of a session hold.

Each example is a scene on a virtual clock: prompts, steering, cancels and disposal at any time or
in the middle of any announcement, a model and tools of every temper, refused appends, failing
flushes, failing listeners at every event point. Nothing may hang, and what remains is a log in
which every turn, call and message has ended exactly once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness_core.agent import AGENT_STATUS, AgentDisposed
from harness_core.bus import Emit, Next, Parallel, Point, Serial, Waterfall
from harness_core.content import Failure, Finish, ReasoningDelta, Text, TextDelta, UserMessage
from harness_core.facts import (
    Fact,
    FactRefused,
    PlanWrite,
    ToolCalled,
    ToolReturned,
    TurnEnd,
    TurnStart,
)
from harness_core.history import derive_messages, repair
from harness_core.loop import PRE_STEP, TURN_STOPPING, Block, PreStep, Stopping
from harness_core.model.protocol import ModelRequest, ModelSetupError
from harness_core.model.scripted import Reply, asked, failed, said
from harness_core.session import SESSION_EVENT, Session, SessionEvent
from harness_core.structure import Structure
from harness_core.tools.pipeline import APPROVE, Approval, ApprovalRequest
from harness_core.tools.tool import ToolContext, ToolError, ToolOutput
from tests.harness_core.kit import (
    LONG,
    Doing,
    FlakyJournal,
    Words,
    World,
    call,
    paced,
    play,
    world,
)

FOREVER = 10 * LONG
GRACE = 5.0

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """What fails on purpose is not worth a log."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


PATIENCE = 200.0
"""Seconds in which a cancelled turn must have ended; more than any grace and any deaf tool."""

POINTS = {
    name: point
    for name, point in sorted(Point.registry.items())
    if type(point).__module__ == "harness_core.bus" and "test-" not in name
}
EMITS = [name for name, point in POINTS.items() if isinstance(point, Emit)]


# --- tempers -----------------------------------------------------------------------------------


async def deaf_stream(_: ModelRequest):
    for _ in range(4):
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        yield TextDelta("la")
    yield Finish("stop")


REPLIES: dict[str, Reply] = {
    "text": said("text"),
    "slow": paced(0.5, TextDelta("a"), 0.5, TextDelta("b"), 0.5, Finish("stop")),
    "thoughts": paced(ReasoningDelta("hm"), 0.25, ReasoningDelta("", "seal"), *said("so")),
    "nothing": (Finish("stop"),),
    "hangs": paced(TextDelta("so far"), FOREVER),
    "cut": (TextDelta("half"),),
    "busy": (TextDelta("ha"), Finish("error", Failure("overloaded", "busy"))),
    "too busy": (Finish("error", Failure("rate-limit", "busy", retry_after=1e6)),),
    "fatal": failed("bad-request"),
    "refusal": (TextDelta("no"), Finish("refusal", explanation="policy")),
    "too long": (TextDelta("and so"), Finish("max-tokens")),
    "raises": paced(0.25, RuntimeError("broken model")),
    "set-up": paced(ModelSetupError("set KEY", auth=True)),
    "leaks": paced(0.25, TextDelta("x"), asyncio.CancelledError()),
    "deaf": deaf_stream,
}


async def ok(arguments: Words, _: ToolContext) -> ToolOutput:
    return ToolOutput.text("ok")


async def slow(_: Words, context: ToolContext) -> ToolOutput:
    context.output(b"working")
    await anyio.sleep(0.5)
    context.append(PlanWrite(()))
    return ToolOutput.text("slowly")


async def fails(*_: object) -> ToolOutput:
    raise ToolError("no such file")


async def crashes(*_: object) -> ToolOutput:
    await anyio.sleep(0.25)
    raise RuntimeError("bug")


async def hangs(*_: object) -> ToolOutput:
    await anyio.sleep(FOREVER)
    raise AssertionError("unreachable")


async def deaf(_: Words, context: ToolContext) -> ToolOutput:
    until = anyio.current_time() + 20
    while anyio.current_time() < until:
        try:
            await anyio.sleep(1)
        except asyncio.CancelledError:
            continue
    context.output(b"done at last")
    context.append(PlanWrite(()))
    return ToolOutput.text("done at last")


async def leaks(*_: object) -> ToolOutput:
    raise asyncio.CancelledError


async def exits(*_: object) -> ToolOutput:
    raise SystemExit(1)


async def garbage(*_: object) -> Any:
    return "no output"


async def unkeepable(*_: object) -> ToolOutput:
    return ToolOutput.text("\ud800", meta=object())


BODIES = (ok, slow, fails, crashes, hangs, deaf, leaks, exits, garbage, unkeepable)


# --- scenes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Act:
    """Something done from outside: at a time, or at the nth announcement of an event point."""

    what: str
    at: float = 0.0
    on: str | None = None
    nth: int = 0
    pick: int = 0


@dataclass(frozen=True)
class Scene:
    """Everything that happens."""

    acts: tuple[Act, ...]
    replies: tuple[str | tuple[str, ...], ...] = ()
    refused: frozenset[int] = frozenset()
    unflushed: frozenset[int] = frozenset()
    failing: frozenset[tuple[str, int]] = frozenset()
    leaking: bool = False
    pre_steps: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    asking: bool = False
    flush_time: float = 0.0


ACTS = ("send", "send", "send", "steer", "inject", "cancel", "cancel", "discard", "dispose")
TIMES = st.integers(0, 24).map(lambda quarter: quarter / 4)
TOOLS = tuple(f"{body.__name__}-{effect}" for body in BODIES for effect in ("reads", "changes"))


def apart(numbers: set[int]) -> frozenset[int]:
    """No two in a row: what is owed is tried twice, and refused twice it cannot be paid."""
    return frozenset(number for number in numbers if number - 1 not in numbers)


act = st.one_of(
    st.builds(Act, what=st.sampled_from(ACTS), at=TIMES, pick=st.integers(0, 5)),
    st.builds(
        Act,
        what=st.sampled_from(ACTS),
        on=st.sampled_from([*EMITS, *repeat("session/event", 8)]),
        nth=st.integers(0, 30),
        pick=st.integers(0, 5),
    ),
)
scenes = st.builds(
    Scene,
    acts=st.lists(act, min_size=1, max_size=12).map(tuple),
    replies=st.lists(
        st.one_of(
            st.sampled_from(sorted(REPLIES)),
            st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4).map(tuple),
        ),
        max_size=8,
    ).map(tuple),
    refused=st.sets(st.integers(0, 80), max_size=4).map(apart),
    unflushed=st.frozensets(st.integers(1, 12), max_size=4),
    failing=st.frozensets(
        st.tuples(st.sampled_from(sorted(POINTS)), st.integers(0, 12)), max_size=6
    ),
    leaking=st.booleans(),
    pre_steps=st.lists(st.sampled_from(["go", "go", "slow", "block", "add"]), max_size=5).map(
        tuple
    ),
    stops=st.lists(st.sampled_from(["go", "steer", "slow"]), max_size=4).map(tuple),
    answers=st.lists(
        st.sampled_from(["allow-once", "allow-always", "reject-once", "cancelled", "hang", "no"]),
        max_size=6,
    ).map(tuple),
    asking=st.booleans(),
    flush_time=st.sampled_from([0.0, 0.0, 0.25]),
)


@dataclass
class Stage:
    """A scene as it is played: what fails until ``over``, and what was seen."""

    scene: Scene
    w: World = field(init=False)
    over: bool = False
    appended: int = 0
    told: Counter[str] = field(default_factory=Counter)
    sent: list[str] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    disposed: bool = False
    observed: list[SessionEvent] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)
    """Calls whose changing body ran before they were safe on disk."""

    # --- what fails ----------------------------------------------------------------------------

    def refuse(self, _: Session, fact: Fact) -> None:
        """Refuses the nth append."""
        self.appended += 1
        if not self.over and self.appended in self.scene.refused:
            raise FactRefused(f"{fact.type} is refused by the scene")

    def unflushed(self, number: int) -> bool:
        """Whether a flush fails."""
        return not self.over and number in self.scene.unflushed

    def count(self, name: str) -> int:
        """How often ``name`` was told before."""
        self.told[name] += 1
        return self.told[name] - 1

    def stumble(self, name: str, number: int) -> None:
        """Fails at the nth time that ``name`` is told."""
        if not self.over and (name, number) in self.scene.failing:
            if self.scene.leaking and not isinstance(POINTS[name], Emit):
                raise asyncio.CancelledError
            raise RuntimeError(f"a listener of {name} fails")

    def hear(self, name: str, _: object) -> None:
        """An emit listener that does what the scene wants, and fails when it wants that."""
        number = self.count(name)
        for one in self.scene.acts:
            if one.on == name and one.nth == number and not self.over:
                self.do(one)
        self.stumble(name, number)

    async def pass_on(self, name: str, payload: object, following: Next[Any, Any]) -> object:
        """A waterfall listener."""
        self.stumble(name, self.count(name))
        return await following(payload)

    async def attend(self, name: str, _: object) -> None:
        """A serial or parallel listener."""
        await anyio.lowlevel.checkpoint()
        self.stumble(name, self.count(name))

    def stand_everywhere(self) -> None:
        """A listener at every event point there is."""
        bus = self.w.agent.bus
        for name, point in POINTS.items():
            match point:
                case Emit():
                    bus.on(point, partial(self.hear, name))
                case Waterfall():
                    bus.on(point, partial(self.pass_on, name))
                case Serial() | Parallel():
                    bus.on(point, partial(self.attend, name))

    # --- who decides ---------------------------------------------------------------------------

    def deciders(self) -> None:
        """Listeners that have opinions."""
        bus, scene = self.w.agent.bus, self.scene
        pre_steps, stops, answers = iter(scene.pre_steps), iter(scene.stops), iter(scene.answers)

        async def pre_step(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
            match next(pre_steps, "go") if not self.over else "go":
                case "slow":
                    await anyio.sleep(0.5)
                case "block":
                    return replace(draft, block=Block("scene", "because"))
                case "add":
                    extra = UserMessage(f"extra-{len(self.observed)}", (Text("also"),), "context")
                    draft = replace(draft, messages=(*draft.messages, extra))
            return await following(draft)

        async def stop(stopping: Stopping) -> None:
            match next(stops, "go") if not self.over else "go":
                case "slow":
                    await anyio.sleep(0.5)
                case "steer":
                    self.send("steer")

        async def answer(_: ApprovalRequest, __: object) -> Approval:
            decision: Any = next(answers, "allow-once") if not self.over else "allow-once"
            if decision == "hang":
                await anyio.sleep(FOREVER)
            return Approval(decision, "user")

        bus.on(PRE_STEP, pre_step)
        bus.on(TURN_STOPPING, stop)
        bus.on(APPROVE, answer)
        bus.on(SESSION_EVENT, self.observed.append)
        bus.on(AGENT_STATUS, lambda change: self.statuses.append(change.status))

    def tools(self) -> Iterator[Doing]:
        """Every body, harmless and not."""
        for name, body in ((body.__name__, body) for body in BODIES):
            yield Doing(f"{name}-reads", body, "reads")
            yield Doing(f"{name}-changes", self.guarded(body), "changes")

    def guarded(self, body: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """``body``, and the check that its call was safe before it ran."""

        async def guarded(arguments: Words, context: ToolContext) -> ToolOutput:
            flushed = self.w.agent.session.log.flushed  # type: ignore[attr-defined]
            safe = {fact.call_id for fact in self.w.facts[:flushed] if isinstance(fact, ToolCalled)}
            if context.call_id not in safe:
                self.unsafe.append(context.call_id)
            output: ToolOutput = await body(arguments, context)
            return output

        return guarded

    def replies(self) -> Iterator[Reply]:
        """What the model says, and then only friendly things."""
        for number, reply in enumerate(self.scene.replies):
            if self.over:
                return
            if isinstance(reply, str):
                yield REPLIES[reply]
            else:
                yield asked(*(call(f"c{number}-{n}", name) for n, name in enumerate(reply)))

    # --- acts ----------------------------------------------------------------------------------

    def send(self, how: str) -> None:
        """Send, steer or inject a message of its own."""
        message = self.w.message(how, how)
        try:
            getattr(self.w.agent, how)(message)
        except AgentDisposed:
            assert self.disposed
        else:
            self.sent.append(message.id)

    def do(self, one: Act) -> None:
        """Do what an act says, now."""
        agent = self.w.agent
        match one.what:
            case "send" | "steer" | "inject":
                self.send(one.what)
            case "cancel":
                if agent.turn is not None:
                    self.cancelled.add(agent.turn.number)
                agent.cancel()
            case "discard":
                if self.sent:
                    agent.discard(self.sent[one.pick % len(self.sent)])
            case "dispose":
                self.disposed = True
                self.group.start_soon(agent.dispose)

    group: Any = None

    async def act_at(self, one: Act) -> None:
        """Do it at its time."""
        await anyio.sleep(one.at)
        if not self.over:
            self.do(one)


# --- the property ------------------------------------------------------------------------------


async def perform(scene: Scene) -> Stage:
    """Play a scene to its end: everything settles, a last prompt is answered, all is disposed."""
    stage = Stage(scene)
    journal = FlakyJournal(stage.unflushed)
    journal.flush_time = scene.flush_time
    settings = {
        "mode": "ask" if scene.asking else "auto",
        "max_steps": 4,
        "retry": {"attempts": 1, "base": 0.5},
    }
    async with (
        world(
            tools=tuple(stage.tools()),
            settings=settings,
            journal=journal,
            grace=GRACE,
            more=chain(stage.replies(), repeat(said("friendly"))),
        ) as stage.w,
        anyio.create_task_group() as stage.group,
    ):
        w = stage.w
        w.agent.session.validators.append(stage.refuse)
        stage.deciders()
        stage.stand_everywhere()
        for one in scene.acts:
            if one.on is None:
                stage.group.start_soon(stage.act_at, one)
        await anyio.sleep(10)
        await settle(stage)
        if not stage.disposed:
            stage.over = True
            reason = await w.turn("are you still there?")
            assert reason.kind == "completed", reason
            stage.sent.append(f"m{w.sent}")
        with anyio.fail_after(PATIENCE):
            await w.agent.dispose()
    stored = journal.read(w.agent.session.id).events if w.facts else ()
    assert list(stored) == w.agent.session.events
    return stage


async def settle(stage: Stage) -> None:
    """Cancel whatever still runs, turn after turn, until nothing does and nothing waits."""
    agent = stage.w.agent
    stage.over = True
    for _ in range(50):
        with anyio.move_on_after(PATIENCE):
            await agent.when_idle()
            assert agent.turn is None
            assert not agent.inbox.ready
            return
        assert agent.turn is not None, "not idle, but nothing runs"
        stage.cancelled.add(agent.turn.number)
        agent.cancel()
    raise AssertionError("it never becomes idle")


def check(stage: Stage) -> None:
    """What must be true of every session that was ever played."""
    w, events = stage.w, stage.w.agent.session.events
    assert [event.seq for event in events] == list(range(len(events)))
    assert stage.observed == events
    structure = Structure()
    for event in events:
        structure.accept(event.fact)
    assert repair(events) == []

    starts, ends = w.all(TurnStart), w.all(TurnEnd)
    assert [start.turn for start in starts] == list(range(1, len(starts) + 1))
    assert [end.turn for end in ends] == [start.turn for start in starts]

    called = [fact.call_id for fact in w.all(ToolCalled)]
    assert len(set(called)) == len(called)
    assert sorted(called) == sorted(fact.call_id for fact in w.all(ToolReturned))
    assert stage.unsafe == []
    check_history(events)

    in_turns = [id for start in starts for id in start.messages]
    assert len(set(in_turns)) == len(in_turns)
    assert set(in_turns) <= set(w.claimed)
    assert sorted(w.claimed + list(w.discarded)) == sorted(stage.sent)

    for end in ends:
        if stage.disposed and end.reason.cause == "disposed":
            continue
        assert (end.reason.kind == "aborted") == (end.turn in stage.cancelled), end
    assert stage.statuses == (["running", "idle"] * len(stage.statuses))[: len(stage.statuses)]
    assert w.agent.status == "idle"


def check_history(events: list[SessionEvent]) -> None:
    """Every call that the model is told of has its one result, right after it."""
    waiting: list[str] = []
    for message in derive_messages(events):
        match message.role:
            case "tool":
                waiting.remove(message.call_id)
            case "assistant":
                assert waiting == []
                waiting = [one.id for one in message.calls]
            case "user":
                assert waiting == []
    assert waiting == []


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(scenes)
@example(Scene((Act("send"), Act("dispose", on="agent/status", nth=1))))
@example(Scene((Act("send"), Act("send", on="agent/status", nth=1))))
@example(Scene((Act("send"), Act("cancel", on="session/event", nth=0))))
def test_whatever_happens_the_promises_hold(scene: Scene) -> None:
    async def run() -> None:
        check(await perform(scene))

    play(run)
