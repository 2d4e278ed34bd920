"""Clients from the package registries: installed when a test first needs them, once per machine.

Safe with several test processes: the first one installs, the others wait for it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "clients"
OLDEST_NODE = 20
PATIENCE = 300.0
"""Seconds that an installation may take."""


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock that ends with this process, whatever happens to it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as handle:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def node() -> str:
    """Where Node.js is. Skips the test where there is none, or one that is too old."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("Node.js with npm is not installed")
    version = _run([found, "--version"]).strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node.js {version} is older than {OLDEST_NODE}")
    return found


def npm_ci(folder: Path) -> None:
    """Install what the lock file of ``folder`` names into its ``node_modules``."""
    digest = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:16]
    stamp = folder / "node_modules" / f".installed-{digest}"
    if stamp.exists():
        return
    with locked(CACHE / f"{folder.name}.lock"):
        if not stamp.exists():
            npm = shutil.which("npm") or "npm"
            options = ["--ignore-scripts", "--no-audit", "--no-fund"]
            _run([npm, "ci", *options], cwd=folder)
            stamp.touch()


def from_pypi(name: str, version: str) -> Path:
    """A package without its dependencies, in a folder of its own. Skips where pip cannot get it."""
    folder = CACHE / f"{name}-{version}"
    with locked(CACHE / f"{name}.lock"):
        if not folder.exists():
            scratch = folder.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
            done = subprocess.run(
                [*pip, str(scratch), f"{name}=={version}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            )
            if done.returncode:
                pytest.skip(f"pip cannot install {name} {version} here")
            scratch.rename(folder)
    return folder


def from_npm(name: str, packages: Mapping[str, str]) -> Path:
    """The ``node_modules`` with these packages in these versions. Skips where npm cannot get them.

    Their install scripts run: the package ``node`` fetches the right one of its kind like that.
    """
    wanted = [f"{package}@{version}" for package, version in packages.items()]
    folder = CACHE / "-".join(wanted)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{name} is installed by npm, and there is none")
    with locked(CACHE / f"{name}.lock"):
        if not folder.exists():
            scratch = folder.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            done = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", "--prefix", str(scratch), *wanted],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            )
            if done.returncode:
                pytest.skip(f"npm cannot install {' and '.join(wanted)} here")
            scratch.rename(folder)
    return folder / "node_modules"


def _run(command: list[str], cwd: Path = HERE) -> str:
    """What a command says. Fails the test, with all it said, if it does not end well."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout
