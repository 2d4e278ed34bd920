"""What every report says the same way: counts, verdict, and which frames prove what. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conformance.frames import CheckResult, Direction, Frame, Level, Run, Status

BROKEN = (Status.FAILED, Status.DIED, Status.HUNG)
BINDING = (Level.MUST, Level.SHOULD)
ORDER = [*BROKEN, Status.SKIPPED, Status.PASSED]
LONGEST = 400
"""Characters of a frame that a list of frames shows."""


def broken(result: CheckResult) -> bool:
    """Whether the check found something."""
    return result.status in BROKEN


def binding(result: CheckResult) -> bool:
    """Whether the specification asks for it, rather than we."""
    return result.level in BINDING


def ok(run: Run) -> bool:
    """Whether everything the specification asks for was found in order."""
    return not any(broken(result) and binding(result) for result in run.results)


def count(results: Iterable[CheckResult]) -> Counter[Status]:
    """How many results ended in each status."""
    return Counter(result.status for result in results)


def headline(run: Run) -> str:
    """The verdict in one line."""
    counts = count(run.results)
    parts = [f"{counts[status]} {status}" for status in ORDER if counts[status]]
    advice = sum(broken(result) and not binding(result) for result in run.results)
    note = f" ({advice} of them recommendations)" if advice else ""
    return f"{len(run.results)} checks: {', '.join(parts)}{note}" if parts else "no checks"


def title(run: Run) -> str:
    """The agent's name and version as it gave them, else its command."""
    info = run.agent.get("agentInfo")
    if isinstance(info, dict) and info.get("name"):
        return f"{info['name']} {info.get('version', '')}".strip()
    return " ".join(run.command)


def worst_first(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Broken duties first, then broken recommendations, then the rest, each by id."""
    levels = list(Level)
    return sorted(results, key=lambda r: (ORDER.index(r.status), levels.index(r.level), r.id))


def proof(result: CheckResult) -> list[tuple[int, Frame]]:
    """The frames that the findings point at, with their indexes, in order."""
    wanted = sorted({index for finding in result.findings for index in finding.frames})
    return [(index, result.frames[index]) for index in wanted if index < len(result.frames)]


def show(frame: Frame, longest: int = LONGEST) -> str:
    """A frame as one line: an arrow from who spoke, and the text, its middle cut if long."""
    arrow = "→" if frame.direction is Direction.C2A else "←"
    text = frame.raw.decode("utf-8", "backslashreplace")
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return f"{arrow} {_cut(printable, longest)}"


def _cut(text: str, longest: int) -> str:
    """The text without its middle if it is long: both ends tell most."""
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"
