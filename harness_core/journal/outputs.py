"""Outputs too large for the log, each in a private file beside it."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress

from harness_core.journal.disk import make_directory, sync_directory, sync_path, write_file
from harness_core.journal.layout import Place, file_name


def keep_output(place: Place, name: str, data: bytes) -> str:
    """Write ``data`` to a new file that is named after ``name``; its absolute path.

    Nothing is overwritten: a name that is taken gets a number. Raises ``OSError``.
    """
    for directory in (os.path.dirname(place.directory), place.directory, place.outputs):
        make_directory(directory)
    stem, suffix = os.path.splitext(file_name(name))
    number = 1
    while True:
        unique = f"{stem}-{number}" if number > 1 else stem
        path = os.path.join(place.outputs, unique + suffix)
        try:
            write_file(path, data)
            return path
        except FileExistsError:
            number += 1


def sync_outputs(place: Place, paths: deque[str]) -> None:
    """Make the files at ``paths`` safe and take them out. Raises ``OSError``.

    One that was removed since needs no safety.
    """
    if paths:
        while paths:
            with suppress(FileNotFoundError):
                sync_path(paths.popleft())
        sync_directory(place.directory)
        with suppress(FileNotFoundError):
            sync_directory(place.outputs)
