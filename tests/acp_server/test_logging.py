"""Log records: written where the settings say, by somebody else, and never waited for."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_server.logs import STDERR, WAITING, Logging
from harness_core.config import Settings

log = logging.getLogger("tests.logging")


@contextmanager
def stderr_to(target: int) -> Iterator[None]:
    """While in the block, the process's stderr is ``target``."""
    kept = os.dup(STDERR)
    os.dup2(target, STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def settings(level: str = "warning", file: Path | None = None) -> Settings:
    return Settings.model_validate({"log_level": level, "log_file": str(file) if file else None})


def test_records_of_the_level_go_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("before\n")
    with Logging(settings("info", file)):
        log.info("seen: %s", "日本")
        log.debug("not seen")
        logging.getLogger("httpx").info("not seen either")
        try:
            raise ValueError("the reason")
        except ValueError:
            log.exception("it failed")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert "INFO tests.logging: seen: 日本" in text
    assert "not seen" not in text
    assert "it failed\nTraceback" in text
    assert "the reason" in text
    assert file.stat().st_mode & 0o777 == 0o644 or os.name == "nt"


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with Logging(settings("info", tmp_path / "log")):
        log.info("x")
    assert os.name == "nt" or (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no"):
        Logging(settings("info", tmp_path / "no" / "log"))


def test_without_a_file_records_go_to_stderr() -> None:
    reading, writing = os.pipe()
    with stderr_to(writing), Logging(settings()):
        log.warning("to whom it may concern")
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert lines.read().endswith("WARNING tests.logging: to whom it may concern\n")


def test_warnings_are_records(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with Logging(settings("warning", file)):
            warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    assert "old ways" in file.read_text()


def test_what_was_set_up_before_is_there_again(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with Logging(settings("debug", tmp_path / "log")):
        assert root.handlers != before[0]
    assert (root.handlers, root.level) == before


def test_nobody_waits_for_a_reader_who_does_not_read() -> None:
    """Neither does the end: this would hang."""
    reading, writing = os.pipe()
    try:
        with stderr_to(writing), Logging(settings("info")):
            for _ in range(2 * WAITING):
                log.info("x" * 100)
    finally:
        os.close(writing)
        os.close(reading)


def test_nobody_minds_a_reader_who_has_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with stderr_to(writing), Logging(settings()):
        log.warning("to nobody")
        log.warning("again")
    os.close(writing)
    assert "log" not in [thread.name for thread in threading.enumerate() if not thread.daemon]
