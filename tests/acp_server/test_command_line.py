"""The command line beside serving: keys, lasting permissions, and what is said of mistakes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

Env = Mapping[str, str]


def run(env: Env, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acp_server", *arguments]
    return subprocess.run(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def at_a_terminal(env: Env, keys: str, *arguments: str) -> tuple[int, str]:
    """Run it where a person sits; the exit status and all that the screen has shown."""
    pty = pytest.importorskip("pty", reason="this platform has no pseudo-terminals")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "acp_server", *arguments], dict(env))
    shown = b""
    while b"not shown): " not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, keys.encode())
    try:
        while more := os.read(terminal, 4096):
            shown += more
    except OSError:  # Linux ends a pseudo-terminal this way
        pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def credentials(env: Env) -> Path:
    return Path(env["ACP_HARNESS_CONFIG"]).parent / "credentials.json"


def test_it_says_its_version(env: Env) -> None:
    assert run(env, "--version").stdout.startswith("acp-harness ")


@pytest.mark.parametrize("arguments", [["serve"], ["--permissions"], ["permissions", "--allow"]])
def test_what_it_does_not_understand_is_said_on_stderr(env: Env, arguments: list[str]) -> None:
    result = run(env, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "usage: acp-harness" in result.stderr


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_is_kept_for_its_owner_alone_and_never_shown(env: Env) -> None:
    status, shown = at_a_terminal(env, "sk-very-secret\n", "login", "openai")
    assert status == 0
    assert "OPENAI_API_KEY" in shown
    assert "sk-very-secret" not in shown
    assert "sk-very-secret" in credentials(env).read_text()
    assert stat.S_IMODE(credentials(env).stat().st_mode) == 0o600
    assert run(env, "logout").returncode == 0
    assert not credentials(env).exists()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("\n", "Not stored: no key was given"),
        ("\x04", "nothing is stored"),
        ("half\x03", "nothing is stored"),
    ],
    ids=["nothing", "end", "interrupt"],
)
def test_an_aborted_login_stores_nothing(env: Env, keys: str, said: str) -> None:
    status, shown = at_a_terminal(env, keys, "login", "anthropic")
    assert status == 1
    assert said in shown
    assert not credentials(env).exists()


# --- permissions ----------------------------------------------------------------------------------


def test_permissions_are_given_listed_and_taken_back(env: Env, tmp_path: Path) -> None:
    assert run(env, "permissions").stdout == ""
    given = run(env, "permissions", "--allow", "edit:src", "--reject", "shell:rm", cwd=tmp_path)
    assert (given.returncode, given.stderr) == (0, "")
    listed = run(env, "permissions").stdout.splitlines()
    assert listed == [str(tmp_path.resolve()), "  allow  edit:src", "  reject shell:rm"]
    taken = ["permissions", "--project", str(tmp_path), "--revoke", "edit:src"]
    assert run(env, *taken).returncode == 0
    assert "edit:src" not in run(env, "permissions").stdout
    again = run(env, *taken)
    assert (again.returncode, again.stdout) == (1, "")
    assert "no answer remembered for edit:src" in again.stderr


def test_a_permission_for_nothing_is_refused(env: Env) -> None:
    result = run(env, "permissions", "--allow", "read:src")
    assert (result.returncode, result.stdout) == (1, "")
    assert "edit, shell, write" in result.stderr
    assert run(env, "permissions").stdout == ""
