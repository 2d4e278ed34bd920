"""Measures and prints the table. Ratios compare with something timed in the same run."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent import Agent
from conformance.model_server import ModelServer, Repeat, Reply
from harness_core.bus import Bus
from harness_core.facts import SessionTitle
from harness_core.journal.jsonl import JsonlJournal
from harness_core.session import Session, SessionHeader

BASELINE = "import asyncio, anyio, pydantic, orjson, jsonrpcserver"
DELTAS = 5_000
SESSIONS = 2_000


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ok`` says whether the goal is met, ``None`` if there is none."""

    what: str
    value: str
    goal: str = ""
    ok: bool | None = None


def median(measure: Callable[[], float], times: int) -> float:
    """The median of ``times`` measurements."""
    return statistics.median(measure() for _ in range(times))


def bare_interpreter() -> float:
    """Seconds that Python needs to start, import the named libraries, and end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", BASELINE], check=True)
    return time.perf_counter() - began


def to_initialize(scratch: Path) -> float:
    """Seconds from the start of the process to the answer to ``initialize``."""
    with Agent(scratch) as agent:
        agent.call("initialize", {"protocolVersion": 1})
        return time.perf_counter() - agent.began


def to_session(scratch: Path) -> float:
    """Seconds from the start of the process to the answer to ``session/new``."""
    with Agent(scratch) as agent:
        agent.start(scratch)
        return time.perf_counter() - agent.began


def startup(scratch: Path, times: int) -> list[Row]:
    """Start-up against a bare interpreter, measured alternately."""
    bare, ready, session = [], [], []
    for _ in range(times):
        bare.append(bare_interpreter())
        ready.append(to_initialize(scratch))
        session.append(to_session(scratch))
    base, first, second = map(statistics.median, (bare, ready, session))
    return [
        Row("bare interpreter with the named libraries", f"{base * 1e3:.0f} ms"),
        Row("start → initialize answered", f"{first * 1e3:.0f} ms"),
        Row(
            "… against the bare interpreter", f"{first / base:.2f} ×", "≤ 1.6", first / base <= 1.6
        ),
        Row("start → session/new answered", f"{second * 1e3:.0f} ms"),
        Row("… against the bare interpreter", f"{second / base:.2f} ×"),
    ]


def short_turns(scratch: Path, times: int) -> list[Row]:
    """A turn of one delta, answered after it was synced to disk."""
    with Agent(scratch) as agent:
        session = agent.start(scratch)
        for _ in range(5):
            agent.prompt(session, "!say x")
        turn = median(lambda: agent.prompt(session, "!say x"), times)
    return [Row("one-delta turn, durable", f"{turn * 1e3:.2f} ms", "≤ 5", turn <= 0.005)]


def long_turn(scratch: Path, times: int) -> list[Row]:
    """Many deltas of the demo model, and the memory afterwards."""
    with Agent(scratch) as agent:
        session = agent.start(scratch)
        agent.prompt(session, "!say x")
        seconds = agent.prompt(session, f"!stream {DELTAS} word ")
        updates, memory = len(agent.lines), agent.memory()
        best = min(
            seconds, *(agent.prompt(session, f"!stream {DELTAS} word ") for _ in range(times))
        )
    rate = updates / best
    return [
        Row(
            f"{DELTAS} deltas, demo model: updates", f"{updates}", f"≥ {DELTAS}", updates >= DELTAS
        ),
        Row("… seconds", f"{best:.3f} s"),
        Row("… updates a second", f"{rate:,.0f}", "≥ 20,000", rate >= 20_000),
        Row("memory after that turn", f"{memory:.1f} MiB", "< 60", memory < 60),
    ]


def listing(scratch: Path, times: int) -> list[Row]:
    """Pages of the list of many sessions, of which the index knows."""
    journal = JsonlJournal(scratch / "sessions")
    for number in range(SESSIONS):
        header = SessionHeader(f"s{number}", f"/project/{number % 50}", number)
        session = Session(header, journal.create(header), Bus())
        session.append(SessionTitle(f"Session {number}"))
        session.close()
    with Agent(scratch) as agent:
        agent.start(scratch)
        cursor = agent.call("session/list", {})["nextCursor"]

        def page(params: dict[str, str]) -> float:
            began = time.perf_counter()
            agent.call("session/list", params)
            return time.perf_counter() - began

        first = median(lambda: page({}), times)
        near = median(lambda: page({"cwd": "/project/7"}), times)
        more = median(lambda: page({"cursor": cursor}), times)
    return [
        Row(f"session/list of {SESSIONS}, first page", f"{first * 1e3:.1f} ms"),
        Row("… of one directory", f"{near * 1e3:.1f} ms"),
        Row("… a further page", f"{more * 1e3:.1f} ms"),
    ]


def many_sessions(scratch: Path, count: int) -> list[Row]:
    """Sessions that come and go, one after the other, and the memory that stays."""
    with Agent(scratch) as agent:
        agent.prompt(agent.start(scratch), "/model")  # loads what asks for models

        def resident(sessions: int) -> float:
            for _ in range(sessions):
                opened = agent.call("session/new", {"cwd": str(scratch), "mcpServers": []})
                agent.prompt(opened["sessionId"], '!say x\n!call list {"path": "."}')
                agent.call("session/close", {"sessionId": opened["sessionId"]})
            return agent.memory()

        warm = resident(count // 10)
        grown = resident(count - count // 10) / warm - 1
    return [
        Row(f"memory after {count} sessions", f"{grown:+.1%}", "< 20 %", grown < 0.2),
    ]


@contextmanager
def model_server() -> Iterator[str]:
    """A loopback model that streams ``DELTAS`` deltas, in a thread of its own; its base URL."""
    started: list[str] = []
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with ModelServer(lambda _: Reply((Repeat("word ", DELTAS),))) as server:
            started.append(server.openai_base_url)
            ready.set()
            while not done.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield started[0]
    finally:
        done.set()
        thread.join()


def over_http(scratch: Path, times: int) -> list[Row]:
    """Many deltas over a loopback HTTP model."""
    with model_server() as url:
        env = {
            "ACP_HARNESS_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
        }
        with Agent(scratch, env) as agent:
            session = agent.start(scratch)
            seconds = agent.prompt(session, "go")
            updates, memory = len(agent.lines), agent.memory()
            seconds = min(seconds, *(agent.prompt(session, "go") for _ in range(times)))
    return [
        Row(f"{DELTAS} deltas, loopback HTTP", f"{seconds:.3f} s", "≤ 0.30", seconds <= 0.30),
        Row("… updates", f"{updates}"),
        Row("… memory after the first", f"{memory:.1f} MiB", "< 60", memory < 60),
    ]


def main() -> int:
    """Measure, print, and say by the exit status whether every goal is met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--times", type=int, default=7, help="repetitions of each measurement")
    parser.add_argument("--sessions", type=int, default=500, help="sessions that come and go")
    given = parser.parse_args()
    times = given.times
    with tempfile.TemporaryDirectory(prefix="acp-harness-bench-") as name:
        scratch = Path(name)
        rows = [
            *startup(scratch, times),
            *short_turns(scratch, times * 10),
            *long_turn(scratch, times),
            *over_http(scratch, times),
            *many_sessions(scratch, given.sessions),
            *listing(scratch, times),
        ]
    marks = {True: "met", False: "MISSED", None: ""}
    for row in rows:
        print(f"{row.what:<45} {row.value:>14}  {row.goal:<10} {marks[row.ok]}")
    return 0 if all(row.ok is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
