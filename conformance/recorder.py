"""The recording proxy: an editor starts it in place of the agent and notices nothing.

Bytes pass in both directions exactly as they come, in whatever pieces; so do EOF,
signals, stderr and the exit status. A frame is on the tape before the bytes that
complete it are handed on. So the tape never shows an answer before its request,
and it is whole up to the moment either side dies.

Threads and blocking calls on purpose: they work on every kind of descriptor and
every platform, and a byte waits for no event loop. The agent's stderr is the
proxy's own, never touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.frames import Direction
from conformance.tape import Tape, kit_version, seal, warn
from conformance.transcript import Header, TranscriptError

CHUNK = 1 << 16
LINGER = 1.0
"""Seconds the proxy waits on a silent stdout that outlives the agent in a grandchild."""
SWITCH = 0.0002
"""Seconds one pump may hold up the other; Python's own 5 ms would be felt."""
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals handed on to the agent."""


@dataclass(slots=True)
class Pump:
    """Moves one direction's bytes until its source ends or its sink is gone."""

    source: int
    sink: int
    direction: Direction
    tape: Tape
    waiting_since: float | None = field(default=None)
    """When it began to wait for the source; ``None`` while it hands bytes on."""

    def run(self) -> None:
        while chunk := self._read():
            self.tape.add(self.direction, chunk)
            if not self._hand_on(chunk):
                break
        else:
            self.tape.end(self.direction)
        _shut(self.source)
        _shut(self.sink)

    def _read(self) -> bytes:
        self.waiting_since = time.monotonic()
        try:
            return os.read(self.source, CHUNK)
        except OSError:
            return b""
        finally:
            self.waiting_since = None

    def _hand_on(self, chunk: bytes) -> bool:
        """Write all of it; False if nobody reads any more."""
        view = memoryview(chunk)
        try:
            while view:
                view = view[os.write(self.sink, view) :]
        except OSError:
            return False
        return True

    def idle(self, seconds: float) -> bool:
        """Whether it has waited on its source for this long."""
        return self.waiting_since is not None and time.monotonic() - self.waiting_since > seconds


def _shut(descriptor: int) -> None:
    """Give up our end of a stream. Our own 0 and 1 stay occupied, so nothing slips in there."""
    if descriptor > 2:
        os.close(descriptor)
        return
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def record(
    command: Sequence[str],
    path: Path,
    *,
    make_portable: bool = False,
    files: Mapping[str, str] | None = None,
) -> int:
    """Run ``command`` between our stdin and stdout and write what passes to ``path``.

    Returns the exit status to leave with: the agent's own, negative for the signal
    that killed it. Raises ``OSError`` if the agent cannot be started or the file
    not be created; then nothing is left behind.
    """
    header = Header(tuple(command), os.getcwd(), dict(files or {}), {"kit": kit_version()})
    tape = Tape(path, header)
    try:
        agent = _start(command)
    except OSError:
        tape.close()
        tape.path.unlink()
        raise
    status = _converse(agent, tape)
    try:
        seal(tape.path, make_portable=make_portable)
    except (OSError, TranscriptError) as error:
        warn(f"the recording's header stays incomplete: {error}")
    return status


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    program = shutil.which(command[0]) if os.name == "nt" else None
    return subprocess.Popen(
        [program or command[0], *command[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )


def _converse(agent: subprocess.Popen[bytes], tape: Tape) -> int:
    _forward_signals(agent, tape)
    _make_blocking(0, 1)
    sys.setswitchinterval(SWITCH)
    _pump(0, _take(agent.stdin), Direction.C2A, tape)
    thread, pump = _pump(_take(agent.stdout), 1, Direction.A2C, tape)
    status = agent.wait()
    while thread.is_alive() and not pump.idle(LINGER):
        thread.join(0.05)
    tape.event("exit", status)
    tape.close()
    return status


def _make_blocking(*descriptors: int) -> None:
    """Undo what another owner of the same terminal or socket may have set."""
    if os.name != "nt":
        for descriptor in descriptors:
            os.set_blocking(descriptor, True)


def _take(pipe: Any) -> int:
    """The pipe's descriptor, ours to close."""
    descriptor = os.dup(pipe.fileno())
    pipe.close()
    return descriptor


def _pump(source: int, sink: int, way: Direction, tape: Tape) -> tuple[threading.Thread, Pump]:
    pump = Pump(source, sink, way, tape)
    thread = threading.Thread(target=pump.run, name=f"pump-{way}", daemon=True)
    thread.start()
    return thread, pump


def _forward_signals(agent: subprocess.Popen[bytes], tape: Tape) -> None:
    def forward(number: int, _: FrameType | None) -> None:
        if not (number == signal.SIGINT and _at_a_terminal()):
            agent.send_signal(number)
        threading.Thread(target=tape.event, args=("signal", signal.Signals(number).name)).start()

    for name in FORWARDED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), forward)


def _at_a_terminal() -> bool:
    """Whether we are a terminal's foreground job: it signals the whole group by itself."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def leave(status: int) -> int:
    """Die of the signal the agent died of, so that our parent sees what it would have seen.

    Returns the exit status where there is no signal to die of.
    """
    if status >= 0 or os.name == "nt":
        return status
    _without_core_dump()
    with suppress(OSError):  # SIGKILL needs no preparation and allows none
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
    return 128 - status


def _without_core_dump() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
