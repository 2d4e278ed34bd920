"""The list's index: a cache that is right whatever happens to it, and quick with thousands."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.facts import Fact, SeedEnd, SessionTitle
from harness_core.history import repair
from harness_core.journal.entry import Entry
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.memory import MemoryJournal
from harness_core.journal.protocol import Summary
from harness_core.session import Log, SessionEvent, SessionHeader

Put = Callable[..., list[SessionEvent]]
Append = Callable[[Log, Iterable[SessionEvent]], None]
Run = Callable[..., Any]
Events = Callable[[Iterable[Fact]], list[SessionEvent]]

HEADER = SessionHeader("s", "/proj", 5)


@pytest.fixture
def database(root: Path) -> Path:
    return root / ".index.sqlite3"


def title(seq: int, text: str, id: str = "s") -> SessionEvent:
    return SessionEvent(id, seq, 1000 * (seq + 1), SessionTitle(text))


def fresh(root: Path) -> tuple[Summary, ...]:
    """The list as another process sees it."""
    journal = JsonlJournal(root)
    try:
        return journal.list().sessions
    finally:
        journal.close()


# --- a cache -------------------------------------------------------------------------------------


def test_listing_an_empty_root_makes_nothing(root: Path, journal: JsonlJournal) -> None:
    assert journal.list().sessions == ()
    assert not root.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database, but long enough to look at" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(path.read_bytes()[:100] + os.urandom(8000)),
    ],
    ids=["missing", "empty", "garbage", "cut", "overwritten"],
)
def test_a_damaged_index_is_made_again(
    root: Path, database: Path, put: Put, damage: Callable[[Path], object]
) -> None:
    first = JsonlJournal(root)
    for number in range(3):
        put(first, f"s{number}", [SessionTitle(f"title {number}")])
    expected = first.list().sessions
    first.close()
    damage(database)
    assert fresh(root) == expected
    assert fresh(root) == expected


@pytest.mark.parametrize(
    "statements",
    [
        ["PRAGMA user_version = 99"],
        ["PRAGMA user_version = 0"],
        ["DROP TABLE sessions", "CREATE TABLE sessions (id TEXT)", "PRAGMA user_version = 0"],
        ["DROP TABLE sessions"],
        ["ALTER TABLE sessions RENAME COLUMN shown TO hidden"],
        ["UPDATE sessions SET stamp = ''"],
        ["UPDATE sessions SET stamp = '1 2 3', title = 'old'"],
        ["DELETE FROM sessions"],
        ["INSERT INTO sessions SELECT 'gone', cwd, created, parent, title, updated, active,"
         " scanned, stamp, shown, words FROM sessions LIMIT 1"],
    ],
)  # fmt: skip
def test_an_index_that_says_something_else_is_put_right(
    root: Path, database: Path, put: Put, statements: list[str]
) -> None:
    first = JsonlJournal(root)
    for number in range(3):
        put(first, f"s{number}", [SessionTitle(f"title {number}")])
    expected = first.list().sessions
    first.close()
    with closing(sqlite3.connect(database)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    assert fresh(root) == expected
    assert fresh(root) == expected


def test_it_is_damaged_while_it_is_used(
    root: Path, database: Path, journal: JsonlJournal, put: Put
) -> None:
    for number in range(300):
        put(journal, f"s{number}")
    assert len(journal.list(limit=500).sessions) == 300
    with open(database, "r+b") as file:
        file.write(os.urandom(200_000))
    put(journal, "new")
    assert len(journal.list(limit=500).sessions) == 301


def test_where_no_database_can_be_the_list_is_still_right(
    database: Path, journal: JsonlJournal, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    put(journal, "s")
    database.mkdir()
    for number in range(2):
        assert len(journal.list().sessions) == number + 1
        put(journal, f"t{number}")
    assert caplog.text.count("sessions are listed without it") == 1


# --- keeping up ----------------------------------------------------------------------------------


def test_what_other_processes_do_shows_up(root: Path, journal: JsonlJournal, put: Put) -> None:
    put(journal, "s", [SessionTitle("old")])
    assert [one.title for one in journal.list().sessions] == ["old"]
    other = JsonlJournal(root)
    put(other, "t", [SessionTitle("new")])
    assert [one.id for one in journal.list().sessions] == ["s", "t"]
    _, log = other.open("s")
    log.write(title(1, "newer"), b'{"seq":1,"time":1,"type":"session/title","data":{"title":"n"}}')
    log.drain()
    assert sorted(str(one.title) for one in journal.list().sessions) == ["n", "new"]
    log.close()
    other.delete("t")
    assert [one.id for one in journal.list().sessions] == ["s"]
    other.close()


def test_a_log_that_was_rewritten_is_read_again(
    root: Path, journal: JsonlJournal, put: Put
) -> None:
    put(journal, "s", [SessionTitle("first"), SessionTitle("second")])
    put(journal, "longer", [SessionTitle("other"), SessionTitle("third"), SessionTitle("fourth")])
    journal.list()
    text = (root / "longer" / "log.jsonl").read_text().replace('"longer"', '"s"')
    shutil.copy(root / "s" / "log.jsonl", root / "aside")
    (root / "aside").write_text(text)
    (root / "aside").replace(root / "s" / "log.jsonl")
    assert {one.title for one in journal.list().sessions} == {"fourth"}


def test_a_log_that_was_cut_is_read_again(root: Path, journal: JsonlJournal, put: Put) -> None:
    put(journal, "s", [SessionTitle("first"), SessionTitle("second")])
    assert journal.list().sessions[0].title == "second"
    path = root / "s" / "log.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert journal.list().sessions[0].title == "first"


def test_a_live_session_is_listed_as_far_as_it_was_drained(
    journal: JsonlJournal, append: Append
) -> None:
    log = journal.create(HEADER)
    append(log, [title(0, "a")])
    assert journal.list().sessions == ()
    for seq in range(1, 5):
        log.drain()
        assert journal.list().sessions[0].title == ("a" if seq == 1 else f"title {seq - 1}")
        append(log, [title(seq, f"title {seq}")])
    log.close()


@pytest.mark.anyio
async def test_flushed_sessions_are_in_the_index_without_a_list(
    database: Path, journal: JsonlJournal, append: Append
) -> None:
    log = journal.create(HEADER)
    append(log, [title(0, "a"), title(1, "b")])
    with anyio.fail_after(30):
        await log.flush()
    log.close()
    journal.close()
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT id, title, shown FROM sessions").fetchall() == [("s", "b", 2000)]


@pytest.mark.anyio
async def test_what_a_flush_notes_is_what_the_log_says(
    root: Path, journal: JsonlJournal, append: Append
) -> None:
    log = journal.create(HEADER)
    with anyio.fail_after(30):
        for seq in range(5):
            append(log, [title(seq, f"title {seq}")])
            await log.flush()
            append(log, [])
        append(log, [SessionEvent("s", 5, 99_000, SeedEnd("resume"))])
        await log.flush()
        before = journal.list().sessions
        log.close()
        stored, log = journal.open("s")
        append(log, [title(6, "after")])
        await log.flush()
    log.close()
    assert before == (Summary("s", "/proj", 5, 5000, "title 4"),)
    assert journal.list().sessions == (Summary("s", "/proj", 5, 7000, "after"),)
    assert len(stored.events) == 6


def test_a_damaged_log_is_listed(root: Path, journal: JsonlJournal, put: Put) -> None:
    put(journal, "s", [SessionTitle("a"), SessionTitle("b"), SessionTitle("c")])
    path = root / "s" / "log.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"seq":1,"time":\n', *lines[3:]]))
    assert journal.list().sessions[0].title == "c"
    assert journal.read("s").damage is not None


def test_a_log_that_a_person_has_reformatted_is_listed(
    root: Path, journal: JsonlJournal, put: Put
) -> None:
    put(journal, "s", [SessionTitle("a"), SessionTitle("b")], created=1000)
    path = root / "s" / "log.jsonl"
    path.write_text(path.read_text().replace(",", ", ").replace(":", ": "))
    assert len(journal.read("s").events) == 2
    assert journal.list().sessions == (Summary("s", "/proj", 1000, 3000, "b"),)


def test_a_title_in_what_a_tool_printed_is_not_the_title(
    journal: JsonlJournal, put: Put, turn: tuple[Fact, ...]
) -> None:
    put(journal, "s", [SessionTitle('","type":"session/title","data":{"title":"forged"}}'), *turn])
    assert journal.list().sessions[0].title == (
        '","type":"session/title","data":{"title":"forged"}}'
    )


# --- what counts as activity ---------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_the_list_says_the_same_of_a_log_however_it_is_read(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    logs: SearchStrategy[list[Fact]],
    events: Events,
    append: Append,
) -> None:
    """Event by event, in one scan, in pieces, and in memory."""
    numbered = events(data.draw(logs))
    memory = MemoryJournal()
    entry = Entry.of(HEADER)
    with closing(JsonlJournal(tmp_path_factory.mktemp("same"))) as journal:
        with closing(journal.create(HEADER)) as log, closing(memory.create(HEADER)) as other:
            for event in numbered:
                entry.feed(event)
                append(log, [event])
                append(other, [event])
                if data.draw(st.booleans()):
                    log.drain()
                    journal.list()
        expected = [entry.summary] if numbered else []
        assert list(journal.list().sessions) == expected
        assert list(memory.list().sessions) == expected


@given(data=st.data())
def test_repair_is_no_activity(
    data: st.DataObject, logs: SearchStrategy[list[Fact]], events: Events
) -> None:
    facts = data.draw(logs)
    cut, whole = Entry.of(HEADER), Entry.of(HEADER)
    numbered = events(facts)
    repaired = events([*facts, *repair(numbered), SeedEnd("resume")])
    for event in numbered:
        cut.feed(event)
    for event in repaired:
        whole.feed(event)
    assert whole.updated is not None
    assert whole.updated <= (cut.updated or HEADER.created)
    assert whole.title == cut.title


# --- several at once -----------------------------------------------------------------------------


def test_processes_list_write_and_delete_at_the_same_time(
    root: Path, journal: JsonlJournal, run: Run
) -> None:
    program = """
        import anyio

        async def main(name):
            for number in range(30):
                id = "%s-%d" % (name, number)
                log = journal.create(SessionHeader(id, "/proj", 5))
                log.write(*title(id, 0))
                await log.flush()
                log.close()
                journal.list()
                if number % 3 == 0:
                    journal.delete(id)
            journal.close()
            say("done")

        anyio.run(main, sys.stdin.readline().strip())
    """
    others = [run(program) for _ in range(3)]
    for name, other in zip("abc", others, strict=True):
        other.stdin.write(name + "\n")
        other.stdin.flush()
    for other in others:
        assert other.stdout.readline() == "done\n"
    expected = {f"{name}-{n}" for name in "abc" for n in range(30) if n % 3}
    assert {one.id for one in journal.list(limit=500).sessions} == expected


def test_threads_may_share_a_journal(journal: JsonlJournal, put: Put) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(15):
                put(journal, f"{name}{number}")
                assert any(one.id == f"{name}{number}" for one in journal.list(limit=99).sessions)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert len(journal.list(limit=99).sessions) == 45


def test_another_process_that_holds_the_database_does_not_stop_the_list(
    root: Path, database: Path, journal: JsonlJournal, put: Put, run: Run
) -> None:
    put(journal, "s")
    journal.list()
    holder = run("""
        import sqlite3
        db = sqlite3.connect(root + "/.index.sqlite3", isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        say("held")
        sys.stdin.readline()
    """)
    assert holder.stdout.readline() == "held\n"
    put(journal, "t")
    assert [one.id for one in journal.list().sessions] == ["s", "t"]


# --- thousands -----------------------------------------------------------------------------------


def test_three_thousand_sessions_are_paged_completely(
    root: Path, journal: JsonlJournal, put: Put
) -> None:
    for number in range(3000):
        facts = [SessionTitle(f"Title {number}")]
        put(journal, f"s{number:04}", facts, cwd=f"/proj/{number % 3}", created=10 * number)
    seen: list[str] = []
    cursor = None
    while True:
        page = journal.list(cursor=cursor, limit=100)
        seen += [one.id for one in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [f"s{number:04}" for number in reversed(range(3000))]
    assert [one.id for one in journal.list(matching="title 1234").sessions] == ["s1234"]
    assert len(journal.list(cwd="/proj/1", limit=5000).sessions) == 1000
    expected = journal.list(limit=5000).sessions
    shutil.rmtree(root / "s0007")
    (root / ".index.sqlite3").unlink()
    assert fresh(root) == tuple(one for one in expected if one.id != "s0007")[:50]


def test_nothing_of_sqlite_is_loaded_for_streaming(root: Path) -> None:
    program = f"""
import sys
from harness_core.facts import SessionTitle
from harness_core.journal.jsonl import JsonlJournal
from harness_core.session import SessionEvent, SessionHeader, encode
journal = JsonlJournal({str(root)!r})
log = journal.create(SessionHeader("s", "/proj", 5))
event = SessionEvent("s", 0, 1, SessionTitle("a"))
log.write(event, encode(event))
log.drain()
log.close()
journal.read("s")
assert "sqlite3" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
