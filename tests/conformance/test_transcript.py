"""Transcript files: whatever travelled comes back byte for byte, and the file stays readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.frames import Direction, Frame
from conformance.transcript import (
    Event,
    Header,
    Transcript,
    TranscriptError,
    load,
    parse,
    render,
)

times = st.floats(0, 1e6, allow_nan=False).map(lambda value: round(value, 6))
directions = st.sampled_from(Direction)
json_lines = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())
any_bytes = st.binary().map(lambda raw: raw.replace(b"\n", b""))
raws = (
    json_lines
    | any_bytes
    | st.text().map(lambda text: text.replace("\n", "").encode("utf-8", "replace"))
)
frames = st.builds(Frame, directions, times, raws, st.booleans())
events = st.builds(
    Event, st.text(), times, st.none() | directions, st.none() | st.integers(-99, 255) | st.text()
)
headers = st.builds(
    Header,
    st.lists(st.text()).map(tuple),
    st.none() | st.text(),
    st.dictionaries(st.text(), st.text()),
    st.fixed_dictionaries({}, optional={"agent": st.dictionaries(st.text(), st.text())}),
)
transcripts = st.builds(Transcript, headers, st.lists(frames | events).map(tuple))


def one(raw: bytes) -> Transcript:
    return Transcript(entries=(Frame(Direction.A2C, 0.5, raw),))


@given(transcripts)
def test_a_transcript_survives_its_file(transcript: Transcript) -> None:
    assert parse(render(transcript)) == transcript


@given(raws)
@example(b"")
@example(b'{"a": "}"}\r')
@example(b' {"a": 1} ')
@example('{"a": "\u2028\u0085"}'.encode())
@example(b'"\\ud800"')
@example(b'{"a": 1, "a": NaN}')
@example(b'{"n": 123456789012345678901234567890, "x": 1.10}')
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe")
@example(b"[" * 2000)
def test_every_frame_comes_back_byte_for_byte(raw: bytes) -> None:
    assert parse(render(one(raw))).frames[0].raw == raw


@given(transcripts)
def test_every_line_of_the_file_is_a_json_object_for_any_tool(transcript: Transcript) -> None:
    text = render(transcript).decode()
    assert text.splitlines() == text.split("\n")[:-1]
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())


def test_a_sound_frame_stands_in_the_file_as_it_was_sent() -> None:
    raw = b'{"id":1,  "jsonrpc":"2.0","result":{"a":1.0}}'
    assert render(one(raw)).split(b"\n")[1] == b'{"dir": "a2c", "t": 0.5, "msg": ' + raw + b"}"


def test_a_file_rewritten_by_another_json_tool_still_reads() -> None:
    lines = render(one(b'{"id": 1, "result": {}}')).decode().splitlines()
    rewritten = "\n".join(json.dumps(json.loads(line), sort_keys=True) for line in lines)
    assert parse(rewritten.encode()).frames[0].raw == b'{"id":1,"result":{}}'


def test_a_torn_last_line_is_dropped() -> None:
    data = render(
        Transcript(entries=(Frame(Direction.C2A, 0, b"{}"), Frame(Direction.A2C, 0, b"[]")))
    )
    for cut in range(1, len(b'{"dir": "a2c", "msg": []}')):
        assert parse(data[: -1 - cut]).frames[:1] == (Frame(Direction.C2A, 0, b"{}"),)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is this a transcript?"),
        (b"hello\n", "is this a transcript?"),
        (b"[1]\n", "is this a transcript?"),
        (b'{"dir": "a2c", "msg": {}}\n', "not a transcript"),
        (b'{"acp-transcript": 99}\n', "newer than this kit"),
        (b'{"acp-transcript": 1}\n{"dir": "a2c", "msg": {oops}\n', "line 2"),
        (b'{"acp-transcript": 1}\n\n{"dir": "a2c"}\n', "line 3"),
        (b'{"acp-transcript": 1}\n{"dir": "up", "msg": {}}\n', "neither c2a nor a2c"),
        (b'{"acp-transcript": 1}\n{"dir": "a2c", "base64": "?"}\n', "damaged"),
    ],
)
def test_a_bad_file_is_refused_with_the_line_and_the_reason(data: bytes, says: str) -> None:
    with pytest.raises(TranscriptError, match=says.replace("?", r"\?")):
        parse(data)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("no\n")
    with pytest.raises(TranscriptError, match=r"broken\.jsonl: line 1"):
        load(path)
