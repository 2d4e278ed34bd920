"""Ends commands that outlive us: an agent that is killed outright can end nothing itself.

A shell of its own session reads our end of a pipe, on which it is told what begins and what is
over. The system closes the pipe however we end; what still runs then is ended by the shell. It
knows process groups only: what has left its group while we are killed is not found.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

SCRIPT = """
while read -r sign group; do
    if [ "$sign" = + ]; then
        watched="$watched $group"
    else
        rest=
        for one in $watched; do [ "$one" = "$group" ] || rest="$rest $one"; done
        watched=$rest
    fi
done
[ "$watched" ] || exit 0
for one in $watched; do kill -s TERM -- "-$one"; done
sleep 1
for one in $watched; do kill -s KILL -- "-$one"; done
"""
"""For any POSIX shell."""


class Warden:
    """Watches process groups; begins when there is one to watch. Best effort, and never raises."""

    def __init__(self) -> None:
        self._pipe: int | None = None

    def watch(self, group: int) -> None:
        """End ``group`` when we are gone."""
        if self._pipe is None:
            with contextlib.suppress(OSError):
                self._pipe = _begin()
        self._tell("+", group)

    def forget(self, group: int) -> None:
        """``group`` is over: its number may be another's soon."""
        self._tell("-", group)

    def _tell(self, sign: str, group: int) -> None:
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                os.write(self._pipe, f"{sign} {group}\n".encode())


def _begin() -> int:
    """Start the shell; our end of its pipe, which no other child inherits."""
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        process.returncode = 0  # it outlives us, and nobody waits for it
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return ours
