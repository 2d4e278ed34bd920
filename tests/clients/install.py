"""Clients from the package registries: installed when a test first needs them, once per machine.

Safe with several test processes: the first one installs, the others wait for it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "clients"
OLDEST_NODE = 20
OLDEST_PYTHON = (3, 12)
KEPT = (".pyenv/versions", ".local/share/uv/python")
"""Where a home keeps interpreters that are not on the ``PATH``, each in a folder of its own."""
PIP_INSTALL = ["-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"]
"""Installs what is named, nothing that it asks for, and compiles what is used when it is used."""
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

    def fill(folder: Path) -> Iterator[list[str]]:
        yield [sys.executable, *PIP_INSTALL, "--target", str(folder), f"{name}=={version}"]

    return _kept(name, CACHE / f"{name}-{version}", fill)


def environment(name: str) -> Path:
    """The Python of an environment that has the packages of ``NAME.txt`` and no others.

    Skips where there is no interpreter that is new enough, and where pip cannot get the packages.
    """
    pins = HERE / f"{name}.txt"
    python = _newer_python()
    digest = hashlib.sha256(python.encode() + pins.read_bytes()).hexdigest()[:16]
    interpreter = Path("bin", "python")

    def fill(folder: Path) -> Iterator[list[str]]:
        yield [python, "-m", "venv", str(folder)]
        yield [str(folder / interpreter), *PIP_INSTALL, "--requirement", str(pins)]

    return _kept(name, CACHE / f"{name}-{digest}", fill) / interpreter


@cache
def _newer_python() -> str:
    """An interpreter for clients that need a newer one than we do."""
    named = [shutil.which(f"python3.{minor}") for minor in range(OLDEST_PYTHON[1], 20)]
    folders = [Path(sys.base_prefix).parent, *(Path.home() / folder for folder in KEPT)]
    kept = [str(python) for folder in folders for python in folder.glob("*/bin/python3")]
    asked = f"import sys, ensurepip, venv; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    for python in filter(None, [sys.executable, *named, *sorted(kept)]):
        # What is named may be a shim that only says that its version is not in use.
        if not subprocess.run([python, "-c", asked], capture_output=True).returncode:
            return python
    pytest.skip(f"no Python from {'.'.join(map(str, OLDEST_PYTHON))} on is installed")


def from_npm(name: str, packages: Mapping[str, str]) -> Path:
    """The ``node_modules`` with these packages in these versions. Skips where npm cannot get them.

    Their install scripts run: the package ``node`` fetches the right one of its kind like that.
    """
    wanted = [f"{package}@{version}" for package, version in packages.items()]
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{name} is installed by npm, and there is none")

    def fill(folder: Path) -> Iterator[list[str]]:
        yield [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted]

    return _kept(name, CACHE / "-".join(wanted), fill) / "node_modules"


def _kept(name: str, folder: Path, fill: Callable[[Path], Iterable[list[str]]]) -> Path:
    """The folder, filled by commands if it is not there. Skips where one of them fails."""
    with locked(CACHE / f"{name}.lock"):
        if not folder.exists():
            scratch = folder.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            for command in fill(scratch):
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=PATIENCE,
                )
                if done.returncode:
                    pytest.skip(f"{name} cannot be installed here: {done.stderr[-500:]}")
            scratch.rename(folder)
    return folder


def _run(command: list[str], cwd: Path = HERE) -> str:
    """What a command says. Fails the test, with all it said, if it does not end well."""
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout
