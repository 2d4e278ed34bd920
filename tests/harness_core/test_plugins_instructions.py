"""Instructions: what a project's own files add to the prompt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness_core.facts import RequestContext
from harness_core.model.scripted import said
from harness_core.plugins.instructions import LONGEST, read_instructions
from tests.harness_core.kit import VIRTUAL, world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


def test_the_first_file_that_is_there_counts(tmp_path: Path) -> None:
    assert read_instructions(tmp_path) == ""
    (tmp_path / "CLAUDE.md").write_text("second choice")
    assert "second choice" in read_instructions(tmp_path)
    (tmp_path / "AGENTS.md").write_text("first choice\n")
    text = read_instructions(tmp_path)
    assert text == f"Instructions of {tmp_path / 'AGENTS.md'}:\n\nfirst choice"


def test_a_long_file_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x" * LONGEST)
    assert not read_instructions(tmp_path).endswith("[cut here]")
    (tmp_path / "AGENTS.md").write_text("x" * (LONGEST + 1))
    text = read_instructions(tmp_path)
    assert text.endswith("x\n[cut here]")
    assert len(text) < LONGEST + 1000


def test_a_file_that_says_nothing_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert read_instructions(tmp_path) == ""


def test_what_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").mkdir()
    assert read_instructions(tmp_path) == ""
    assert read_instructions(tmp_path / "nowhere") == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    assert read_instructions(tmp_path) == ""


def test_bytes_that_are_not_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"caf\xe9 \xff")
    assert "caf\ufffd \ufffd" in read_instructions(tmp_path)


async def test_every_root_is_read_in_order_and_changes_are_seen(tmp_path: Path) -> None:
    """Requirement V1-DIR-07: additional directories bring their own instructions."""
    first, second = tmp_path / "first", tmp_path / "second"
    for root in (first, second):
        root.mkdir()
        (root / "AGENTS.md").write_text(f"rules of {root.name}")
    async with world(said("1"), said("2"), said("3"), cwd=str(first)) as w:
        w.agent.set_roots([second])
        await w.turn()
        system = w.last(RequestContext).system
        assert 0 < system.index("rules of first") < system.index("rules of second")
        await w.turn()
        assert len(w.all(RequestContext)) == 1
        (first / "AGENTS.md").write_text("new rules")
        await w.turn()
        assert "new rules" in w.last(RequestContext).system
