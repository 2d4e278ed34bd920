"""Reading back what a crash, a full disk or a person has done to a log."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.facts import Fact, SessionTitle, UnknownFact
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.protocol import CorruptLog, FormatTooNew, SessionNotFound, Stored
from harness_core.journal.recovery import decode_header, encode_header, recover
from harness_core.session import FORMAT, Log, SessionEvent, SessionHeader, encode

Put = Callable[..., list[SessionEvent]]
Append = Callable[[Log, Iterable[SessionEvent]], None]

HEADER = SessionHeader("s", "/proj", 5)


def log_of(events: Iterable[SessionEvent]) -> bytes:
    """The bytes of a whole log."""
    lines = [encode_header(HEADER), *(encode(event) for event in events)]
    return b"".join(line + b"\n" for line in lines)


def some_events(count: int = 4) -> list[SessionEvent]:
    return [SessionEvent("s", seq, seq, SessionTitle(f"{seq} \u2028 ü")) for seq in range(count)]


def place(root: Path, data: bytes) -> Path:
    """A log with these bytes."""
    path = root / "s" / "log.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


# --- a torn end ----------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_keeps_every_whole_line(root: Path, journal: JsonlJournal) -> None:
    events = some_events()
    data = log_of(events)
    path = place(root, data)
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        whole = data[:end].count(b"\n")
        if whole == 0:
            with pytest.raises(SessionNotFound):
                journal.read("s")
            continue
        stored = journal.read("s")
        assert list(stored.events) == events[: whole - 1]
        assert stored.torn == end - (data[:end].rfind(b"\n") + 1)
        assert stored.damage is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_any_log_cut_anywhere_is_a_prefix_and_goes_on(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    logs: SearchStrategy[list[Fact]],
    append: Append,
) -> None:
    events = [SessionEvent("s", seq, seq, fact) for seq, fact in enumerate(data.draw(logs))]
    whole = log_of(events)
    first = whole.index(b"\n") + 1
    path = place(tmp_path_factory.mktemp("cut"), whole[: data.draw(st.integers(first, len(whole)))])
    journal = JsonlJournal(path.parents[1])
    stored, log = journal.open("s")
    kept = len(stored.events)
    assert list(stored.events) == events[:kept]
    append(log, events[kept:])
    log.close()
    assert path.read_bytes() == whole


def test_looking_changes_nothing_and_opening_cuts_and_says_so(
    root: Path, journal: JsonlJournal, caplog: pytest.LogCaptureFixture
) -> None:
    data = log_of(some_events(2))
    path = place(root, data + b'{"seq":2,"ti')
    with caplog.at_level(logging.DEBUG):
        assert journal.read("s").torn == 12
        assert journal.list().sessions[0].title == "1 \u2028 ü"
    assert path.read_bytes() == data + b'{"seq":2,"ti'
    assert sorted(p.name for p in path.parent.iterdir()) == ["log.jsonl"]
    assert caplog.text == ""
    stored, log = journal.open("s")
    log.close()
    assert (len(stored.events), stored.torn) == (2, 12)
    assert path.read_bytes() == data
    assert f"{path}: dropped 12 bytes" in caplog.text


def test_zeros_that_a_power_cut_leaves_at_the_end_are_a_torn_line(
    root: Path, journal: JsonlJournal
) -> None:
    place(root, log_of(some_events(2)) + bytes(4096))
    stored = journal.read("s")
    assert (len(stored.events), stored.torn) == (2, 4096)


@pytest.mark.parametrize("data", [b"", b"{", b'{"format":1,"id":"s"'])
def test_a_log_that_ends_before_its_header_does_is_no_session(
    root: Path, journal: JsonlJournal, data: bytes
) -> None:
    place(root, data)
    for attempt in (journal.read, journal.open):
        with pytest.raises(SessionNotFound):
            attempt("s")
    assert journal.list().sessions == ()
    assert journal.delete("s")


def test_a_header_alone_is_an_empty_session(root: Path, journal: JsonlJournal) -> None:
    place(root, log_of([]))
    assert journal.read("s").events == ()
    assert journal.list().sessions == ()
    stored, log = journal.open("s")
    assert stored.header == HEADER
    log.close()


# --- damage in the middle ------------------------------------------------------------------------


def damaged(events: list[SessionEvent], line: int, text: bytes) -> bytes:
    """A log of which one line (1-based) says something else."""
    lines = log_of(events).splitlines(keepends=True)
    lines[line - 1] = text + b"\n"
    return b"".join(lines)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "line 3: "),
        (b"\0\0\0", "line 3: "),
        (b"not json", "line 3: "),
        (b"[]", "not an event"),
        (b'{"seq":1,"time":1,"type":"session/title"}', "not an event"),
        (b'{"seq":2,"time":1,"type":"session/title","data":{"title":"x"}}', "seq 2 stands where 1"),
        (b'{"seq":0,"time":1,"type":"session/title","data":{"title":"x"}}', "seq 0 stands where 1"),
        (b'{"seq":1,"time":1,"type":"session/title","data":{"title":5}}', "session/title"),
        (
            b'{"seq":1,"time":1,"type":"step/start","data":{"turn":1,"step":1}}',
            "turn 1 is not open",
        ),
        (b'{"seq":1,"time":1,"type":"session/title","data":{"title":"\xff"}}', "line 3: "),
    ],
)
def test_a_bad_line_is_named_and_nothing_behind_it_is_read(
    root: Path, journal: JsonlJournal, text: bytes, why: str
) -> None:
    events = some_events()
    data = damaged(events, 3, text)
    path = place(root, data)
    stored = journal.read("s")
    assert list(stored.events) == events[:1]
    assert stored.damage is not None
    with pytest.raises(CorruptLog, match=why) as caught:
        journal.open("s")
    for damage in (stored.damage, caught.value):
        assert (damage.session, damage.path, damage.line) == ("s", str(path), 3)
        assert f"{path}, line 3" in str(damage)
        assert "cut the file before that line" in str(damage)
    assert path.read_bytes() == data


def test_a_whole_last_line_that_is_bad_is_damage_too(root: Path, journal: JsonlJournal) -> None:
    place(root, damaged(some_events(), 5, b'{"seq":3,'))
    with pytest.raises(CorruptLog) as caught:
        journal.open("s")
    assert caught.value.line == 5


def test_a_damaged_log_stays_free_and_can_be_mended(root: Path, journal: JsonlJournal) -> None:
    path = place(root, damaged(some_events(), 4, b"broken"))
    for _ in range(2):
        with pytest.raises(CorruptLog):
            journal.open("s")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    stored, log = journal.open("s")
    log.close()
    assert len(stored.events) == 2


def test_a_missing_line_is_damage(root: Path, journal: JsonlJournal) -> None:
    events = some_events()
    place(root, log_of([*events[:1], *events[2:]]))
    damage = journal.read("s").damage
    assert damage is not None
    assert damage.line == 3


def read_back(data: bytes) -> Stored | UnknownFact:
    """What recovery says to these bytes."""
    try:
        return recover("s", "path", data.splitlines(keepends=True)).stored
    except UnknownFact as failure:
        return failure


@settings(max_examples=300)
@given(data=st.data())
def test_no_flipped_byte_makes_more_or_other_events_than_it_touches(data: st.DataObject) -> None:
    events = some_events()
    whole = bytearray(log_of(events))
    first = whole.index(b"\n") + 1
    where = data.draw(st.integers(first, len(whole) - 1))
    whole[where] = data.draw(st.integers(0, 255))
    line = bytes(whole[first:where]).count(b"\n")
    stored = read_back(bytes(whole))
    if isinstance(stored, UnknownFact):
        assert f"path, line {line + 2}" in str(stored)
        return
    kept = len(stored.events)
    assert list(stored.events[:line]) == events[:line]
    assert list(stored.events[line + 1 :]) == events[line + 1 : kept]
    assert kept == len(events) or stored.damage or stored.torn
    if stored.damage:
        assert stored.damage.line in (line + 2, line + 3)


@given(st.binary(max_size=200))
def test_no_bytes_break_recovery(data: bytes) -> None:
    lines = log_of(some_events(1)).splitlines(keepends=True) + data.splitlines(keepends=True)
    stored = recover("s", "path", lines).stored
    assert len(stored.events) == 1
    assert bool(stored.damage or stored.torn) == bool(data)


def test_garbage_of_every_kind_is_survived(root: Path, journal: JsonlJournal) -> None:
    dice = random.Random(7)
    path = place(root, b"")
    whole = log_of(some_events(20))
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 5)):
            where = dice.randrange(len(data))
            data[where : where + dice.randint(0, 30)] = dice.randbytes(dice.randint(0, 30))
        path.write_bytes(data)
        journal.list()
        try:
            stored = journal.read("s")
        except (SessionNotFound, CorruptLog, UnknownFact, FormatTooNew):
            continue
        assert [event.seq for event in stored.events] == list(range(len(stored.events)))


# --- facts that nobody here knows ----------------------------------------------------------------


def test_an_unknown_fact_keeps_the_log_closed_and_names_who_wrote_it(
    root: Path, journal: JsonlJournal
) -> None:
    unknown = b'{"seq":1,"time":1,"type":"mars/landed","data":{},"writer":"acp_mars"}'
    path = place(root, damaged(some_events(), 3, unknown))
    for attempt in (journal.read, journal.open):
        with pytest.raises(UnknownFact, match=r"'mars/landed' \(written by acp_mars\)") as caught:
            attempt("s")
        assert f"{path}, line 3" in str(caught.value)
    assert journal.list().sessions[0].title == "3 \u2028 ü"


def test_an_ignorable_unknown_fact_is_kept(
    root: Path, journal: JsonlJournal, append: Append
) -> None:
    unknown = b'{"seq":1,"time":1,"type":"mars/seen","data":{"a":1},"ignorable":true,"writer":"m"}'
    path = place(root, damaged(some_events(2), 3, unknown))
    stored, log = journal.open("s")
    append(log, [SessionEvent("s", 2, 2, SessionTitle("next"))])
    log.close()
    assert len(stored.events) == 2
    assert encode(stored.events[1]) == (
        b'{"seq":1,"time":1,"type":"mars/seen","data":{"a":1},"ignorable":true,"writer":"m"}'
    )
    assert unknown in path.read_bytes()


# --- the header ----------------------------------------------------------------------------------


@given(
    cwd=st.text(),
    created=st.integers(0, 2**62 - 1),
    fork=st.none() | st.tuples(st.text(), st.integers(0, 2**62 - 1)),
)
def test_a_header_reads_back_equal(cwd: str, created: int, fork: tuple[str, int] | None) -> None:
    parent, at = fork or (None, None)
    header = SessionHeader("s", cwd, created, parent, at)
    line = encode_header(header)
    assert b"\n" not in line
    assert decode_header(line) == header


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"format":1,"id":"s","created":5}',
        b'{"format":1,"id":"s","created":"5","cwd":"/proj"}',
        b'{"format":1,"id":"s","created":-5,"cwd":"/proj"}',
        b'{"format":1,"id":"s","created":99999999999999999999,"cwd":"/proj"}',
        b'{"format":"1","id":"s","created":5,"cwd":"/proj"}',
        b'{"format":1,"id":5,"created":5,"cwd":"/proj"}',
        b'{"format":1,"id":"s","created":5,"cwd":"/proj","parent":7}',
    ],
)
def test_a_bad_header_is_damage_in_line_one(
    root: Path, journal: JsonlJournal, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = place(root, damaged(some_events(), 1, line))
    for attempt in (journal.read, journal.open):
        with pytest.raises(CorruptLog, match=r"line 1: .*delete the session") as caught:
            attempt("s")
        assert caught.value.line == 1
    assert journal.list().sessions == ()
    assert f"{path} does not begin as the log of its session" in caplog.text
    assert journal.delete("s")


def test_fields_that_a_later_version_adds_do_not_matter(root: Path, journal: JsonlJournal) -> None:
    header = orjson.loads(encode_header(HEADER)) | {"mood": "good"}
    place(root, damaged(some_events(), 1, orjson.dumps(header)))
    assert journal.read("s").header == HEADER


def test_a_newer_format_is_refused_and_says_what_to_do(root: Path, journal: JsonlJournal) -> None:
    header = SessionHeader("s", "/proj", 5, format=FORMAT + 1)
    place(root, damaged(some_events(), 1, encode_header(header)))
    for attempt in (journal.read, journal.open):
        with pytest.raises(FormatTooNew, match=f"format {FORMAT + 1} .*update acp-harness"):
            attempt("s")
    assert journal.list().sessions[0].id == "s"


def test_a_log_under_another_sessions_name_is_not_that_session(
    root: Path, journal: JsonlJournal
) -> None:
    place(root, log_of(some_events()))
    (root / "s").rename(root / "copied")
    with pytest.raises(SessionNotFound):
        journal.read("copied")
    assert journal.list().sessions == ()


@pytest.mark.parametrize("kind", ["directory", "file", "nothing"])
def test_what_is_not_a_log_is_not_a_session(root: Path, journal: JsonlJournal, kind: str) -> None:
    root.mkdir(parents=True)
    if kind == "directory":
        (root / "s" / "log.jsonl").mkdir(parents=True)
    elif kind == "file":
        (root / "s").write_text("a file")
    else:
        (root / "s").mkdir()
    assert journal.list().sessions == ()
    if kind != "directory":
        with pytest.raises(SessionNotFound):
            journal.read("s")
