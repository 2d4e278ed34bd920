"""Private files: complete or untouched, and nobody else's business."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness_core.private import write_private


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    for data in (b"first", b"second"):
        write_private(path, data)
        assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        write_private(tmp_path / "taken", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
