"""The run as JSON, for other programs. Frames look as they do in a transcript."""

from __future__ import annotations

import json
from typing import Any

from conformance.frames import CheckResult, Run
from conformance.report.summary import count, ok
from conformance.transcript import render_entry

FORMAT = 1


def render(run: Run) -> str:
    """The whole run, frames of checks that did not pass included."""
    return json.dumps(as_data(run), indent=1, ensure_ascii=True) + "\n"


def as_data(run: Run) -> dict[str, Any]:
    """The run as plain values."""
    return {
        "format": FORMAT,
        "command": list(run.command),
        "agent": run.agent,
        "ok": ok(run),
        "counts": {str(status): number for status, number in count(run.results).items()},
        "results": [_result(result) for result in run.results],
    }


def _result(result: CheckResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": result.id,
        "title": result.title,
        "level": str(result.level),
        "refs": list(result.refs),
        "status": str(result.status),
        "seconds": round(result.seconds, 3),
    }
    if result.reason:
        data["reason"] = result.reason
    if result.findings:
        data["findings"] = [
            {"rule": found.rule, "message": found.message, "frames": list(found.frames)}
            for found in result.findings
        ]
    if result.frames:
        data["frames"] = [json.loads(render_entry(frame)) for frame in result.frames]
    return data
