"""Other processes: who holds a lock, and what is left when they are killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from harness_core.facts import SessionTitle
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.layout import Place
from harness_core.journal.lock import Held, Lock
from harness_core.journal.protocol import SessionLocked, SessionNotFound
from harness_core.session import Log, SessionEvent

Put = Callable[..., list[SessionEvent]]
Append = Callable[[Log, Iterable[SessionEvent]], None]
Run = Callable[..., Any]

HOLDER = """
    stored, log = journal.open("s")
    say("open")
    sys.stdin.readline()
    log.close()
    say("closed")
    sys.stdin.readline()
"""


def kill(process: Any) -> None:
    """End a process without any warning."""
    process.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    process.wait(timeout=30)


# --- locks ---------------------------------------------------------------------------------------


def test_the_second_opener_learns_who_was_first(journal: JsonlJournal, put: Put, run: Run) -> None:
    put(journal, "s")
    holder = run(HOLDER)
    assert holder.stdout.readline() == "open\n"
    for attempt in (journal.open, journal.delete):
        with pytest.raises(SessionLocked, match=f"in use by process {holder.pid}") as caught:
            attempt("s")
        assert caught.value.pid == holder.pid
    assert len(journal.read("s").events) == 6
    assert journal.list().sessions[0].id == "s"
    holder.stdin.write("close\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "closed\n"
    _, log = journal.open("s")
    log.close()


def test_the_lock_of_a_killed_process_is_free(
    root: Path, journal: JsonlJournal, put: Put, run: Run
) -> None:
    put(journal, "s")
    holder = run(HOLDER)
    assert holder.stdout.readline() == "open\n"
    kill(holder)
    assert (root / "s" / "lock").read_text() == str(holder.pid)
    _, log = journal.open("s")
    assert (root / "s" / "lock").read_text() == str(os.getpid())
    log.close()


def test_a_lock_file_alone_locks_nothing(root: Path, journal: JsonlJournal, put: Put) -> None:
    put(journal, "s")
    (root / "s" / "lock").write_text("1")
    _, log = journal.open("s")
    log.close()
    (root / "s" / "lock").unlink()
    _, log = journal.open("s")
    log.close()


@pytest.mark.parametrize("text", ["", "nobody", "-5", "9" * 400, "\0"])
def test_an_owner_that_is_no_number_is_unknown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock"
    lock = Lock.acquire(str(path))
    path.write_text(text)
    with pytest.raises(Held) as caught:
        Lock.acquire(str(path))
    assert caught.value.pid is None or text.startswith("9")
    lock.release()
    lock.release()
    Lock.acquire(str(path)).release()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a locked file's name")
def test_a_lock_on_a_file_that_was_replaced_is_not_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Lock.acquire(str(path))
    path.unlink()
    second = Lock.acquire(str(path))
    with pytest.raises(Held):
        Lock.acquire(str(path))
    first.release()
    second.release()


def test_the_children_of_a_writer_do_not_keep_its_lock(
    journal: JsonlJournal, put: Put, run: Run
) -> None:
    put(journal, "s")
    holder = run("""
        import subprocess
        stored, log = journal.open("s")
        waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        child = subprocess.Popen(waits, stdin=subprocess.PIPE)
        say("open")
        sys.stdin.readline()
    """)
    assert holder.stdout.readline() == "open\n"
    kill(holder)
    _, log = journal.open("s")
    log.close()


# --- kill -9 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("round", range(5))
def test_what_was_drained_survives_a_kill(
    journal: JsonlJournal, run: Run, append: Append, round: int
) -> None:
    """A client sees a fact only after its drain: whatever the writer had said, is there."""
    writer = run("""
        import itertools
        log = journal.create(SessionHeader("s", "/proj", 5))
        for seq in itertools.count():
            log.write(*title("s", seq))
            if seq % 3 == 2:
                log.drain()
                say(seq)
    """)
    seen = [int(writer.stdout.readline()) for _ in range(20 + 15 * round)]
    kill(writer)
    seen += [int(line) for line in writer.stdout]
    stored, log = journal.open("s")
    assert stored.damage is None
    assert len(stored.events) > seen[-1]
    assert [event.fact for event in stored.events] == [
        SessionTitle(f"title {seq}") for seq in range(len(stored.events))
    ]
    append(log, [SessionEvent("s", len(stored.events), 1, SessionTitle("next"))])
    log.close()
    assert journal.read("s").events[-1].fact == SessionTitle("next")
    assert journal.list().sessions[0].title == "next"


def test_what_was_only_written_may_be_lost_but_never_torn(journal: JsonlJournal, run: Run) -> None:
    writer = run("""
        log = journal.create(SessionHeader("s", "/proj", 5))
        log.write(*title("s", 0))
        say("written")
        sys.stdin.readline()
    """)
    assert writer.stdout.readline() == "written\n"
    kill(writer)
    with pytest.raises(SessionNotFound):
        journal.read("s")


def test_a_kill_between_log_and_index_heals_with_the_next_list(
    journal: JsonlJournal, put: Put, run: Run
) -> None:
    put(journal, "t")
    assert [one.id for one in journal.list().sessions] == ["t"]
    writer = run("""
        import anyio
        log = journal.create(SessionHeader("s", "/proj", 5))
        log.write(*title("s", 0))
        anyio.run(log.flush)
        stored, other = journal.open("t")
        other.write(*title("t", 6))
        other.drain()
        say("done")
        sys.stdin.readline()
    """)
    assert writer.stdout.readline() == "done\n"
    kill(writer)
    assert {one.id: one.title for one in journal.list().sessions} == {
        "s": "title 0",
        "t": "title 6",
    }


# --- delete --------------------------------------------------------------------------------------


def test_what_a_killed_delete_has_left_goes_with_the_next(
    root: Path, journal: JsonlJournal, put: Put
) -> None:
    put(journal, "s")
    put(journal, "t")
    (root / "s").rename(root / ".trash-0123")
    assert [one.id for one in journal.list().sessions] == ["t"]
    assert not journal.delete("s")
    assert journal.delete("t")
    assert [path.name for path in root.iterdir() if not path.name.startswith(".index")] == []


def test_deleting_at_the_same_time_succeeds_once(
    root: Path, journal: JsonlJournal, put: Put, run: Run
) -> None:
    for number in range(40):
        put(journal, f"s{number}")
    program = """
        from harness_core.journal.protocol import SessionLocked
        say("ready")
        sys.stdin.readline()
        count = 0
        for number in range(40):
            try:
                count += journal.delete("s%d" % number)
            except SessionLocked:
                pass  # the other one is just deleting it
        say(count)
    """
    others = [run(program) for _ in range(2)]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    counts = [int(other.stdout.readline()) for other in others]
    assert sum(counts) == 40
    assert list(root.iterdir()) == []


def test_a_directory_without_a_log_is_deleted_too(root: Path, journal: JsonlJournal) -> None:
    place = Place(str(root / "s"))
    Path(place.outputs).mkdir(parents=True)
    (Path(place.outputs) / "half.txt").write_text("half")
    assert journal.delete("s")
    assert not (root / "s").exists()
