"""The frame tap: a program that stands between a client and the agent and notes every frame.

    python tap.py TAPE COMMAND...

The client starts it in place of the agent. Beside the tape it leaves ``TAPE.pid`` with the
agent's process id, so that a test can kill the agent and not the tap, and ``TAPE.stderr`` with
everything the agent said there. Judges nothing: that is ``judge``'s room.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.recorder import leave, record

NOTE_PID = 'echo $$ >"$0"; exec "$@"'


def tapped(tape: Path, command: Sequence[str]) -> list[str]:
    """The command that a client starts to have ``command`` on ``tape``."""
    return [sys.executable, str(Path(__file__).resolve()), str(tape), *command]


def stderr_of(tape: Path) -> Path:
    """Where the stderr of a tape's agent is kept."""
    return tape.with_suffix(".stderr")


def pid_of(tape: Path) -> Path:
    """Where the process id of a tape's agent is kept. POSIX only."""
    return tape.with_suffix(".pid")


def main(tape: Path, command: list[str]) -> int:
    """Run the agent between our stdin and stdout; returns the status to leave with."""
    stderr = os.open(stderr_of(tape), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(stderr, 2)
    os.close(stderr)
    if os.name == "posix":
        command = ["/bin/sh", "-c", NOTE_PID, str(pid_of(tape)), *command]
    return leave(record(command, tape))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
