"""The agent under test: the installed command, alone with itself, and always on tape.

Nothing of the machine reaches it: home, data and settings are temporary and empty, and the model
is the offline one whose answers the prompts dictate.
"""

from __future__ import annotations

import os
import shutil
import signal
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.judge import judge
from tests.clients.tap import pid_of, tapped

DEMO = "demo:demo"
FILE = "poem.txt"
POEM = "Roses are red,\nviolets are blue,\nsugar is sweet.\n"
LOOK = '!call read {"path": "poem.txt"}'
EDIT = '!call edit {"path": "poem.txt", "old_text": "blue", "new_text": "green"}'
"""What the demo model is told to do with the poem."""


@dataclass(slots=True)
class Agent:
    """Starts nothing itself: a client runs ``command()`` with ``env``, as often as it likes."""

    root: Path
    tapes: list[Path] = field(default_factory=list)
    impatient: bool = False
    """Whether the client ends its agents with a signal. Even then they leave with 0."""

    def __post_init__(self) -> None:
        for folder in (self.home, self.work, self.root / "tapes"):
            folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(POEM)

    @property
    def home(self) -> Path:
        """The user's home; empty."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The project that sessions work in: one file with a poem."""
        return self.root / "work"

    @property
    def file(self) -> Path:
        """The project's one file."""
        return self.work / FILE

    @property
    def env(self) -> dict[str, str]:
        """The agent's environment."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "ACP_HARNESS_DATA_DIR": str(self.root / "data"),
            "ACP_HARNESS_CONFIG": str(self.root / "no-settings.toml"),
            "ACP_HARNESS_MODEL": DEMO,
        }

    def command(self) -> list[str]:
        """The command for one more run of the agent, with a tape of its own."""
        tape = self.root / "tapes" / f"{len(self.tapes) + 1}.jsonl"
        self.tapes.append(tape)
        return tapped(tape, [installed()])

    def pid(self) -> int:
        """The process id of the agent that was started last."""
        return int(pid_of(self.tapes[-1]).read_text())

    def kill(self) -> None:
        """End the agent that was started last with a signal that it cannot see coming."""
        os.kill(self.pid(), signal.SIGKILL)

    def verdict(self) -> list[str]:
        """What was wrong with all that the agent sent, on all tapes there are by now."""
        tapes = sorted((self.root / "tapes").glob("*.jsonl"), key=_number)
        return judge(tapes, may_signal=self.impatient)


def _number(tape: Path) -> tuple[int, ...]:
    """Tapes in the order of their runs: ``1``, ``1-2``, ``2``, ``10``."""
    return tuple(map(int, tape.stem.split("-")))


def installed() -> str:
    """The ``acp-harness`` command of this environment. Raises ``RuntimeError`` without one."""
    command = shutil.which("acp-harness", path=sysconfig.get_path("scripts"))
    if command is None:
        raise RuntimeError("acp-harness is not installed here; run scripts/setup first")
    return command
