"""Runs the catalogue against an agent command.

It owns the order, the parallelism and the limits, and turns whatever happens in a check into a
result: an agent that hangs or dies is a result, never an error of the kit.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from conformance.checks import CATALOGUE, Check
from conformance.checks.context import Context
from conformance.checks.editor import Editor
from conformance.checks.profile import Probe, Profile
from conformance.checks.verdict import CheckFailed, NotApplicable
from conformance.faults import Died, Hung, RpcError
from conformance.frames import CheckResult, Finding, Frame, Level, Run, Status
from conformance.incoming import Incoming
from conformance.lint import RULES, lint

ALL_LEVELS = frozenset(Level)
LIMIT_FACTOR = 8
"""A whole check may take this many times the timeout of a single wait."""
LINT = "LINT"
FINDINGS_PER_RULE = 10
"""Breaches of one global rule that are shown; more of the same teach nothing."""
TEXT_CHUNK = b"agent_message_chunk"
CHUNKS_KEPT = 500
"""How many text chunks at the beginning and at the end of a conversation are judged."""
OPEN_ENDS = "answer.before-exit"
"""The rule about what an agent owes at EOF; it means nothing if the agent was killed."""


async def run_checks(
    command: Sequence[str],
    *,
    ids: Sequence[str] = (),
    levels: Collection[Level] = ALL_LEVELS,
    model: bool = True,
    timeout: float = 10.0,
    jobs: int = 2,
    env: Mapping[str, str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> Run:
    """Try every selected check on ``command``, each with its own processes and directories.

    ``timeout`` is in seconds and bounds each single wait. ``env`` is added to the agent's
    environment; ``{openai_base_url}``, ``{anthropic_base_url}``, ``{api_key}``, ``{model}``,
    ``{home}`` and ``{cwd}`` in it are filled in. Raises ``ValueError`` for an unknown id and
    ``OSError`` if the command cannot be started.
    """
    checks = CATALOGUE.select(ids, levels)
    make = Maker(tuple(command), dict(env or {}), timeout)
    profile = await make.profile(model)
    rules = GlobalRules()
    slots = asyncio.Semaphore(max(1, jobs))
    tell = on_result or (lambda _result: None)

    async def one(check: Check) -> CheckResult:
        async with slots:
            result = await run_check(check, make.context(profile), rules)
        tell(result)
        return result

    results = await asyncio.gather(*(one(check) for check in checks))
    judged = tuple(rules.results(levels))
    for result in judged:
        tell(result)
    return Run(make.command, profile.info, (*results, *judged))


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes a context for each check, and the profile they share."""

    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = 10.0

    def context(self, profile: Profile) -> Context:
        """The world of one check, not yet entered."""
        return Context(self.command, env=self.env, timeout=self.timeout, profile=profile)

    async def profile(self, model: bool = True) -> Profile:
        """Find out what the agent is like. Raises ``OSError`` if it cannot be started."""
        async with (
            self.context(Profile(exits_on_eof=False)) as context,
            context.agent(end=False) as editor,
        ):
            return await Probe(editor, context.model.requests).run(context.cwd, model)


class GlobalRules:
    """The rules that hold for every conversation, applied to all conversations of a run."""

    def __init__(self) -> None:
        self._findings: dict[str, list[Finding]] = defaultdict(list)
        self._frames: dict[str, list[Frame]] = defaultdict(list)

    def look_at(self, check: str, editor: Editor) -> None:
        """Judge one conversation; ``check`` is the id of the check that led it."""
        frames = thinned(editor.frames)
        for finding in lint(frames, complete=editor.complete):
            if finding.rule != OPEN_ENDS or editor.left_in_peace:
                self._keep(check, finding, frames)

    def _keep(self, check: str, finding: Finding, frames: Sequence[Frame]) -> None:
        shown, kept = self._findings[finding.rule], self._frames[finding.rule]
        if len(shown) < FINDINGS_PER_RULE:
            places = tuple(range(len(kept), len(kept) + len(finding.frames)))
            kept += (frames[index] for index in finding.frames)
            shown.append(Finding(finding.rule, f"in {check}: {finding.message}", places))

    def results(self, levels: Collection[Level]) -> Iterator[CheckResult]:
        """One result per rule, in the order of the rules."""
        for rule in RULES.values():
            if rule.actor == "agent" and 1 in rule.versions and rule.level in levels:
                findings = tuple(self._findings[rule.id])
                yield CheckResult(
                    id=f"{LINT}.{rule.id}",
                    title=rule.title,
                    level=rule.level,
                    refs=rule.refs,
                    status=Status.FAILED if findings else Status.PASSED,
                    seconds=0.0,
                    findings=findings,
                    frames=tuple(self._frames[rule.id]),
                )


def thinned(frames: Sequence[Frame]) -> list[Frame]:
    """A long conversation without the bulk of its text chunks, which are all alike.

    The rules look at every frame many times; twenty thousand chunks would take them long.
    """
    chunks = [n for n, frame in enumerate(frames) if TEXT_CHUNK in frame.raw]
    dropped = set(chunks[CHUNKS_KEPT:-CHUNKS_KEPT])
    return [frame for n, frame in enumerate(frames) if n not in dropped]


async def run_check(check: Check, context: Context, rules: GlobalRules) -> CheckResult:
    """Try one check in a context made for it; its conversations are shown to ``rules``."""
    if reason := context.profile.unmet(check.needs):
        return _result(check, Status.SKIPPED, 0.0, reason=reason)
    started = time.monotonic()
    async with context:
        status, findings, reason = await _verdict(check, context)
    for editor in context.editors if check.judged else ():
        rules.look_at(check.id, editor)
    seconds = time.monotonic() - started
    frames = tuple(frame for editor in context.editors for frame in editor.frames)
    kept = () if status is Status.PASSED else frames
    return _result(check, status, seconds, findings, reason, kept)


async def _verdict(check: Check, context: Context) -> tuple[Status, tuple[Finding, ...], str]:
    """Run the check's body and put what happened into words."""
    limit = context.timeout * LIMIT_FACTOR
    try:
        async with asyncio.timeout(limit):
            await check.body(context)
    except NotApplicable as reason:
        return Status.SKIPPED, (), str(reason)
    except CheckFailed as failure:
        places = _places(context.editors, failure.evidence)
        return Status.FAILED, (Finding(check.id, str(failure), places),), ""
    except RpcError as error:
        message = f"the agent answered a correct request with the error {error}"
        return Status.FAILED, (Finding(check.id, message),), ""
    except Hung as hung:
        return Status.HUNG, (Finding(check.id, str(hung)),), ""
    except Died as died:
        return Status.DIED, (Finding(check.id, str(died)),), ""
    except TimeoutError:
        return Status.HUNG, (Finding(check.id, f"the check took more than {limit:g} s"),), ""
    except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        message = f"the check could not make sense of what the agent did: {error!r}"
        return Status.FAILED, (Finding(check.id, message),), ""
    return Status.PASSED, (), ""


def _places(editors: Sequence[Editor], evidence: Sequence[Incoming]) -> tuple[int, ...]:
    """Where messages stand in the frames of all editors, one after the other."""
    offsets = accumulate((len(editor.frames) for editor in editors), initial=0)
    return tuple(
        offset + message.index
        for editor, offset in zip(editors, offsets, strict=False)
        for message in evidence
        if any(message is candidate for candidate in editor.incoming)
    )


def _result(
    check: Check,
    status: Status,
    seconds: float,
    findings: tuple[Finding, ...] = (),
    reason: str = "",
    frames: tuple[Frame, ...] = (),
) -> CheckResult:
    return CheckResult(
        check.id, check.title, check.level, check.refs, status, seconds, findings, reason, frames
    )
