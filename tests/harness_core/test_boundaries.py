"""The three event domains: which event points there are, and which may never be.

A durable fact is read off ``session/event``; nothing mirrors it as a live event. The points are
counted in a process of their own, in which every module of ours was imported.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import harness_core
from harness_core.bus import DOMAINS, MIRRORS, Emit, Parallel, Point, Serial, Waterfall
from harness_core.facts import Fact

ROOT = Path(harness_core.__file__).parent.parent

POINTS = {
    "session/created": "emit",
    "session/event": "emit",
    "session/disposed": "emit",
    "session/flush": "parallel",
    "agent/pre-step": "waterfall",
    "agent/request": "waterfall",
    "agent/request-error": "waterfall",
    "agent/turn-stopping": "serial",
    "agent/created": "emit",
    "agent/disposed": "emit",
    "agent/status": "emit",
    "agent/inbox/inserted": "emit",
    "agent/inbox/claimed": "emit",
    "agent/inbox/discarded": "emit",
    "agent/error": "emit",
    "agent/session-start": "emit",
    "tools/pre-execute": "waterfall",
    "tools/execute": "waterfall",
    "tools/approve": "waterfall",
    "tools/post-execute": "waterfall",
    "tools/result": "emit",
    "tools/change": "emit",
}
"""All there are, and their verbs. Adding one is a decision about the boundary."""

NEVER = {
    "agent/turn-start",
    "agent/turn-end",
    "agent/step-start",
    "agent/step-end",
    "agent/stream-chunk",
    "agent/steering",
}

IMPORT_EVERYTHING = """
import importlib, json, pkgutil
for package in ("harness_core", "acp_server"):
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from harness_core.bus import Point
print(json.dumps({name: [type(p).verb, p.doc] for name, p in Point.registry.items()}))
"""


@pytest.fixture(scope="module")
def declared() -> dict[str, tuple[str, str]]:
    """Every point that importing everything declares: its verb and what it says of itself."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING],
        capture_output=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return {name: tuple(about) for name, about in json.loads(done.stdout).items()}


def test_the_event_points_are_exactly_these(declared: dict[str, tuple[str, str]]) -> None:
    assert {name: verb for name, (verb, _) in declared.items()} == POINTS


def test_every_event_point_says_what_it_is_for(declared: dict[str, tuple[str, str]]) -> None:
    assert [name for name, (_, doc) in declared.items() if not doc.endswith(".")] == []


def test_what_mirrors_a_fact_is_known() -> None:
    assert NEVER == MIRRORS
    assert DOMAINS == ("session", "agent", "tools")


@pytest.mark.parametrize("kind", [Emit, Waterfall, Serial, Parallel])
@pytest.mark.parametrize("name", sorted(NEVER))
def test_nobody_can_declare_a_mirror_of_a_fact(kind: type[Point], name: str) -> None:
    with pytest.raises(ValueError, match="read it off session/event"):
        kind(name, "A mirror.")
    assert name not in Point.registry


def test_a_point_and_a_fact_never_share_a_name() -> None:
    assert POINTS.keys() & Fact.registry.keys() == set()


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize(
    "path",
    sources("harness_core", "acp_server"),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_nobody_spells_the_name_of_a_mirror(path: Path) -> None:
    strings = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert strings & NEVER == set()
