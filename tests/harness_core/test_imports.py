"""Imports go one way, and starting loads only what answering ``initialize`` needs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import harness_core

ROOT = Path(harness_core.__file__).parent.parent
OURS = ("harness_core", "acp_server", "conformance")

MAY_IMPORT = {
    "conformance": {"conformance"},
    "harness_core": {"harness_core"},
    "acp_server": {"acp_server", "harness_core"},
}

COMPOSITION_ROOT = "harness_core/harness.py"

HEAVY = (
    "anyio",
    "httpx",
    "httpx_sse",
    "jsonrpcserver",
    "jsonschema",
    "mcp",
    "pathspec",
    "platformdirs",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "harness_core.facts",
    "harness_core.harness",
    "harness_core.model",
    "harness_core.session",
    "harness_core.tools",
)
"""What the first answer does without. Each is loaded when it is first used."""

LATER = ("httpx", "httpx_sse", "jsonschema", "mcp", "prompt_toolkit", "rich")
"""What a harness does without until a model is called, or a server, or a terminal is used."""


def modules(*packages: str) -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def imported(module: str) -> set[str]:
    """Every module that a source file names in an import, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: imports are absolute"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("module", modules(*OURS))
def test_packages_import_in_one_direction(module: str) -> None:
    may = MAY_IMPORT[module.split("/")[0]]
    foreign = {name for name in imported(module) if name.split(".")[0] in OURS}
    assert {name for name in foreign if name.split(".")[0] not in may} == set()


@pytest.mark.parametrize(
    "module",
    [
        name
        for name in modules("harness_core")
        if not name.startswith("harness_core/plugins/") and name != COMPOSITION_ROOT
    ],
)
def test_the_kernel_knows_no_plugin(module: str) -> None:
    plugins = {name for name in imported(module) if name.startswith("harness_core.plugins")}
    assert plugins == set()


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return set(json.loads(done.stdout))


def within(names: set[str], roots: tuple[str, ...]) -> set[str]:
    return {name for name in names if any(f"{name}.".startswith(f"{root}.") for root in roots)}


def test_the_server_starts_without_anything_heavy() -> None:
    assert within(loaded_by("import acp_server.server"), HEAVY) == set()


def test_the_command_starts_without_anything_heavy() -> None:
    assert within(loaded_by("import acp_server.__main__"), HEAVY) == set()


def test_a_harness_starts_without_what_only_some_sessions_need() -> None:
    assert within(loaded_by("import harness_core.harness"), LATER) == set()


def test_a_library_brings_along_only_what_is_used_of_it() -> None:
    """httpx has a command line, jsonrpcserver a validator; both are large and not for us."""
    calling = "from harness_core.model.http import preload; preload(); preload()"
    assert within(loaded_by(calling), ("httpx._main", "rich", "pygments", "click")) == set()
    serving = "import acp_server.bringup, acp_server.jsonrpc as l; l.jsonrpcserver()"
    assert within(loaded_by(serving), LATER) == set()
    checking = 'l.jsonrpcserver().dispatch(\'{"jsonrpc": "2.0", "method": 5}\')'
    invalid = f"import acp_server.jsonrpc as l\nassert '-32600' in {checking}"
    assert "jsonschema.validators" in loaded_by(invalid)


def test_an_agent_starts_without_what_only_questions_need() -> None:
    questions = ("acp_server.forms", "acp_server.key_page", "acp_server.sign_in", "http.cookies")
    assert within(loaded_by("import acp_server.bringup"), questions) == set()


def test_every_kernel_module_can_be_imported_first() -> None:
    """No module works only because another was imported before it."""
    kernel = (name for name in modules("harness_core") if name.count("/") == 1)
    names = [f"harness_core.{Path(name).stem}" for name in kernel if "__init__" not in name]
    code = (
        "import importlib, sys\n"
        "keep = set(sys.modules)\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        "    for one in [m for m in sys.modules if m.startswith('harness_core')]:\n"
        "        del sys.modules[one]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
