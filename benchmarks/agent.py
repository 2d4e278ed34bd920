"""An agent process under measurement: a client that does as little as possible per frame."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMAND = (str(Path(sys.executable).parent / "acp-harness"),)


class Agent:
    """One ``acp-harness`` process. Times are in seconds."""

    def __init__(self, data: Path, env: Mapping[str, str] | None = None) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "ACP_HARNESS_DATA_DIR": str(data),
                "ACP_HARNESS_CONFIG": str(data / "none.toml"),
                "ACP_HARNESS_MODEL": "demo:demo",
                **(env or {}),
            },
        )
        self._last = 0
        self.lines: list[bytes] = []
        """What came before the last answer."""

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask and wait; frames before the answer are kept unparsed in ``lines``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        self.lines = []
        mark = b'"id":%d,' % self._last
        for line in self.process.stdout:
            if mark in line[:40]:
                answer: dict[str, Any] = json.loads(line)
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.lines.append(line)
        raise RuntimeError(f"the agent ended during {method}")

    def start(self, cwd: Path) -> str:
        """Initialize and open a session; its id."""
        self.call("initialize", {"protocolVersion": 1})
        return str(self.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"])

    def prompt(self, session: str, text: str) -> float:
        """Run one prompt; how long it took."""
        began = time.perf_counter()
        block = {"type": "text", "text": text}
        self.call("session/prompt", {"sessionId": session, "prompt": [block]})
        return time.perf_counter() - began

    def memory(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
