"""REG, INT and PERF: what the registry, other clients and impatient users expect."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from conformance.checks.catalogue import check
from conformance.checks.context import Context
from conformance.checks.editor import chunks, initialize_params
from conformance.checks.steps import require_stop
from conformance.checks.verdict import NotApplicable, require
from conformance.faults import Hung
from conformance.frames import Level

STARTS = 5
START_SECONDS = 1.0
REGISTRY_META = {"terminal-auth": True, "terminal_output": True}


@check("REG-01", "the registry's check", Level.REC, "REG", "nothing")
async def registry(ctx: Context) -> None:
    """Do what the registry does: an empty home, one ``initialize``, one line.

    The line is the answer, and it offers a login of type agent or terminal.
    """
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    async with ctx.agent(env=ctx.environment(model=False)) as editor:
        params = initialize_params({**capabilities, "_meta": REGISTRY_META})
        sent = await editor.start("initialize", params)
        result = await sent.result()
        first = editor.incoming[0]
    require(first is sent.response, "another line came before the answer", first)
    methods = result.get("authMethods") or []
    fitting = [m for m in methods if _known_login(m)]
    require(fitting, f"no login of type agent or terminal among {methods}")


def _known_login(method: Any) -> bool:
    if not isinstance(method, dict):
        return False
    meta = method.get("_meta") or {}
    return method.get("type", "agent") in {"agent", "terminal"} or "terminal-auth" in meta


@check("PERF-01", "start-up", Level.REC, "V1-INIT-17 advice")
async def start_up(ctx: Context) -> None:
    """Start the agent five times. The fastest answers ``initialize`` within a second."""
    times = [await _start_seconds(ctx) for _ in range(STARTS)]
    best = min(times)
    require(best < START_SECONDS, f"the fastest of {STARTS} starts took {best:.2f} s")


async def _start_seconds(ctx: Context) -> float:
    started = time.monotonic()
    async with ctx.agent(end=False) as editor:
        await editor.initialize()
        return time.monotonic() - started


@check("PERF-02", "throughput", Level.REC, "V1-TOOL-10 advice", "model")
async def throughput(ctx: Context) -> None:
    """Let the model stream 20,000 small chunks.

    All text arrives in order, and stdout carries less than a KiB for each chunk: nothing is sent
    again and again.
    """
    count = 20_000
    async with ctx.session() as session:
        before = session.editor.process.bytes_out
        turn = await session.start(chunks(count, "w{i} "))
        await turn.sent.wait(4 * ctx.timeout)
        written = session.editor.process.bytes_out - before
    require_stop(turn, "end_turn")
    whole = "".join(f"w{i} " for i in range(count)).strip()
    require(whole in turn.text, "text was lost or reordered")
    require(written < count * 1024, f"{written} bytes were written for {count} chunks")


@check("INT-02", "the Python SDK's client", Level.REC, "advice", "model")
async def python_sdk(ctx: Context) -> None:
    """Drive the agent with the client of ``agent-client-protocol``: initialize, session, prompt.

    Everything it receives parses, and the prompt is answered ``end_turn``.
    """
    if importlib.util.find_spec("acp") is None:
        raise NotApplicable("the package agent-client-protocol is not installed")
    from conformance.checks.sdk import converse

    try:
        stop, text = await converse(ctx)
    except TimeoutError:
        raise Hung(f"the SDK's client was not answered within {ctx.timeout:g} s") from None
    require(stop == "end_turn", f"the SDK's client got the stop reason {stop!r}")
    require("from the sdk" in text, f"the SDK's client was shown {text!r}")
