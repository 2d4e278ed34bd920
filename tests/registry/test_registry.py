"""The entry for the registry of agents is ready, and its check passes in an empty home."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness_core import __version__

ENTRY: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "registry" / "agent.json").read_text(encoding="utf-8")
)
COMMAND = [sys.executable, "-m", "acp_server", *ENTRY["distribution"]["uvx"]["args"]]
"""The entry's arguments behind the installed package."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": 1,
        "clientInfo": {"name": "registry", "version": "1"},
        "clientCapabilities": {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "_meta": {"terminal-auth": True, "terminal_output": True},
        },
    },
}


def environment(home: Path) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return {**keep, "HOME": str(home), "TERM": "dumb"}


def test_the_entry_is_of_this_version_and_complete() -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == __version__
    assert ENTRY["distribution"]["uvx"]["package"] == f"acp-harness=={__version__}"
    assert all(ENTRY[field] for field in ("name", "description", "license", "authors"))


def test_the_first_line_answers_initialize_and_offers_to_sign_in(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND,
        input=json.dumps(INITIALIZE).encode() + b"\n",
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    methods = json.loads(line)["result"]["authMethods"]
    assert any(method.get("type", "agent") in ("agent", "terminal") for method in methods)
    assert done.stderr == b""


@pytest.mark.parametrize("before", [[], ["acp"]])
def test_the_login_flag_stands_alone_or_after_the_command(
    tmp_path: Path, before: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", *before, "--login"],
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"nothing is stored" in done.stderr
    assert done.stdout == b""


def test_without_input_it_leaves_quietly(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND,
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == done.stderr == b""
