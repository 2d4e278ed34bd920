"""Sessions on disk, below HOME: one file of JSON lines each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from toy.mutation import broken
from toy.peer import INVALID_PARAMS, Failure, Json

PAGE = 40
ROOT = Path(os.environ.get("HOME", ".")) / ".toy"
LOGIN = ROOT / "logged-in"


class Log:
    """The record of one session: its header, then updates and model messages as they happen."""

    def __init__(self, id: str) -> None:
        self.path = ROOT / f"{id}.jsonl"
        self._late: list[str] = []

    def exists(self) -> bool:
        return self.path.exists()

    def append(self, kind: str, value: Any) -> None:
        line = json.dumps([kind, value]) + "\n"
        if broken("LOAD-01.killed") and kind != "header":
            self._late.append(line)
            return
        self._write(line)

    def flush(self) -> None:
        self._write("".join(self._late))
        self._late = []

    def _write(self, text: str) -> None:
        ROOT.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def entries(self, kind: str) -> list[Any]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [value for entry, value in map(json.loads, lines) if entry == kind]

    def delete(self) -> None:
        if not broken("DEL-01"):
            self.path.unlink(missing_ok=True)


def listing(cwd: str | None, cursor: str | None) -> Json:
    """One page of the sessions on disk. Raises ``Failure`` for a cursor that is none."""
    logs = [Log(path.stem) for path in ROOT.glob("*.jsonl")]
    logs.sort(key=lambda log: (log.entries("header")[0]["created"], log.path.name))
    infos = [_info(log) for log in logs]
    if cwd is not None and not broken("LIST-02"):
        infos = [info for info in infos if info["cwd"] == cwd]
    start = 0
    if cursor is not None:
        if not cursor.startswith("after-") and not broken("LIST-04"):
            raise Failure(INVALID_PARAMS, "This cursor is none of mine")
        start = int(cursor[6:]) if cursor.startswith("after-") else 0
    page = infos[start : start + PAGE]
    if broken("LIST-01") and not page:
        return {"sessions": None}
    more = start + PAGE < len(infos)
    step = PAGE - 1 if broken("LIST-03") else PAGE
    return {"sessions": page, **({"nextCursor": f"after-{start + step}"} if more else {})}


def _info(log: Log) -> Json:
    id = log.path.stem
    cwd = log.entries("header")[0]["cwd"]
    info: Json = {"sessionId": id, "cwd": Path(cwd).name if broken("LIST-01.shape") else cwd}
    titles = log.entries("title")
    if titles:
        info["title"] = "another title" if broken("LIST-05") else titles[-1]
    return info
