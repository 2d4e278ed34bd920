"""Plays the agent's side of a transcript: what the agent sent before each line of the client.

    puppet.py TRANSCRIPT

It does not read what it is sent, except for the directory a session works in.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from conformance.frames import Direction, Frame
from conformance.placeholders import expand
from conformance.transcript import Event, load


def main() -> None:
    names: dict[str, str] = {"home": os.path.expanduser("~")}
    for entry in load(Path(sys.argv[1])).entries:
        if isinstance(entry, Event):
            continue
        if entry.direction is Direction.A2C:
            sys.stdout.buffer.write(expand(entry.raw, names) + b"\n")
            sys.stdout.buffer.flush()
        else:
            listen(entry, names)
    sys.stdin.buffer.read()


def listen(expected: Frame, names: dict[str, str]) -> None:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    recorded = json.loads(expected.raw).get("params")
    live = json.loads(line).get("params")
    if isinstance(recorded, dict) and recorded.get("cwd") == "${cwd}":
        names["cwd"] = live["cwd"]


if __name__ == "__main__":
    main()
