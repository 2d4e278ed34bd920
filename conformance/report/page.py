"""One HTML page with everything on it: no scripts, no links to the outside.

Each check that did not pass opens to its findings and its whole conversation, the
frames that prove the findings marked.
"""

from __future__ import annotations

import json
from html import escape

from conformance.frames import CheckResult, Direction, Frame, Run, Status
from conformance.report.summary import broken, headline, ok, title, worst_first

STYLE = """
:root { color-scheme: light dark; --line: #8884; --mark: #ffc10733; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
summary { cursor: pointer; padding: .35rem 0; }
details { border-top: 1px solid var(--line); }
.status { display: inline-block; min-width: 4.5rem; font-weight: 600; }
.passed { color: #2e7d32; } .failed, .died, .hung { color: #d32f2f; } .skipped { color: #888; }
.level, .refs, .note { color: #888; font-size: .85em; }
.frames { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
.frames td { border-top: 1px solid var(--line); padding: .1rem .5rem; vertical-align: top; }
.frames pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.proof { background: var(--mark); }
li { margin: .2rem 0; }
"""


def render(run: Run) -> str:
    """The whole page."""
    verdict = "passed" if ok(run) else "failed"
    results = "\n".join(_result(result) for result in worst_first(run.results))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>ACP conformance: {_text(title(run))}</title>\n<style>{STYLE}</style>\n"
        f"</head>\n<body>\n<h1>{_text(title(run))}</h1>\n"
        f"<p><code>{_text(' '.join(run.command))}</code></p>\n"
        f'<p class="{verdict}">{_text(headline(run))}</p>\n{results}\n{_agent(run)}'
        "</body>\n</html>\n"
    )


def _result(result: CheckResult) -> str:
    refs = f' <span class="refs">{_text(", ".join(result.refs))}</span>' if result.refs else ""
    head = (
        f'<span class="status {result.status}">{result.status}</span> '
        f'<span class="level">{result.level}</span> <code>{_text(result.id)}</code> '
        f"{_text(result.title)}{refs}"
    )
    return (
        f'<details id="{_text(result.id)}"{" open" if broken(result) else ""}>'
        f"<summary>{head}</summary>{_body(result)}</details>"
    )


def _body(result: CheckResult) -> str:
    note = f'<p class="note">{_text(result.reason)}</p>' if result.reason else ""
    if result.status is Status.PASSED:
        note += f'<p class="note">{result.seconds:.2f} s</p>'
    items = "".join(
        f"<li><code>{_text(found.rule)}</code> {_text(found.message)}</li>"
        for found in result.findings
    )
    return note + (f"<ul>{items}</ul>" if items else "") + _frames(result)


def _frames(result: CheckResult) -> str:
    if not result.frames:
        return ""
    proving = {index for found in result.findings for index in found.frames}
    rows = "".join(
        _row(index, frame, index in proving) for index, frame in enumerate(result.frames)
    )
    return f'<table class="frames">{rows}</table>'


def _row(index: int, frame: Frame, proof: bool) -> str:
    arrow = "→" if frame.direction is Direction.C2A else "←"
    mark = ' class="proof"' if proof else ""
    return (
        f"<tr{mark}><td>{index}</td><td>{arrow}</td><td>{frame.time:.3f}</td>"
        f"<td><pre>{_text(_pretty(frame))}</pre></td></tr>"
    )


def _pretty(frame: Frame) -> str:
    text = frame.raw.decode("utf-8", "backslashreplace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, indent=1, ensure_ascii=False) if len(text) > 200 else text


def _agent(run: Run) -> str:
    if not run.agent:
        return ""
    data = _text(json.dumps(run.agent, indent=1, ensure_ascii=False))
    return f"<details><summary>What the agent announced</summary><pre>{data}</pre></details>\n"


def _text(text: str) -> str:
    """Text for a page: markup and lone surrogates made harmless."""
    return escape(text.encode("utf-8", "replace").decode("utf-8"))
