"""Normal forms: what two runs of one conversation share, and nothing machine-made."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from hypothesis import assume, example, given
from hypothesis import strategies as st

from conformance.frames import Direction, Frame
from conformance.normalise import CONNECTION, Conversation, read
from conformance.placeholders import directories, expand, hider, placeholders, portable
from conformance.rejoin import rejoin, whole
from conformance.script import missing, progress, translate
from conformance.transcript import Event, Header, Transcript
from tests.conformance.talk import Talk, full_talk

CWD = "/home/me/code"
NAMES = {"cwd": CWD, "home": "/home/me"}


def renamed(frames: list[Frame], **names: str) -> list[Frame]:
    """The same conversation by an agent that made up other ids."""
    result = frames
    for old, new in names.items():
        token, other = json.dumps(old).encode(), json.dumps(new).encode()
        result = [replace(f, raw=f.raw.replace(token, other)) for f in result]
    return result


def chunked(frames: list[Frame], size: int) -> list[Frame]:
    """The same conversation by an agent that cuts its texts otherwise."""
    result: list[Frame] = []
    for frame in frames:
        message = json.loads(frame.raw) if frame.raw.startswith(b'{"') else {}
        update = message.get("params", {}).get("update", {})
        text = update.get("content", {}).get("text") if "chunk" in str(update) else None
        if not text:
            result.append(frame)
            continue
        for at in range(0, len(text), size):
            update["content"]["text"] = text[at : at + size]
            result.append(replace(frame, raw=json.dumps(message).encode()))
    return result


def lanes(frames: list[Frame]) -> dict[str, list[tuple[str, object]]]:
    conversation = read(tuple(frames))
    return {
        name: [(item.label, item.body) for item in lane]
        for name, lane in conversation.lanes.items()
    }


def test_made_up_ids_do_not_matter() -> None:
    other = renamed(full_talk(), s1="b7", t1="call_x", m1="msg-9", yes="opt", c="compact")
    assert other != full_talk()
    assert lanes(other) == lanes(full_talk())


@given(st.integers(1, 9))
def test_chunking_does_not_matter(size: int) -> None:
    assert lanes(chunked(full_talk(), size)) == lanes(full_talk())


def test_an_id_that_is_not_the_same_everywhere_does_matter() -> None:
    frames = full_talk()
    at = next(i for i, f in enumerate(frames) if b"tool_call_update" in f.raw)
    mixed = [*frames[:at], *renamed([frames[at]], t1="other"), *frames[at + 1 :]]
    assert lanes(mixed) != lanes(frames)


def test_sessions_are_named_as_they_were_asked_for() -> None:
    def opened(order: list[int]) -> list[Frame]:
        talk = Talk()
        asked = [talk.ask("session/new", cwd="/a", mcpServers=[]) for _ in range(2)]
        for index in order:
            talk.answer(asked[index], {"sessionId": f"id-{index}"})
        for index in (0, 1):
            talk.update(f"id-{index}", "usage_update", used=index, size=9)
        return talk.frames

    first, second = lanes(opened([0, 1])), lanes(opened([1, 0]))
    assert first["session-1 usage_update"] == second["session-1 usage_update"]
    assert first["session-2 usage_update"] == second["session-2 usage_update"]


def test_times_versions_and_uuids_become_marks() -> None:
    talk = Talk().start()
    moments = ("2026-11-30T10:00:00Z", "2026-12-01 11:30:00.123+01:00")
    uuids = ("3f0c7a80-0000-4000-8000-000000000001", "9F0C7A80-0000-4000-8000-00000000000F")
    forms = []
    for moment, uuid in zip(moments, uuids, strict=True):
        talk = Talk().start()
        talk.update("s1", "session_info_update", updatedAt=moment)
        prompt = talk.prompt()
        talk.say("s1", f"wrote {uuid} at {moment}")
        talk.done(prompt)
        forms.append(lanes(talk.frames))
    assert forms[0] == forms[1]
    assert "<time>" in json.dumps(forms[0])


def test_updates_that_may_come_at_any_time_have_lanes_of_their_own() -> None:
    def talk(*, early: bool) -> list[Frame]:
        talk = Talk().start()
        prompt = talk.prompt()
        for first in (early, not early):
            if first:
                talk.update("s1", "usage_update", used=1, size=9)
            else:
                talk.tool("s1", "t1")
        talk.done(prompt)
        return talk.frames

    assert lanes(talk(early=True)) == lanes(talk(early=False))


def test_adjacent_patches_of_a_tool_call_add_up() -> None:
    def talk(*outputs: str) -> list[Frame]:
        talk = Talk().start()
        prompt = talk.prompt()
        talk.update("s1", "tool_call", toolCallId="t", title="x", status="in_progress")
        for output in outputs:
            content = [{"type": "content", "content": {"type": "text", "text": output}}]
            talk.update("s1", "tool_call_update", toolCallId="t", content=content)
        talk.update("s1", "tool_call_update", toolCallId="t", status="completed")
        talk.done(prompt)
        return talk.frames

    assert lanes(talk("a", "ab", "abc")) == lanes(talk("abc"))
    assert lanes(talk("abc")) != lanes(talk("abd"))
    assert len(lanes(talk("abc"))["session-1"]) == 4, "a change of status stands alone"


def test_lines_that_are_no_messages_are_kept() -> None:
    frames = [Frame(Direction.A2C, 0, b"Starting \xff up"), *Talk().start().frames]
    assert lanes(frames)[CONNECTION][0] == ("line", "Starting \ufffd up")


def test_progress_counts_answers_before_anything_else() -> None:
    talk = Talk().start()
    prompt = talk.prompt()
    talk.say("s1", "a long answer")
    goal = progress(read(tuple(talk.frames)))
    begun = Conversation()
    for frame in talk.frames[:-1]:
        begun.add(frame)
    assert list(missing(goal, begun)) == ["session-1"]
    short = Talk(frames=[*talk.frames[:-1]])
    short.done(prompt)
    assert missing(goal, read(tuple(short.frames))) == {}


# Placeholders

paths = st.sampled_from([CWD, f"{CWD}/src/a.py", f"{CWD}2/b", "/home/me/other", "/x" + CWD, "/etc"])
words = st.sampled_from(["${cwd}", "$${cwd}", "${home}", "${other}", "$", "é", "\n", '"', "\\"])
texts = st.lists(paths | words | st.text(max_size=3), max_size=6).map("".join)


@given(texts)
@example("line one\n/home/me/code/a")
@example("${cwd} and /home/me/code")
def test_hiding_and_expanding_gives_the_text_back(text: str) -> None:
    raw = json.dumps({"a": text}).encode()
    assert json.loads(expand(hider(NAMES)(raw), NAMES)) == {"a": text}


@given(texts)
def test_an_expanded_text_names_the_new_directories(text: str) -> None:
    assume("/new" not in text)
    new = {"cwd": "/new/place", "home": "/new/home"}
    hidden = hider(NAMES)(json.dumps(text).encode())
    assert hider(new)(expand(hidden, new)) == hidden


def test_a_path_is_found_in_every_spelling_and_nowhere_else() -> None:
    hide = hider({"cwd": "/tmp/pröj"})
    spelled = rb'"/tmp/pr\u00f6j/a" "\/tmp\/pr\u00f6j" "file:///tmp/pr'
    assert hide(spelled + "öj".encode() + b'"') == b'"${cwd}/a" "${cwd}" "file://${cwd}"'
    assert hide(b'"at\\n/tmp/pr\xc3\xb6j/a"') == b'"at\\n${cwd}/a"'
    for other in ('"/tmp/pröjx"', '"/tmp/pröj-2"', '"/tmp/pröj.old"', '"a/tmp/pröj"'):
        assert hide(other.encode()) == other.encode()


def test_the_outermost_directories_of_sessions_get_placeholders() -> None:
    talk = Talk()
    for cwd in ("/a/b", "/a/b/c", "/z/", "C:\\work", "relative", "/"):
        talk.ask("session/new", cwd=cwd, mcpServers=[])
    assert directories(talk.frames) == ["/a/b", "/z", "C:\\work"]
    names = placeholders(Transcript(Header(cwd="/elsewhere"), tuple(talk.frames)))
    assert names == {"cwd": "/a/b", "cwd2": "/z", "cwd3": "C:\\work"}
    assert placeholders(Transcript(Header(cwd="/elsewhere"))) == {"cwd": "/elsewhere"}


def test_a_portable_transcript_has_no_times_and_no_directories() -> None:
    frames = tuple(replace(frame, time=1.5) for frame in full_talk())
    event = Event("exit", 2.5, detail=0)
    made = portable(
        Transcript(Header(("agent", "/proj/x"), "/proj"), (*frames, event)), {"cwd": "/proj"}
    )
    assert {entry.time for entry in made.entries} == {0.0}
    assert made.header.command == ("agent", "${cwd}/x")
    assert not any(b'"/proj' in frame.raw for frame in made.frames)


@given(st.lists(st.sampled_from(["/ho", "me/me", "/code", "x", "", "/home/me/code", " "])))
def test_a_path_cut_through_by_a_stream_is_made_whole(pieces: list[str]) -> None:
    pattern = re.compile(re.escape(CWD))
    mended = whole(pieces, pattern)
    assert len(mended) == len(pieces)
    assert "".join(mended) == "".join(pieces)
    assert sum(len(pattern.findall(piece)) for piece in mended) == len(
        pattern.findall("".join(pieces))
    )


def test_a_cut_path_becomes_a_placeholder_in_its_first_piece() -> None:
    talk = Talk().start()
    prompt = talk.prompt()
    for piece in ("see /ho", "me/me/co", "de/a.py", " and b"):
        talk.say("s1", piece)
    talk.done(prompt)
    made = portable(Transcript(entries=tuple(talk.frames)), {"cwd": CWD})
    said = [json.loads(f.raw)["params"]["update"]["content"]["text"] for f in made.frames[5:9]]
    assert said == ["see ${cwd}", "", "/a.py", " and b"]
    assert rejoin(talk.frames, ["/nowhere"]) == talk.frames


# Ids of the live agent in lines of the recorded client


def test_only_ids_are_translated_and_the_rest_stays_as_it_was() -> None:
    raw = b'{"id": 1,  "params": {"sessionId": "old", "text": "older", "optionId":"yes"}}'
    ids = {("session", "old"): "new", ("option", "yes"): "ok", ("call", "older"): "x"}
    assert translate(raw, ids) == (
        b'{"id": 1,  "params": {"sessionId": "new", "text": "older", "optionId":"ok"}}'
    )
    assert translate(b"not json old", ids) == b"not json old"
