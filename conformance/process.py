"""An agent process over three pipes: lines out, bytes in, how it ended.

Bytes only; JSON and ACP are the client's business. The process gets its own process group and a
marker in its environment, so that nothing it started survives the run unseen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

STDERR_KEPT = 64 * 1024
"""Bytes of stderr that are remembered: the newest ones."""
MARKER = "ACP_CONFORMANCE_RUN"
LINGER = 0.5
"""Seconds in which buffered output may still arrive after the process has exited."""
POSIX = os.name == "posix"


class AgentProcess(asyncio.SubprocessProtocol):
    """One running agent. Make it with ``start``; always end it with ``kill``.

    ``on_line`` gets each line of stdout and whether a line feed ended it.
    """

    def __init__(
        self, on_line: Callable[[bytes, bool], None], on_change: Callable[[], None]
    ) -> None:
        self._on_line = on_line
        self._on_change = on_change
        self._transport: asyncio.SubprocessTransport | None = None
        self._partial = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._exited = asyncio.Event()
        self.marker = ""
        self.stderr = bytearray()
        self.bytes_out = 0
        """Everything the agent has written to stdout so far, in bytes."""
        self.ended = False
        """True once nothing more can be read: stdout is closed, or the process is gone."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        on_line: Callable[[bytes, bool], None],
        on_change: Callable[[], None],
    ) -> AgentProcess:
        """Start ``command`` with exactly ``env``. Raises ``OSError`` if it cannot be started."""
        marker = uuid.uuid4().hex
        loop = asyncio.get_running_loop()
        transport, process = await loop.subprocess_exec(
            lambda: cls(on_line, on_change),
            *command,
            cwd=cwd,
            env={**env, MARKER: marker},
            **group_options(),
        )
        process._transport = transport
        process.marker = marker
        return process

    # What the event loop tells us.

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-STDERR_KEPT]
            return
        self.bytes_out += len(data)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._on_line(self._completed(line), True)
        self._partial += rest
        if lines:
            self._on_change()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._writable.set()
        if fd == 1:
            self._end()

    def process_exited(self) -> None:
        self._exited.set()
        self._writable.set()
        asyncio.get_running_loop().call_later(LINGER, self._end)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            if self._partial:
                self._on_line(self._completed(b""), False)
            self._on_change()

    def _completed(self, line: bytes) -> bytes:
        """The line whose last piece is ``line``."""
        if not self._partial:
            return line
        whole = bytes(self._partial) + line
        self._partial.clear()
        return whole

    # What a client does with it.

    @property
    def pid(self) -> int:
        return self._living().get_pid()

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._living().get_returncode()

    async def write(self, data: bytes) -> None:
        """Hand bytes to the agent's stdin; waits while the pipe is full."""
        stdin = self._pipe(0)
        if stdin is None or stdin.is_closing():
            return
        stdin.write(data)
        await self._writable.wait()

    def close_stdin(self) -> None:
        if (stdin := self._pipe(0)) is not None:
            stdin.close()

    def close_stdout(self) -> None:
        """Close our reading end: the agent's next write breaks."""
        if (stdout := self._pipe(1)) is not None:
            stdout.close()

    def pause(self, fd: int) -> None:
        """Stop reading the agent's stdout (1) or stderr (2)."""
        if (pipe := self._pipe(fd)) is not None and not pipe.is_closing():
            pipe.pause_reading()

    def resume(self, fd: int) -> None:
        if (pipe := self._pipe(fd)) is not None and not pipe.is_closing():
            pipe.resume_reading()

    async def wait(self, timeout: float) -> int:
        """The exit code. Raises ``TimeoutError`` after ``timeout`` seconds."""
        async with asyncio.timeout(timeout):
            await self._exited.wait()
        code = self.code
        assert code is not None
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process itself; nothing happens if it is gone."""
        if self.code is None:
            self._living().send_signal(number)

    async def kill(self) -> None:
        """End the process, its group and everything that carries its marker."""
        kill_group(self.pid)
        for pid in survivors(self.marker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._exited.wait()
        self._living().close()

    def _living(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process was not started with AgentProcess.start")
        return self._transport

    def _pipe(self, fd: int) -> Any:
        return self._living().get_pipe_transport(fd)


def group_options() -> dict[str, Any]:
    """How to start a process at the head of its own group, for this platform."""
    if POSIX:
        return {"start_new_session": True}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def kill_group(pid: int) -> None:
    """Kill the process and, where there are groups, all that is in its group."""
    with suppress(ProcessLookupError, PermissionError):
        if POSIX:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return not sys.platform.startswith("linux")
    return state != "Z"


def survivors(marker: str) -> list[int]:
    """Processes that still carry ``marker`` in their environment (Linux; elsewhere none)."""
    if not sys.platform.startswith("linux") or not marker:
        return []
    needle = f"{MARKER}={marker}".encode()
    return [int(entry.name) for entry in Path("/proc").iterdir() if _carries(entry, needle)]


def _carries(entry: Path, needle: bytes) -> bool:
    if not entry.name.isdigit():
        return False
    try:
        return needle in (entry / "environ").read_bytes() and alive(int(entry.name))
    except OSError:
        return False


async def run_to_exit(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int,
    timeout: float,
) -> int:
    """Run ``command`` on the given files and return its exit code.

    Raises ``TimeoutError`` after ``timeout`` seconds; the process is dead either way.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.DEVNULL,
        **group_options(),
    )
    try:
        async with asyncio.timeout(timeout):
            return await process.wait()
    finally:
        if process.returncode is None:
            kill_group(process.pid)
            await process.wait()
