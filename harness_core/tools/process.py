"""A child process and everything it starts, as one thing that can be read from and ended.

The room for what differs between systems. POSIX: the child leads a session of its own; on Linux,
what left that session is found too, by parentage and by a mark in the environment. Windows: the
tree is ended by ``taskkill``. The child has no stdin, and its output is a pipe of ours, so that a
background process that holds it open keeps nobody waiting.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

CHUNK = 64 * 1024
MARK = "HARNESS_CORE_CALL"
"""The environment variable that marks a child and what it starts."""

POLL = 0.02
STUBBORN = 2.0
"""Seconds to wait for killed processes to be gone; one in an uninterruptible call may stay."""


async def start(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Child:
    """Start a child in ``cwd`` with exactly the environment ``env``. Raises ``OSError``."""
    mark = os.urandom(16).hex()
    ours, theirs = os.pipe()
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**env, MARK: mark},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            start_new_session=sys.platform != "win32",
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    watch(process.pid)
    return Child(process, ours, Family(process.pid, mark))


class Child:
    """A running child. Finally ``end`` it and ``close`` it."""

    def __init__(self, process: anyio.abc.Process, pipe: int, family: Family) -> None:
        self._process = process
        self._pipe = pipe
        self._family = family
        if sys.platform != "win32":
            os.set_blocking(pipe, False)

    async def wait(self) -> int:
        """The exit status, once there is one; on POSIX negative for the signal that ended it."""
        return await self._process.wait()

    async def end(self, grace: float, *, strays: bool) -> bool:
        """End what still runs: ask, wait ``grace`` seconds, then kill. Whether anything did run.

        With ``strays`` also what left the child's session (a daemon, say). Killed in any case, also
        if this is cancelled.
        """
        if not self._family.alive(strays=strays):
            return False
        try:
            self._family.ask(strays=strays)
            await self._gone(grace, strays)
        finally:
            self._family.kill(strays=strays)
        await self._gone(STUBBORN, strays)
        return True

    async def _gone(self, seconds: float, strays: bool) -> None:
        pause = POLL
        with anyio.move_on_after(seconds):
            while self._family.alive(strays=strays):
                await anyio.sleep(pause)
                pause = min(pause * 1.5, 10 * POLL)

    def close(self) -> None:
        """Stop reading. What still writes will find its pipe broken."""
        os.close(self._pipe)
        forget(self._process.pid)

    async def read(self) -> bytes:
        """Some output; empty when all processes that could write have closed their end."""
        await anyio.lowlevel.checkpoint()
        return await _read(self._pipe)


if sys.platform == "win32":

    def watch(leader: int) -> None:
        """Nobody ends a child whose parent was killed."""

    forget = watch

    def shell_command(command: str) -> list[str]:
        """``command`` for the system's shell."""
        return [os.environ.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c", command]

    async def _read(pipe: int) -> bytes:
        return await anyio.to_thread.run_sync(os.read, pipe, CHUNK, abandon_on_cancel=True)

    class Family:
        """A child and its descendants, as far as Windows tells."""

        def __init__(self, leader: int, mark: str) -> None:
            self._leader = leader

        def alive(self, *, strays: bool) -> bool:
            """Whether the child itself still runs."""
            listed = subprocess.run(
                ["tasklist", "/FI", f"PID eq {self._leader}", "/NH"],
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            return str(self._leader).encode() in listed.stdout

        def ask(self, *, strays: bool) -> None:
            """Console processes cannot be asked."""
            self.kill(strays=strays)

        def kill(self, *, strays: bool) -> None:
            """End the whole tree."""
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(self._leader)],
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )

else:
    import shutil
    import signal

    from harness_core.tools.warden import Warden

    _WARDEN = Warden()
    watch, forget = _WARDEN.watch, _WARDEN.forget

    def shell_command(command: str) -> list[str]:
        """``command`` for bash, which models write for, or for what there is."""
        return [shutil.which("bash") or "/bin/sh", "-c", command]

    async def _read(pipe: int) -> bytes:
        while True:
            try:
                return os.read(pipe, CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(pipe)

    @dataclass(frozen=True, slots=True)
    class Entry:
        """A process as ``/proc`` shows it; ``start`` tells apart two that had the same number."""

        pid: int
        start: int
        parent: int = field(compare=False)
        session: int = field(compare=False)

    class Family:
        """A child and its descendants: its session, and on Linux also those that left it."""

        def __init__(self, leader: int, mark: str) -> None:
            self._leader = leader
            self._mark = f"{MARK}={mark}".encode()
            self._known: set[Entry] = set()

        def alive(self, *, strays: bool) -> bool:
            """Whether any of it still runs."""
            if PROC.exists():
                return bool(self._members(strays))
            try:
                os.killpg(self._leader, 0)
            except (ProcessLookupError, PermissionError):
                return False
            return True

        def ask(self, *, strays: bool) -> None:
            """Ask all of it to end."""
            self._signal(signal.SIGTERM, strays)
            self._signal(signal.SIGCONT, strays)

        def kill(self, *, strays: bool) -> None:
            """Kill all of it."""
            self._signal(signal.SIGKILL, strays)

        def _signal(self, number: int, strays: bool) -> None:
            members = self._members(strays)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)
            for entry in members:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(entry.pid, number)

        def _members(self, strays: bool) -> set[Entry]:
            table = set(_table())
            members = {entry for entry in table if entry.session == self._leader}
            if not strays:
                return members
            members |= self._known & table
            members |= {entry for entry in table if self._mark in _environment(entry.pid)}
            children = members
            while children:
                parents = {entry.pid for entry in children}
                children = {entry for entry in table if entry.parent in parents} - members
                members |= children
            self._known = members
            return members

    PROC = Path("/proc/self/stat")

    def _table() -> Iterator[Entry]:
        """Every process that is not a zombie; nothing where there is no ``/proc``."""
        for name in os.listdir("/proc") if PROC.exists() else ():
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, *numbers = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if state not in (b"Z", b"X"):
                yield Entry(int(name), int(numbers[18]), int(numbers[0]), int(numbers[2]))

    def _environment(pid: int) -> bytes:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return file.read()
        except OSError:
            return b""
