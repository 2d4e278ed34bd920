"""Commands do not outlive a process that is killed, and what was over before is left alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from tests.harness_core.tools.test_shell import running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's"),
]

PROGRAM = """
import signal, subprocess
from harness_core.tools.warden import Warden

def begin(command):
    shell = ["sh", "-c", f"{command}; echo; sleep 600"]
    child = subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    warden.watch(child.pid)
    return child.pid

warden = Warden()
over, obedient, stubborn = begin(":"), begin(":"), begin("trap '' TERM")
warden.forget(over)
print(over, obedient, stubborn, flush=True)
signal.pause()
"""


@contextmanager
def started() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process that watches groups; their leaders: one that is over, and two that are not."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as own:
        assert own.stdout is not None
        groups = list(map(int, own.stdout.readline().split()))
        try:
            yield own, groups
        finally:
            own.kill()
            for group in groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)


async def gone(pids: list[int]) -> None:
    with anyio.fail_after(60):
        while any(map(running, pids)):  # noqa: ASYNC110 - processes of others give no sign
            await anyio.sleep(0.02)


async def test_what_runs_is_ended_when_its_parent_is_killed() -> None:
    with started() as (own, (over, *others)):
        own.kill()
        await gone(others)
        assert running(over)
