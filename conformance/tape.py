"""The tape: a transcript file that is written while the conversation happens.

Every frame is in the file before anything else is done with it, so a killed
recorder loses an unfinished line at most. When all is over the tape is sealed: the
header is completed from what the frames say. Knows files and frames, no processes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from conformance.dialogue import Dialogue, facts
from conformance.frames import Direction, Frame
from conformance.lines import LineCutter
from conformance.placeholders import placeholders, portable
from conformance.transcript import (
    Entry,
    Event,
    Header,
    Transcript,
    parse,
    render,
    render_entry,
    render_header,
)

OPENING = 100
"""Lines of a recording in which both sides introduce themselves."""


class Tape:
    """The file being written. A failing disk stops the tape, never the conversation."""

    def __init__(self, file: Path, header: Header) -> None:
        self.path, self._file = _create(file)
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._cutters = {direction: LineCutter() for direction in Direction}
        self._write(render_header(header))

    def add(self, direction: Direction, chunk: bytes) -> None:
        """Note bytes that went this way."""
        now = self._now()
        with self._lock:
            lines = self._cutters[direction].feed(chunk)
            self._write(b"".join(render_entry(Frame(direction, now, line)) for line in lines))

    def end(self, direction: Direction) -> None:
        """Note that the stream of this direction ended."""
        with self._lock:
            if rest := self._cutters[direction].rest():
                self._entry(Frame(direction, self._now(), rest, terminated=False))
            self._entry(Event("eof", self._now(), direction))

    def event(self, name: str, detail: str | int) -> None:
        """Note something else that happened."""
        with self._lock:
            self._entry(Event(name, self._now(), detail=detail))

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _entry(self, entry: Entry) -> None:
        self._write(render_entry(entry))

    def _write(self, data: bytes) -> None:
        try:
            while data and self._file is not None:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._file = None
            warn(f"the recording stops here: {error}")

    def _now(self) -> float:
        return time.monotonic() - self._start


def _create(path: Path) -> tuple[Path, int | None]:
    """Open a new file; an editor that starts the agent again gets ``name-2`` and so on."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number, candidate = 1, path
    while True:
        try:
            return candidate, os.open(candidate, flags, 0o600)
        except FileExistsError:
            number += 1
            candidate = path.with_stem(f"{path.stem}-{number}")


def seal(path: Path, *, make_portable: bool = False) -> None:
    """Complete the header of a finished recording, and make it portable if asked to.

    The new file takes the old one's place in one step.
    """
    data = path.read_bytes()
    scratch = path.with_suffix(".sealing")
    scratch.write_bytes(_portable(data) if make_portable else _completed(data))
    os.replace(scratch, path)


def _portable(data: bytes) -> bytes:
    transcript = complete(parse(data))
    return render(portable(transcript, placeholders(transcript, home=os.path.expanduser("~"))))


def _completed(data: bytes) -> bytes:
    """Only the header changes; what it is to say stands in the first lines."""
    opening = complete(parse(b"\n".join(data.split(b"\n", OPENING)[:OPENING])))
    return render_header(opening.header) + data.partition(b"\n")[2]


def complete(transcript: Transcript) -> Transcript:
    """The transcript with a header that says what its frames say."""
    known = transcript.header.facts | facts(Dialogue(transcript.frames))
    return replace(transcript, header=replace(transcript.header, facts=known))


def warn(text: str) -> None:
    """Say something on stderr, which belongs to the user, not to the protocol."""
    sys.stderr.write(f"acp-conformance: {text}\n")


def kit_version() -> str:
    """Name and version of this kit."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"acp-harness {version('acp-harness')}"
    except PackageNotFoundError:
        return "acp-harness"
