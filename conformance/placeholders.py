"""Makes a transcript independent of the machine, and puts a machine back in.

Directories that sessions work in become ``${cwd}``, ``${cwd2}`` …, the home
directory becomes ``${home}``. A text that held such a word already gets one more
dollar sign, which is taken away again. Works on the bytes of frames, because JSON
strings may spell one path in several ways. Pure.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from conformance.dialogue import Dialogue
from conformance.frames import Direction, Frame
from conformance.rejoin import rejoin
from conformance.transcript import Entry, Transcript

CWD = "${cwd}"
WORD = re.compile(rb"\$(\$*)\{(cwd\d*|home)\}")


def directories(frames: Iterable[Frame]) -> list[str]:
    """The working directories the client's sessions name, outermost only, in order."""
    calls = Dialogue(tuple(frames)).calls("session/new", "session/load", "session/resume")
    named = [call.params.get("cwd") for call in calls if call.direction is Direction.C2A]
    found = [cwd.rstrip("/") for cwd in named if isinstance(cwd, str) and is_absolute(cwd)]
    return [cwd for cwd in dict.fromkeys(found) if not any(_inside(cwd, o) for o in found)]


def is_absolute(path: str) -> bool:
    """Absolute on any platform and more than a root, so that replacing it is safe."""
    return bool(re.match(r"(/|[A-Za-z]:[\\/]|\\\\)[^/\\]", path))


def placeholders(transcript: Transcript, home: str | None = None) -> dict[str, str]:
    """Placeholder name -> the directory it stands for in this transcript."""
    cwds = directories(transcript.frames)
    if not cwds and transcript.header.cwd and is_absolute(transcript.header.cwd):
        cwds = [transcript.header.cwd]
    names = {f"cwd{number if number > 1 else ''}": cwd for number, cwd in enumerate(cwds, 1)}
    return names | ({"home": home} if home and is_absolute(home) else {})


def portable(transcript: Transcript, names: Mapping[str, str]) -> Transcript:
    """The transcript with placeholders for directories and without times.

    ``names`` says which directory each placeholder stands for.
    """
    hide = hider(names)
    frames = iter(rejoin(transcript.frames, names.values()))
    entries = tuple(
        _hidden(next(frames) if isinstance(entry, Frame) else entry, hide)
        for entry in transcript.entries
    )
    header = transcript.header
    command = tuple(hide(part.encode()).decode() for part in header.command)
    return Transcript(replace(header, command=command, cwd=CWD), entries)


def is_portable(transcript: Transcript) -> bool:
    """Whether directories are placeholders already; the header's ``cwd`` is one then."""
    return transcript.header.cwd == CWD


def _hidden(entry: Entry, hide: Callable[[bytes], bytes]) -> Entry:
    if isinstance(entry, Frame):
        return replace(entry, time=0.0, raw=hide(entry.raw))
    return replace(entry, time=0.0)


def hider(names: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """A function that puts placeholders into the bytes of a frame."""
    words = {spelling: name for name, path in names.items() for spelling in _spellings(path)}
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile(
        rb"(?:(?<![\w.$-])|(?<=\\[bfnrt]))(?:%s)(?![\w-]|\.\w)"
        % b"|".join(map(re.escape, longest_first))
    )

    def hide(raw: bytes) -> bytes:
        escaped = WORD.sub(rb"$\g<0>", raw)
        if not words:
            return escaped
        return pattern.sub(lambda found: b"${%s}" % words[found[0]].encode(), escaped)

    return hide


def text_hider(names: Mapping[str, str]) -> Callable[[str], str]:
    """The same for plain text."""
    hide = hider(names)
    return lambda text: hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _spellings(path: str) -> set[bytes]:
    """How a text or a JSON string may spell a path: escaped or not, slashes escaped or not."""
    real = os.path.realpath(path) if os.path.isabs(path) else path
    plain = {json.dumps(p, ensure_ascii=a)[1:-1] for p in (path, real) for a in (True, False)}
    plain |= {path, real}
    return {text.encode() for p in plain for text in (p, p.replace("/", "\\/"))}


def expand(raw: bytes, names: Mapping[str, str]) -> bytes:
    """The bytes of a frame with real directories in place of placeholders."""

    spelled = {n: json.dumps(path, ensure_ascii=False)[1:-1] for n, path in names.items()}
    return _expanded(raw, spelled)


def expand_text(text: str, names: Mapping[str, str]) -> str:
    """The same for plain text."""
    return _expanded(text.encode(), names).decode()


def _expanded(raw: bytes, names: Mapping[str, str]) -> bytes:
    def real(found: re.Match[bytes]) -> bytes:
        path = names.get(found[2].decode())
        if found[1] or path is None:
            return found[0][1:] if found[1] else found[0]
        return path.encode()

    return WORD.sub(real, raw)


def _inside(path: str, other: str) -> bool:
    return path != other and path.startswith(other.rstrip("/\\") + ("\\" if "\\" in other else "/"))
