"""The recording proxy: nobody notices it, and the tape holds everything.

Real processes on both sides: this test is the editor, a toy is the agent.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.dialogue import Dialogue
from conformance.frames import Direction, Frame
from conformance.transcript import Event, Transcript, load

TOYS = Path(__file__).parent / "toys"
PATIENCE = 60.0
posix = pytest.mark.skipif(os.name == "nt", reason="signals and forks are POSIX")


class Editor:
    """The parent of a proxy: its pipes, and a deadline on everything."""

    def __init__(self, tape: Path, toy: list[str], *options: str) -> None:
        proxy = [sys.executable, "-m", "conformance", "record", "-o", str(tape), *options]
        self.tape = tape
        self.process = subprocess.Popen(
            [*proxy, "--", sys.executable, *toy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def read_until(self, wanted: bytes) -> bytes:
        """Read until the output so far ends with ``wanted``."""
        seen = b""
        while not seen.endswith(wanted):
            chunk = os.read(self.stdout.fileno(), 65536)
            assert chunk, f"the output ended after {seen[-200:]!r}"
            seen += chunk
        return seen

    def finish(self, data: bytes = b"") -> tuple[bytes, bytes]:
        """Send ``data``, hang up, and wait; returns stdout and stderr."""
        return self.process.communicate(data, timeout=PATIENCE)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


Start = Callable[..., Editor]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    editors: list[Editor] = []

    def make(*toy: str, options: tuple[str, ...] = ()) -> Editor:
        script, *arguments = toy
        tape = tmp_path / "tape.jsonl"
        editors.append(Editor(tape, [str(TOYS / script), *arguments], *options))
        return editors[-1]

    yield make
    for editor in editors:
        editor.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def lines(transcript: Transcript, direction: Direction) -> list[bytes]:
    return [frame.raw for frame in transcript.frames if frame.direction is direction]


def events(transcript: Transcript) -> list[tuple[str, object]]:
    found = [entry for entry in transcript.entries if isinstance(entry, Event)]
    return [(event.name, event.direction or event.detail) for event in found]


def test_every_byte_passes_and_is_on_the_tape(start: Start) -> None:
    source = random.Random(7)
    data = b"\n".join(source.randbytes(source.choice([0, 1, 50, 5000])) for _ in range(300))
    data += b"\n" + b"z" * 3_000_000 + b"\n" + b"no line feed at the end"
    editor = start("pipe.py", "echo")
    out, _ = editor.finish(data)
    assert out == data
    tape = load(editor.tape)
    for direction in Direction:
        assert b"\n".join(lines(tape, direction)) == data
    assert [frame.terminated for frame in tape.frames].count(False) == 2


def test_a_piece_of_a_line_passes_at_once(start: Start) -> None:
    editor = start("pipe.py", "echo")
    for piece in (b'{"half', b" of a ", b'line"}\n'):
        editor.stdin.write(piece)
        editor.read_until(piece)
    editor.finish()
    assert lines(load(editor.tape), Direction.A2C) == [b'{"half of a line"}']


def test_the_client_hears_an_agent_that_was_not_asked(start: Start) -> None:
    editor = start("pipe.py", "say", "hello without end")
    assert editor.read_until(b"end") == b"hello without end"
    editor.finish()
    frame = load(editor.tape).frames[0]
    assert (frame.raw, frame.terminated) == (b"hello without end", False)


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_is_the_agents(start: Start, status: int) -> None:
    editor = start("pipe.py", "exit", str(status))
    assert editor.wait() == status
    assert ("exit", status) in events(load(editor.tape))


@posix
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_an_agent_killed_by_a_signal_looks_killed_by_it(
    start: Start, number: signal.Signals
) -> None:
    editor = start("pipe.py", "die", str(int(number)))
    assert editor.wait() == -number
    assert events(load(editor.tape))[-1] == ("exit", -number)


@posix
def test_a_signal_reaches_the_agent(start: Start) -> None:
    editor = start("pipe.py", "catch", "42")
    editor.read_until(b"ready\n")
    editor.process.send_signal(signal.SIGTERM)
    assert editor.wait() == 42
    names = events(load(editor.tape))
    assert ("signal", "SIGTERM") in names
    assert ("exit", 42) in names


def test_stderr_is_the_agents_own(start: Start) -> None:
    editor = start("pipe.py", "stderr")
    out, err = editor.finish()
    assert (out, err.replace(b"\r", b"")) == (b"", b"to the user\n")


@posix
def test_an_agent_that_closes_stdout_closes_it_for_the_client(start: Start) -> None:
    editor = start("pipe.py", "close-out")
    editor.read_until(b"bye\n")
    assert os.read(editor.stdout.fileno(), 1) == b""
    assert editor.process.poll() is None, "the agent still runs, and so does the proxy"
    editor.finish()
    assert ("eof", Direction.A2C) in events(load(editor.tape))


@posix
def test_an_agent_that_closes_stdin_closes_it_for_the_client(start: Start) -> None:
    editor = start("pipe.py", "close-in")
    editor.read_until(b"deaf\n")

    def refused() -> bool:
        try:
            editor.stdin.write(b"hello?\n")
        except BrokenPipeError:
            return True
        return False

    until(refused)


@posix
def test_a_client_that_stops_reading_stops_the_agent_as_it_would_without_us(start: Start) -> None:
    editor = start("pipe.py", "flood")
    os.read(editor.stdout.fileno(), 1)
    editor.stdout.close()
    assert editor.wait() == 7


@posix
def test_an_agent_that_leaves_a_grandchild_behind_does_not_hold_us(start: Start) -> None:
    editor = start("pipe.py", "grandchild")
    editor.read_until(b"mine\n")
    assert editor.wait() == 0
    assert lines(load(editor.tape), Direction.A2C) == [b"mine"]


@posix
def test_the_tape_survives_the_death_of_the_proxy(start: Start) -> None:
    editor = start("pipe.py", "echo")
    editor.stdin.write(b'{"n": 1}\n{"n": 2}\n{"n": 3, "torn')
    editor.read_until(b"torn")
    editor.process.kill()
    editor.wait()
    tape = load(editor.tape)
    assert lines(tape, Direction.C2A) == lines(tape, Direction.A2C) == [b'{"n": 1}', b'{"n": 2}']


def test_the_tape_never_shows_an_answer_before_its_request(start: Start) -> None:
    editor = start("agent.py")
    for number in range(200):
        request = {"jsonrpc": "2.0", "id": number, "method": "ping"}
        editor.stdin.write(json.dumps(request).encode() + b"\n")
        editor.read_until(b"\n")
    editor.finish()
    answers = [m for m in Dialogue(load(editor.tape).frames).messages if m.method == "ping"]
    assert len([m for m in answers if m.request]) == 200


def test_the_header_says_who_spoke(start: Start) -> None:
    editor = start("agent.py")
    params = {"protocolVersion": 1, "clientInfo": {"name": "test", "version": "9"}}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    editor.finish(json.dumps(request).encode() + b"\n")
    header = load(editor.tape).header
    assert header.facts["agent"] == {"name": "toy", "version": "1.0"}
    assert header.facts["client"] == {"name": "test", "version": "9"}
    assert header.facts["protocolVersion"] == 1
    assert header.command[0] == sys.executable


def test_a_second_start_leaves_the_first_recording_alone(start: Start, tmp_path: Path) -> None:
    start("pipe.py", "exit", "0").finish()
    start("pipe.py", "exit", "0").finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tape-2.jsonl", "tape.jsonl"]


def test_an_agent_that_cannot_be_started_is_a_clear_error(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    proxy = [sys.executable, "-m", "conformance", "record", "-o", str(tape), "--", "no-such-agent"]
    done = subprocess.run(proxy, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert b"no-such-agent" in done.stderr
    assert b"Traceback" not in done.stderr
    assert not tape.exists()


@posix
def test_a_full_disk_stops_the_tape_but_not_the_conversation(tmp_path: Path) -> None:
    tape, echo = tmp_path / "tape.jsonl", [sys.executable, str(TOYS / "pipe.py"), "echo"]
    proxy = [sys.executable, "-m", "conformance", "record", "-o", str(tape), "--", *echo]
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *proxy]
    data = b'{"n": 1}\n' * 10_000
    done = subprocess.run(limited, input=data, capture_output=True, timeout=PATIENCE)
    assert done.stdout == data
    assert done.stderr.count(b"the recording stops here") == 1


def test_a_portable_recording_names_no_directory_of_this_machine(
    start: Start, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello")
    editor = start("agent.py", options=("--portable", "--workspace", str(work)))
    new = {"jsonrpc": "2.0", "id": 1, "method": "session/new"}
    new["params"] = {"cwd": str(work), "mcpServers": []}
    editor.stdin.write(json.dumps(new).encode() + b"\n")
    session = json.loads(editor.read_until(b"}}\n").splitlines()[0])["result"]["sessionId"]
    text = [{"type": "text", "text": "read a.txt; say at $CWD/b"}]
    prompt = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt"}
    prompt["params"] = {"sessionId": session, "prompt": text}
    editor.finish(json.dumps(prompt).encode() + b"\n")
    stored = editor.tape.read_text()
    assert str(work) not in stored
    assert "${cwd}/a.txt: hello" in stored
    assert "at ${cwd}/b" in stored
    tape = load(editor.tape)
    assert tape.header.files == {"a.txt": "hello"}
    assert tape.header.cwd == "${cwd}"
    assert all(isinstance(entry, Event) or entry.time == 0 for entry in tape.entries)
    assert all(isinstance(frame, Frame) for frame in tape.frames)
