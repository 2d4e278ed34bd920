"""The composition root: making, continuing, forking, reading, listing and deleting sessions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from harness_core.agent import AGENT_CREATED, AGENT_DISPOSED, Agent, AgentDisposed
from harness_core.config import PROJECT_FILE, Config, ConfigError
from harness_core.content import Text, TextDelta, ToolCallDelta, UserMessage
from harness_core.facts import (
    ApprovalRule,
    AssistantChunk,
    AssistantSaid,
    SeedEnd,
    SessionTitle,
    ToolCalled,
    ToolStarted,
    TurnEnd,
    TurnStart,
)
from harness_core.harness import DEFAULT_PLUGINS, ForkError, Harness
from harness_core.history import derive_messages, repair
from harness_core.inbox import DuplicateMessage
from harness_core.journal.memory import MemoryJournal, MemoryLog
from harness_core.journal.protocol import SessionExists, SessionNotFound, Stored
from harness_core.model.scripted import ScriptedModel, asked, said
from harness_core.session import (
    SESSION_CREATED,
    SESSION_DISPOSED,
    SESSION_FLUSH,
    SessionEvent,
    SessionHeader,
    encode,
)
from harness_core.structure import Structure
from harness_core.tools.pipeline import APPROVE, Approval
from harness_core.tools.tool import ToolOutput
from tests.harness_core.kit import (
    Doing,
    FlakyJournal,
    World,
    adopt,
    bound,
    call,
    echo,
    paced,
    world,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


HALF = paced(TextDelta("half an ans"), 3600.0)


# --- making ------------------------------------------------------------------------------------


async def test_a_new_session_is_announced_and_nothing_is_stored_before_it_says_something() -> None:
    async with world(said("hi")) as w:
        heard: list[str] = []
        w.harness.bus.on(SESSION_CREATED, lambda header: heard.append(f"session {header.id}"))
        w.harness.bus.on(AGENT_CREATED, lambda agent: heard.append(f"agent {agent.session.id}"))
        agent = await w.harness.create("/elsewhere", id="mine")
        assert heard == ["session mine", "agent mine"]
        assert w.harness.agents["mine"] is agent
        assert agent.session.events == []
        assert (await w.harness.list()).sessions == ()
        await w.harness.dispose(agent)
        with pytest.raises(SessionNotFound):
            await w.harness.read("mine")


async def test_an_id_is_taken_once() -> None:
    async with world() as w:
        with pytest.raises(SessionExists):
            await w.harness.create("/elsewhere", id=w.agent.session.id)


async def test_sessions_run_beside_each_other() -> None:
    async with world(HALF, said("hi")) as w:
        w.send()
        await w.until_logged(AssistantChunk)
        other = await w.harness.create("/elsewhere")
        other.send(UserMessage("other", (Text("hello"),)))
        with bound():
            await other.when_idle()
        assert other.session.events[-1].fact.reason.kind == "completed"
        assert w.agent.status == "running"


async def test_each_session_has_the_settings_of_its_project(tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).parent.mkdir()
    (tmp_path / PROJECT_FILE).write_text("max_steps = 7")
    async with world() as w:
        assert (await w.harness.create(tmp_path)).settings.max_steps == 7
        assert w.agent.settings.max_steps == 200


async def test_a_project_with_broken_settings_leaves_no_session_behind(tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).parent.mkdir()
    (tmp_path / PROJECT_FILE).write_text("max_steps = 0")
    async with world() as w:
        with pytest.raises(ConfigError):
            await w.harness.create(tmp_path, id="mine")
        (tmp_path / PROJECT_FILE).unlink()
        agent = await w.harness.create(tmp_path, id="mine")
        assert agent.session.id == "mine"


async def test_a_harness_that_does_not_run_makes_no_sessions() -> None:
    journal = MemoryJournal()
    harness = Harness(journal=journal, tools=(), resolve=lambda _: ScriptedModel())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not running"):
            await harness.create("/nowhere", id="mine")
    async with harness:
        await harness.create("/nowhere", id="mine")
    with pytest.raises(RuntimeError, match="not running"):
        await harness.create("/nowhere", id="another")


async def test_the_built_in_tools_and_models_are_there_by_default() -> None:
    async with Harness(journal=MemoryJournal(), config=Config(), env={}) as harness:
        assert {"read", "edit"} <= {tool.name for tool in harness.runtime.tools}
        agent = await harness.create("/nowhere")
        agent.send(UserMessage("m", (Text("hello"),)))
        with bound():
            await agent.when_idle()
        assert agent.session.events[-1].fact.reason.kind == "completed"


async def test_what_goes_wrong_inside_is_raised_as_it_is() -> None:
    agents: list[Agent] = []

    async def scene() -> None:
        async with world(HALF) as w:
            agents.append(w.agent)
            w.send()
            await w.until_logged(AssistantChunk)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await scene()
    assert agents[0].session.closed


async def test_a_model_that_cannot_be_closed_keeps_no_session_open() -> None:
    class Sticky(ScriptedModel):
        async def aclose(self) -> None:
            raise OSError("cannot close")

    agents: list[Agent] = []

    async def scene() -> None:
        model = Sticky([said("hi")])
        async with Harness(journal=MemoryJournal(), tools=(), resolve=lambda _: model) as harness:
            agents.append(await harness.create("/nowhere"))
            agents[0].send(UserMessage("m", (Text("hello"),)))
            with bound():
                await agents[0].when_idle()

    with pytest.raises(OSError, match="cannot close"):
        await scene()
    assert agents[0].session.closed


async def test_the_end_of_a_session_is_announced_and_frees_its_id() -> None:
    async with world(said("hi")) as w:
        heard: list[str] = []
        w.harness.bus.on(AGENT_DISPOSED, lambda agent: heard.append("agent"))
        w.harness.bus.on(SESSION_DISPOSED, lambda header: heard.append(f"session {header.id}"))
        id = w.agent.session.id
        await w.turn()
        await w.harness.dispose(w.agent)
        assert sorted(heard) == ["agent", f"session {id}"]
        assert w.harness.agents == {}


# --- continuing --------------------------------------------------------------------------------


async def resumed(w: World, id: str) -> None:
    with bound():
        adopt(w, await w.harness.resume(id))


async def test_a_session_goes_on_where_it_ended() -> None:
    async with world(said("1"), said("2")) as w:
        await w.turn("first")
        id = w.agent.session.id
        before = w.facts
        await w.harness.dispose(w.agent)
        await resumed(w, id)
        assert w.facts == [*before, SeedEnd("resume")]
        await w.turn("second")
        assert w.last(TurnStart).turn == 2
        assert [m.content[0].text for m in w.script.requests[-1].messages] == [
            "first",
            "1",
            "second",
        ]
        assert w.types.count("request/header") == 1
        assert w.types.count("request/context") == 1
        assert w.all(SessionTitle) == [SessionTitle("first")]


async def test_two_that_resume_get_the_same_agent() -> None:
    async with world(said("1")) as w:
        await w.turn()
        id = w.agent.session.id
        assert await w.harness.resume(id) is w.agent
        await w.harness.dispose(w.agent)
        agents = []

        async def resume() -> None:
            agents.append(await w.harness.resume(id))

        with bound():
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(resume)
        assert len(agents) == 3
        assert len(set(map(id_of, agents))) == 1
        assert agents[0] is not w.agent


def id_of(value: object) -> int:
    return id(value)


async def test_a_session_that_is_ending_is_resumed_when_it_has_ended() -> None:
    async def slow(*_: object) -> ToolOutput:
        try:
            await anyio.sleep(3600)
        finally:
            await hold.wait()
        raise AssertionError("unreachable")

    hold = anyio.Event()
    async with world(asked(call("c", "slow")), said("2"), tools=[Doing("slow", slow)]) as w:
        old = w.agent
        w.send()
        await w.until_logged(ToolStarted)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.harness.dispose, old)
            await anyio.wait_all_tasks_blocked()
            assert old.closing
            tasks.start_soon(resumed, w, old.session.id)
            await anyio.wait_all_tasks_blocked()
            assert w.agent is old
            hold.set()
        assert w.agent is not old
        with pytest.raises(AgentDisposed):
            old.send(w.message())
        assert (await w.turn()).kind == "completed"


async def test_sessions_open_beside_each_other() -> None:
    """One that takes long to end does not keep another from being resumed."""
    async with world(said("1"), HALF) as w:
        await w.turn()
        first = w.agent
        await w.harness.dispose(first)
        adopt(w, await w.harness.create("/elsewhere"))
        second = w.agent
        w.send()
        await w.until_logged(AssistantChunk)
        hold = anyio.Event()

        async def wait(_: object) -> None:
            await hold.wait()

        second.bus.on(SESSION_FLUSH, wait)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.harness.dispose, second)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(w.harness.resume, second.session.id)
            await anyio.wait_all_tasks_blocked()
            await resumed(w, first.session.id)
            assert w.agent.session.id == first.session.id
            hold.set()


async def test_message_ids_stay_taken_across_a_resume() -> None:
    async with world(said("1"), said("2")) as w:
        id = w.send()
        await w.idle()
        session = w.agent.session.id
        await w.harness.dispose(w.agent)
        await resumed(w, session)
        with pytest.raises(DuplicateMessage):
            w.agent.send(UserMessage(id, (Text("again"),)))
        assert (await w.turn()).kind == "completed"


async def test_ids_of_calls_stay_taken_across_a_resume_also_of_discarded_attempts() -> None:
    """Requirement V1-TOOL-02: an editor may have shown them all."""
    cut = (ToolCallDelta("c", "echo", "{}"),)
    async with world(cut, asked(call("c")), asked(call("c")), said("done"), plugins=[]) as w:
        await w.turn()
        await w.harness.dispose(w.agent)
        await resumed(w, w.agent.session.id)
        await w.turn()
        shown = [f.chunk.id for f in w.all(AssistantChunk) if isinstance(f.chunk, ToolCallDelta)]
        assert len(shown) == len(set(shown)) == 3
        assert [fact.call_id for fact in w.all(ToolCalled)] == shown[1:]


async def test_what_is_not_there_cannot_be_resumed() -> None:
    async with world() as w:
        for _ in range(2):
            with pytest.raises(SessionNotFound):
                await w.harness.resume("nothing")


async def test_a_session_whose_settings_are_broken_can_be_resumed_when_they_are_mended(
    tmp_path: Path,
) -> None:
    settings = tmp_path / PROJECT_FILE
    settings.parent.mkdir()
    async with world(said("1"), said("2"), cwd=str(tmp_path)) as w:
        await w.turn()
        await w.harness.dispose(w.agent)
        settings.write_text("max_steps = 0")
        for _ in range(2):
            with pytest.raises(ConfigError, match="max_steps"):
                await w.harness.resume(w.agent.session.id)
        settings.unlink()
        await resumed(w, w.agent.session.id)
        assert (await w.turn()).kind == "completed"


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("natively", [True, False])
async def test_a_resume_that_is_cancelled_leaves_nothing_locked(
    natively: bool, found: bool
) -> None:
    class SlowJournal(MemoryJournal):
        begun, go_on = threading.Event(), threading.Event()

        def open(self, session: str) -> tuple[Stored, MemoryLog]:
            self.begun.set()
            self.go_on.wait(30)
            return super().open(session)

    journal = SlowJournal()
    async with world(said("1"), said("2"), journal=journal) as w:
        await w.turn()
        id = w.agent.session.id if found else "nothing"
        await w.harness.dispose(w.agent)
        async with anyio.create_task_group() as tasks:
            resuming = asyncio.ensure_future(w.harness.resume(id)) if natively else None
            if resuming is None:
                tasks.start_soon(w.harness.resume, id)
            await anyio.to_thread.run_sync(journal.begun.wait, 30)
            if resuming is None:
                tasks.cancel_scope.cancel()
            else:
                resuming.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            journal.go_on.set()
            if resuming is not None:
                with bound(), contextlib.suppress(asyncio.CancelledError):
                    await resuming
                assert resuming.cancelled()
        assert w.harness.agents == {}
        await resumed(w, w.agent.session.id)
        assert (await w.turn()).kind == "completed"


async def test_remembered_approvals_survive_a_resume() -> None:
    replies = [asked(call("c1")), said("1"), asked(call("c2")), said("2")]
    tools = [Doing("echo", echo, "changes")]
    async with world(*replies, tools=tools, settings={"mode": "ask"}) as w:
        questions: list[object] = []

        async def always(request: object, _: object) -> Approval:
            questions.append(request)
            return Approval("allow-always", "user")

        w.harness.bus.on(APPROVE, always)
        await w.turn()
        id = w.agent.session.id
        await w.harness.dispose(w.agent)
        await resumed(w, id)
        await w.turn()
        assert w.result("c2").error is None
        assert len(questions) == 1
        assert len(w.all(ApprovalRule)) == 1


# --- interrupted logs --------------------------------------------------------------------------


def stored(events: Sequence[SessionEvent]) -> MemoryJournal:
    """A journal that holds these events as if its process had been killed then."""
    journal = FlakyJournal()
    log = journal.create(SessionHeader(events[0].session, "/nowhere", 0))
    for event in events:
        log.write(event, encode(event))
    log.close()
    return journal


async def eventful() -> list[SessionEvent]:
    """The log of a session in which much happened."""
    replies = [
        asked(call("c1"), call("c2")),
        said("done"),
        (TextDelta("half"),),
        asked(call("c3", "hang")),
        said("next"),
    ]

    async def hang(*_: object) -> ToolOutput:
        await anyio.sleep(3600)
        raise AssertionError("unreachable")

    tools = [Doing("echo", echo), Doing("hang", hang, "changes")]
    settings = {"retry": {"attempts": 1, "base": 0}}
    async with world(*replies, tools=tools, settings=settings) as w:
        await w.turn()
        w.send()
        await w.until_logged(ToolStarted, 3)
        w.agent.cancel()
        await w.idle()
        await w.turn()
        return list(w.agent.session.events)


def outside(events: Sequence[SessionEvent]) -> bool:
    kinds = [type(event.fact) for event in events]
    return kinds.count(TurnStart) == kinds.count(TurnEnd)


async def test_a_log_interrupted_anywhere_is_closed_and_goes_on() -> None:
    events = await eventful()
    for cut in range(1, len(events) + 1):
        head = events[:cut]
        journal = stored(head)
        async with world(said("I am back"), journal=journal) as w:
            w.sent = len(events)
            seen = await w.harness.read(head[0].session)
            assert list(seen.events) == head
            await resumed(w, head[0].session)
            facts = w.facts
            closing = facts[cut:-1]
            assert facts[:cut] == [event.fact for event in head]
            assert facts[-1] == SeedEnd("resume")
            assert (closing == []) == outside(head)
            if closing:
                assert closing[-1].reason.kind == "interrupted"
            assert repair(w.agent.session.events) == []
            assert (await w.turn("and now?")).kind == "completed"
            assert_balanced(w.agent.session.events)
            id = w.agent.session.id
            await w.harness.dispose(w.agent)
            assert list((await w.harness.read(id)).events) == list(w.agent.session.events)


async def test_looking_at_an_interrupted_session_changes_nothing() -> None:
    async with world(HALF) as w:
        w.send()
        await w.until_logged(AssistantChunk)
        journal = stored(w.agent.session.events)
        before = list(w.agent.session.events)
    harness = Harness(journal=journal, tools=(), resolve=lambda _: ScriptedModel())
    for _ in range(2):
        assert list((await harness.read(before[0].session)).events) == before
    assert len((await harness.list()).sessions) == 1


# --- forking -----------------------------------------------------------------------------------


async def test_a_fork_at_every_point_outside_a_turn_and_at_no_other() -> None:
    events = await eventful()
    legal = [at for at in range(len(events) + 1) if outside(events[:at])]
    assert len(legal) == 4
    source = events[0].session
    async with world(*(said("on my own") for _ in legal), journal=stored(events)) as w:
        w.sent = len(events)
        for at in range(-2, len(events) + 3):
            if at not in legal:
                with pytest.raises(ForkError, match=f"cannot fork at {at}"):
                    await w.harness.fork(source, "/fork", at=at)
                continue
            with bound():
                adopt(w, await w.harness.fork(source, "/fork", at=at))
            header = w.agent.session.header
            assert (header.parent, header.forked_at, header.cwd) == (source, at, "/fork")
            inherited = [event.fact for event in events[:at]]
            assert w.facts == (inherited and [*inherited, SeedEnd("fork")])
            assert {event.session for event in w.agent.session.events} <= {header.id}
            assert (await w.turn("go on")).kind == "completed"
            assert_balanced(w.agent.session.events)
            await w.harness.dispose(w.agent)
            again = (await w.harness.read(header.id)).events
            assert list(again) == list(w.agent.session.events)
        assert list((await w.harness.read(source)).events) == events


async def test_a_live_session_is_forked_up_to_its_last_whole_turn() -> None:
    async with world(said("1"), HALF, said("fork")) as w:
        await w.turn("first")
        whole = w.facts
        original = w.agent
        w.send("second")
        await w.until_logged(AssistantChunk, 3)
        with bound():
            adopt(w, await w.harness.fork(original.session.id, "/fork"))
        assert w.facts == [*whole, SeedEnd("fork")]
        assert (await w.turn("third")).kind == "completed"
        assert original.status == "running"
        assert [fact.turn for fact in w.all(TurnStart)] == [1, 2]


async def test_a_fork_keeps_what_was_remembered_and_goes_its_own_way() -> None:
    async with world(said("1"), said("2")) as w:
        original = w.agent
        await w.turn("first")
        with bound():
            adopt(w, await w.harness.fork(original.session.id, "/fork"))
        await w.turn("second")
        assert w.last(AssistantSaid).message.text == "2"
        assert len(original.session.structure.message_ids) == 1
        await w.harness.dispose(w.agent)
        with bound():
            adopt(w, await w.harness.resume(w.agent.session.id))
        assert w.agent.session.header.parent == original.session.id


async def test_what_is_not_there_cannot_be_forked() -> None:
    async with world() as w:
        with pytest.raises(SessionNotFound):
            await w.harness.fork("nothing", "/fork")


# --- beside the agents -------------------------------------------------------------------------


async def test_what_runs_beside_the_agents_is_waited_for() -> None:
    done: list[str] = []

    async def body() -> None:
        await anyio.wait_all_tasks_blocked()
        done.append("done")

    async with world() as w:
        w.harness.spawn(body)
    assert done == ["done"]
    with pytest.raises(RuntimeError, match="not running"):
        w.harness.spawn(body)


# --- deleting ----------------------------------------------------------------------------------


async def test_a_live_session_is_ended_before_it_is_deleted() -> None:
    async with world(HALF) as w:
        w.send()
        await w.until_logged(AssistantChunk)
        id = w.agent.session.id
        with bound():
            assert await w.harness.delete(id)
        assert w.last(TurnEnd).reason.cause == "disposed"
        assert w.agent.session.closed
        assert w.harness.agents == {}
        with pytest.raises(SessionNotFound):
            await w.harness.read(id)
        assert not await w.harness.delete(id)


async def test_deleting_what_never_said_anything_is_no_mistake() -> None:
    async with world() as w:
        id = w.agent.session.id
        for _ in range(2):
            with bound():
                assert not await w.harness.delete(id)


async def test_resuming_while_it_is_deleted_finds_nothing_or_comes_first() -> None:
    async with world(said("1")) as w:
        await w.turn()
        id = w.agent.session.id
        outcomes: list[str] = []

        async def delete() -> None:
            outcomes.append("deleted" if await w.harness.delete(id) else "was gone")

        async def resume() -> None:
            try:
                await w.harness.resume(id)
                outcomes.append("resumed")
            except SessionNotFound:
                outcomes.append("not found")

        with bound():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(delete)
                tasks.start_soon(resume)
        assert outcomes == ["deleted", "not found"]


# --- plugins -----------------------------------------------------------------------------------


def test_the_default_plugins_are_listed() -> None:
    assert len(set(DEFAULT_PLUGINS)) == len(DEFAULT_PLUGINS)


def assert_balanced(events: Sequence[SessionEvent]) -> None:
    """The log has its shape, and every call that the model will see has exactly one result."""
    structure = Structure()
    for event in events:
        structure.accept(event.fact)
    waiting: list[str] = []
    for message in derive_messages(events):
        if message.role == "tool":
            waiting.remove(message.call_id)
        else:
            assert waiting == []
        if message.role == "assistant":
            waiting += [one.id for one in message.calls]
    assert waiting == []
