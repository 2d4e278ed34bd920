"""What every journal promises, whatever it is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.facts import Fact, SeedEnd, SessionTitle
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.memory import MemoryJournal
from harness_core.journal.protocol import (
    Journal,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    Summary,
)
from harness_core.session import Log, SessionEvent, SessionHeader

Put = Callable[..., list[SessionEvent]]
Append = Callable[[Log, Iterable[SessionEvent]], None]

HEADER = SessionHeader("s", "/proj", 5, "p", 3)


@pytest.fixture(params=["jsonl", "memory"])
def journal(request: pytest.FixtureRequest, root: Path) -> Iterator[Journal]:
    journal = JsonlJournal(root) if request.param == "jsonl" else MemoryJournal()
    yield journal
    journal.close()


def titles(*names: str) -> list[SessionEvent]:
    return [SessionEvent("s", seq, seq + 1, SessionTitle(name)) for seq, name in enumerate(names)]


# --- create, open, read --------------------------------------------------------------------------


def test_what_was_written_is_read_back(journal: Journal, put: Put) -> None:
    events = put(journal, "s", parent="p")
    stored = journal.read("s")
    assert stored.header == SessionHeader("s", "/proj", 1_730_000_000_000, "p", 1)
    assert list(stored.events) == events
    assert (stored.torn, stored.damage) == (0, None)
    assert journal.header("s") == stored.header


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_every_log_survives_being_stored_and_continued(
    data: st.DataObject, journal: Journal, logs: SearchStrategy[list[Fact]], append: Append
) -> None:
    facts = data.draw(logs)
    events = [SessionEvent("s", seq, seq, fact) for seq, fact in enumerate(facts)]
    half = data.draw(st.integers(0, len(events)))
    log = journal.create(HEADER)
    append(log, events[:half])
    log.close()
    if half:
        stored, log = journal.open("s")
        assert (stored.header, list(stored.events)) == (HEADER, events[:half])
        append(log, events[half:])
        log.close()
        assert list(journal.read("s").events) == events
    assert journal.delete("s") == bool(half)


def test_a_session_without_events_was_never_there(journal: Journal) -> None:
    log = journal.create(HEADER)
    log.drain()
    log.close()
    for attempt in (journal.read, journal.open, journal.header):
        with pytest.raises(SessionNotFound, match="no session 's'"):
            attempt("s")
    assert journal.list().sessions == ()
    assert not journal.delete("s")
    journal.create(HEADER).close()


def test_an_id_is_taken_once(journal: Journal, put: Put) -> None:
    live = journal.create(HEADER)
    with pytest.raises(SessionExists, match="session s already"):
        journal.create(HEADER)
    live.close()
    put(journal, "s")
    with pytest.raises(SessionExists):
        journal.create(HEADER)


def test_an_unknown_session_is_not_found(journal: Journal) -> None:
    for attempt in (journal.read, journal.open, journal.header):
        with pytest.raises(SessionNotFound) as caught:
            attempt("nobody")
        assert caught.value.session == "nobody"
    assert not journal.delete("nobody")
    assert journal.path("nobody") is None


BAD_IDS = [
    "",
    ".",
    "..",
    "../x",
    "a/../../x",
    "/etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "..\\x",
    "C:x",
    "C:\\x",
    "x\0y",
    "x\n",
    ".hidden",
    ".index.sqlite3",
    ".trash-1",
    "x" * 129,
    "x" * 5000,
    "x ",
    "x.",
    "-x",
    "nul",
    "CON",
    "com1.txt",
    "é",
    "\ud800",
    "٣",
]


@pytest.mark.parametrize("id", BAD_IDS)
def test_no_id_leaves_the_root(journal: Journal, put: Put, id: str) -> None:
    put(journal, "s")
    for attempt in (journal.read, journal.open):
        with pytest.raises(SessionNotFound) as caught:
            attempt(id)
        assert len(str(caught.value)) < 1000
    assert not journal.delete(id)
    assert journal.path(id) is None
    with pytest.raises(ValueError, match="cannot be a session id"):
        journal.create(SessionHeader(id, "/proj", 1))
    assert [one.id for one in journal.list().sessions] == ["s"]


def test_a_header_that_cannot_be_stored_is_refused_at_once(journal: Journal) -> None:
    with pytest.raises(ValueError, match="cannot begin in"):
        journal.create(SessionHeader("s", "/proj/\udcff", 1))
    journal.create(HEADER).close()


# --- one writer ----------------------------------------------------------------------------------


def test_a_live_session_cannot_be_opened_again_or_deleted(
    journal: Journal, put: Put, append: Append
) -> None:
    put(journal, "s")
    _, log = journal.open("s")
    for attempt in (journal.open, journal.delete):
        with pytest.raises(SessionLocked, match="in use by this process: close it") as caught:
            attempt("s")
        assert caught.value.pid == os.getpid()
    assert len(journal.read("s").events) == 6
    log.close()
    log.close()
    assert journal.delete("s")


def test_a_new_session_is_live_too(journal: Journal, append: Append) -> None:
    log = journal.create(HEADER)
    with pytest.raises(SessionLocked):
        journal.delete("s")
    append(log, titles("a"))
    log.drain()
    for attempt in (journal.open, journal.delete):
        with pytest.raises(SessionLocked):
            attempt("s")
    log.close()


def test_a_failed_open_leaves_the_session_free(journal: Journal, put: Put) -> None:
    put(journal, "s")
    _, log = journal.open("s")
    with pytest.raises(SessionLocked):
        journal.open("s")
    log.close()
    _, log = journal.open("s")
    log.close()


# --- delete --------------------------------------------------------------------------------------


def test_delete_removes_everything_and_may_be_repeated(journal: Journal, put: Put) -> None:
    put(journal, "s")
    put(journal, "t")
    assert journal.delete("s")
    assert not journal.delete("s")
    with pytest.raises(SessionNotFound):
        journal.read("s")
    assert [one.id for one in journal.list().sessions] == ["t"]
    put(journal, "s")
    assert len(journal.read("s").events) == 6


def test_outputs_are_kept_beside_the_log_and_go_with_it(journal: Journal, append: Append) -> None:
    log = journal.create(HEADER)
    append(log, titles("a"))
    path = Path(log.spill("call_1.txt", b"a" * 100_000))
    assert path.is_absolute()
    assert path.read_bytes() == b"a" * 100_000
    other = Path(log.spill("call_1.txt", b"other"))
    assert (path.name, other.name) == ("call_1.txt", "call_1-2.txt")
    assert other.read_bytes() == b"other"
    assert path.stat().st_size == 100_000
    log.close()
    assert journal.delete("s")
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["../../up", "/absolute", "", ".", "..", "a/b\\c", "nul", "\0", "x" * 300, "ü \ud800"]
)
def test_no_name_of_an_output_leaves_its_directory(
    journal: Journal, append: Append, name: str
) -> None:
    log = journal.create(HEADER)
    append(log, titles("a"))
    log.drain()
    paths = [Path(log.spill(name, data)) for data in (b"1", b"2")]
    assert {path.parent.name for path in paths} == {"outputs"}
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    assert {str(path.parent.resolve()) for path in paths} == {str(path.parent) for path in paths}
    log.close()


# --- flush ---------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_was_flushed_is_stored(journal: Journal, append: Append) -> None:
    log = journal.create(HEADER)
    append(log, titles("a", "b"))
    with anyio.fail_after(30):
        await log.flush()
    assert len(journal.read("s").events) == 2
    log.close()


@pytest.mark.anyio
async def test_flushing_nothing_stores_nothing(journal: Journal) -> None:
    log = journal.create(HEADER)
    with anyio.fail_after(30):
        await log.flush()
    log.close()
    assert not journal.delete("s")


# --- list ----------------------------------------------------------------------------------------


def ids(journal: Journal, **query: object) -> list[str]:
    return [one.id for one in journal.list(**query).sessions]  # type: ignore[arg-type]


def test_the_list_says_what_is_known(journal: Journal, put: Put, turn: tuple[Fact, ...]) -> None:
    facts = (*turn, SessionTitle("first"), SessionTitle("A \u2028 title"))
    put(journal, "s", facts, cwd="/somewhere", created=1_000_000, parent="p")
    summary = Summary("s", "/somewhere", 1_000_000, 1_008_000, "A \u2028 title", "p")
    assert journal.list().sessions == (summary,)


def test_last_updated_comes_first(journal: Journal, put: Put) -> None:
    for id, created in (("old", 1000), ("new", 3000), ("between", 2000), ("b", 500), ("a", 500)):
        put(journal, id, created=created)
    assert ids(journal) == ["new", "between", "old", "a", "b"]


def test_a_cleared_title_is_none(journal: Journal, put: Put) -> None:
    put(journal, "s", [SessionTitle("a"), SessionTitle(None)])
    assert journal.list().sessions[0].title is None


def test_of_a_directory(journal: Journal, put: Put) -> None:
    for id, cwd in (("a", "/x"), ("b", "/y"), ("c", "/x"), ("d", "/x/")):
        put(journal, id, cwd=cwd)
    assert ids(journal, cwd="/x") == ["a", "c"]
    assert ids(journal, cwd="/none") == []
    assert journal.list(cwd="/none").cursor is None


def test_with_a_text(journal: Journal, put: Put) -> None:
    put(journal, "s-1", [SessionTitle("Größe der STRASSE")], cwd="/home/x/proj_a")
    put(journal, "s-2", [SessionTitle("100% done")], cwd="/home/x/projXa")
    assert ids(journal, matching="grÖsse") == ["s-1"]
    assert ids(journal, matching="straße") == ["s-1"]
    assert ids(journal, matching="%") == ["s-2"]
    assert ids(journal, matching="proj_a") == ["s-1"]
    assert ids(journal, matching="S-2") == ["s-2"]
    assert ids(journal, matching="") == ["s-1", "s-2"]
    assert ids(journal, matching="nothing") == []
    assert ids(journal, matching="done", cwd="/home/x/proj_a") == []


def test_pages_follow_each_other(journal: Journal, put: Put) -> None:
    for number in range(7):
        put(journal, f"s{number}", created=1000 - number // 2)
    seen: list[str] = []
    cursor = None
    for _ in range(4):
        page = journal.list(cursor=cursor, limit=2)
        seen += [one.id for one in page.sessions]
        cursor = page.cursor
    assert seen == [f"s{number}" for number in range(7)]
    assert cursor is None


def test_a_full_last_page_has_no_cursor(journal: Journal, put: Put) -> None:
    for number in range(4):
        put(journal, f"s{number}")
    assert journal.list(limit=4).cursor is None
    page = journal.list(limit=2)
    assert page.cursor is not None
    assert journal.list(cursor=page.cursor, limit=2).cursor is None


def test_a_cursor_stays_right_while_sessions_come_and_go(journal: Journal, put: Put) -> None:
    for number in range(6):
        put(journal, f"s{number}", created=10_000 - number)
    page = journal.list(limit=2)
    assert [one.id for one in page.sessions] == ["s0", "s1"]
    put(journal, "newest", created=20_000)
    journal.delete("s1")
    journal.delete("s3")
    page = journal.list(cursor=page.cursor, limit=2)
    assert [one.id for one in page.sessions] == ["s2", "s4"]
    page = journal.list(cursor=page.cursor, limit=2)
    assert [one.id for one in page.sessions] == ["s5"]
    assert page.cursor is None


def test_a_session_that_goes_on_moves_up_and_is_not_listed_twice(
    journal: Journal, put: Put, append: Append
) -> None:
    for number in range(4):
        put(journal, f"s{number}", [SessionTitle("t")], created=10_000 - number)
    page = journal.list(limit=2)
    _, log = journal.open("s3")
    append(log, [SessionEvent("s3", 1, 90_000, SessionTitle("moved"))])
    log.close()
    rest = journal.list(cursor=page.cursor, limit=2)
    assert [one.id for one in rest.sessions] == ["s2"]
    assert ids(journal)[0] == "s3"


@given(cursor=st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_no_text_is_a_cursor(journal: Journal, cursor: str) -> None:
    with pytest.raises(ValueError, match="not a cursor"):
        journal.list(cursor=cursor)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "AAAA",
        "WzEsInMiXQ==",
        " WzEsInMiXQ",
        "WzEsInMiXQ\n",
        "bnVsbA",
        "WzEuNSwicyJd",
        "WzEsIi4uL3giXQ",
        "Wy0xLCJzIl0",
        "W3RydWUsInMiXQ",
        "WzEsInMiLDJd",
        "WzE4NDQ2NzQ0MDczNzA5NTUxNjE1LCJzIl0",
        "eyJhIjoxLCJiIjoyfQ",
    ],
)
def test_what_only_looks_like_a_cursor_is_refused(journal: Journal, cursor: str) -> None:
    with pytest.raises(ValueError, match="not a cursor"):
        journal.list(cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_something(journal: Journal, limit: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        journal.list(limit=limit)


def test_resuming_is_no_activity(journal: Journal, put: Put, append: Append) -> None:
    put(journal, "s", [SessionTitle("t")], created=1000)
    _, log = journal.open("s")
    append(log, [SessionEvent("s", 1, 99_000, SeedEnd("resume"))])
    log.close()
    assert journal.list().sessions[0].updated == 2000


def test_a_fork_is_as_new_as_itself(journal: Journal, append: Append) -> None:
    log = journal.create(SessionHeader("s", "/proj", 5000, "p", 1))
    events = [SessionTitle("inherited"), SeedEnd("fork")]
    append(log, [SessionEvent("s", seq, 7 + seq, fact) for seq, fact in enumerate(events)])
    log.close()
    assert journal.list().sessions == (Summary("s", "/proj", 5000, 5000, "inherited", "p"),)
