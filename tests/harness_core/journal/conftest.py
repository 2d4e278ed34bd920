"""What the journal's tests share: a root, a way to store a session, and programs to run beside."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from harness_core.content import AssistantMessage, Text, UserMessage
from harness_core.facts import (
    AssistantSaid,
    Fact,
    Reason,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.protocol import Journal
from harness_core.session import Log, SessionEvent, SessionHeader, encode

BEGAN = 1_730_000_000_000
"""When sessions of the tests begin, in epoch milliseconds."""

PATIENCE = 180.0
"""Seconds after which a program that was started is killed, so that no test waits for ever."""

Put = Callable[..., list[SessionEvent]]
Run = Callable[..., subprocess.Popen[str]]
Append = Callable[[Log, Iterable[SessionEvent]], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions"


@pytest.fixture
def journal(root: Path) -> Iterator[JsonlJournal]:
    journal = JsonlJournal(root)
    yield journal
    journal.close()


@pytest.fixture(scope="session")
def turn() -> tuple[Fact, ...]:
    """A whole turn."""
    return (
        TurnStart(1, ("q",)),
        StepStart(1, 1),
        UserSaid(1, UserMessage("q", (Text("Is it \u2028 safe?"),))),
        AssistantSaid(1, 1, AssistantMessage((Text("It is \U0001f600."),))),
        StepEnd(1, 1),
        TurnEnd(1, Reason("completed")),
    )


@pytest.fixture(scope="session")
def append() -> Append:
    """Write events to a log as a session does."""

    def append(log: Log, events: Iterable[SessionEvent]) -> None:
        for event in events:
            log.write(event, encode(event))

    return append


@pytest.fixture(scope="session")
def put(turn: tuple[Fact, ...], append: Append) -> Put:
    """Store a session and close it; its events, which are a second apart."""

    def put(
        journal: Journal,
        id: str,
        facts: Iterable[Fact] = turn,
        *,
        cwd: str = "/proj",
        created: int = BEGAN,
        parent: str | None = None,
    ) -> list[SessionEvent]:
        forked_at = 1 if parent else None
        log = journal.create(SessionHeader(id, cwd, created, parent, forked_at))
        events = [
            SessionEvent(id, seq, created + 1000 * (seq + 1), fact)
            for seq, fact in enumerate(facts)
        ]
        append(log, events)
        log.close()
        return events

    return put


@pytest.fixture
def run(root: Path) -> Iterator[Run]:
    """Run a program over the same root in another process, with ``journal`` and ``say`` at hand."""
    processes: list[tuple[subprocess.Popen[str], threading.Timer]] = []
    prelude = f"""
import sys
from harness_core.facts import *
from harness_core.journal.jsonl import JsonlJournal
from harness_core.session import SessionEvent, SessionHeader, encode

root = {str(root)!r}
journal = JsonlJournal(root)

def say(*words):
    print(*words, flush=True)

def title(id, seq):
    event = SessionEvent(id, seq, {BEGAN} + seq, SessionTitle("title %d" % seq))
    return event, encode(event)
"""

    def run(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", prelude + textwrap.dedent(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        processes.append((process, watchdog))
        return process

    yield run
    for process, watchdog in processes:
        watchdog.cancel()
        process.kill()
        process.communicate(timeout=PATIENCE)
