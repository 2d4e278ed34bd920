"""Sessions that are kept: listed, closed, loaded, resumed, deleted."""

from __future__ import annotations

from conformance.answers import PERMISSION, allow
from corpus.steps import (
    Ask,
    Scenario,
    Settled,
    Until,
    call,
    cancel,
    hello,
    new,
    of_session,
    prompt,
    reopen,
    started,
)

OLD = {"sessionId": "${session1}", "cwd": "${cwd}", "mcpServers": []}
HELLO = [{"type": "text", "text": "Hello?"}]
WAIT = {"steering": {"idleBehavior": "promptRequired"}}
POEM = "Roses are red,\nviolets are blue.\n"
RICH = prompt(
    "!think Where is it?",
    "!say Looking.",
    "!plan [>] look; change",
    call("read", path="poem.txt"),
    call("edit", path="poem.txt", old_text="blue", new_text="green"),
    call("shell", command="cat poem.txt; exit 1"),
    call("read", path="missing.txt"),
    "!say That is all.",
)

SCENARIOS = (
    Scenario(
        "load",
        "Everything is shown again: text, thoughts, plan, calls with their results, an error",
        ("session.load", "session.close"),
        started(
            RICH,
            prompt("!say Half a", "!fail 500"),
            of_session("session/close"),
            reopen("session/load"),
            prompt("!context"),
            reopen("session/load"),
        ),
        files={"poem.txt": POEM},
        answers={PERMISSION: allow},
    ),
    Scenario(
        "load-cancelled",
        "What was cancelled stays as it was: text cut short, a call that was ended",
        ("session.load.cancelled",),
        started(
            prompt("!say Half a sent", "!hang", wait=False),
            Until("sent"),
            cancel(),
            Settled(),
            prompt(call("shell", command="echo begun; sleep 600"), wait=False),
            Until("begun\\n"),
            cancel(),
            Settled(),
            of_session("session/close"),
            reopen("session/load"),
            prompt("!context"),
        ),
        settings={"ACP_HARNESS_MODE": "auto"},
    ),
    Scenario(
        "resume",
        "Resumed without a replay; the model knows what was said",
        ("session.resume",),
        started(
            prompt("My name is Ada.", "!say Pleased to meet you."),
            of_session("session/close"),
            reopen("session/resume"),
            prompt("!context"),
        ),
    ),
    Scenario(
        "list",
        "Listed: none, all, those of a directory; a cursor nobody gave",
        ("session.list",),
        (
            hello(),
            Ask("session/list"),
            Ask("session/list", None),
            new(),
            new("${cwd2}"),
            prompt("First things first\n!say Yes."),
            prompt("Second thoughts\n!say Yes.", session="${session2}"),
            Ask("session/list", {}),
            Ask("session/list", {"cwd": "${cwd2}"}),
            Ask("session/list", {"cwd": "${cwd}/nowhere"}),
            Ask("session/list", {"cwd": "relative"}),
            Ask("session/list", {"cursor": "made up"}),
        ),
    ),
    Scenario(
        "close",
        "Closed while a prompt runs: it is cancelled first; a closed session is unknown",
        ("session.close", "session.close.running"),
        started(
            prompt("!say Working…", "!hang", wait=False),
            Until("Working"),
            of_session("session/close"),
            Settled(),
            prompt("!say Anybody there?"),
            of_session("session/close"),
            of_session("session/close", "unknown"),
        ),
    ),
    Scenario(
        "delete",
        "Deleted, even while it is open: gone from the list, and it cannot come back",
        ("session.delete",),
        started(
            prompt("!say Remember me."),
            of_session("session/delete"),
            Ask("session/list", {}),
            of_session("session/delete"),
            of_session("session/delete", "unknown"),
            reopen("session/load"),
            reopen("session/resume"),
            prompt("!say Anybody there?"),
        ),
    ),
    Scenario(
        "unknown-session",
        "Requests about sessions that never were, or in another directory than theirs",
        ("session.unknown",),
        started(
            prompt("!say Nobody hears this.", session="unknown"),
            reopen("session/load", "unknown"),
            reopen("session/resume", "../../etc/passwd"),
            reopen("session/load", ""),
            Ask("session/load", {"sessionId": 7, "cwd": "${cwd}", "mcpServers": []}),
            Ask("session/load", {"sessionId": "${session1}"}),
            reopen("session/load", cwd="relative"),
            prompt("!say Kept."),
            of_session("session/close"),
            reopen("session/load", cwd="${cwd2}"),
        ),
    ),
    Scenario(
        "fork",
        "A session with the past of another, whole or up to an answer; the first stays as it is",
        ("session.fork",),
        started(
            prompt("My name is Ada.", "!say Pleased to meet you."),
            prompt("My name is Bob.", "!say Are you sure?"),
            reopen("session/fork"),
            prompt("!context", session="${session2}"),
            Ask("session/fork", {**OLD, "_meta": {"acp-harness": {"message": "msg-1-1"}}}),
            prompt("!context", session="${session3}"),
            Ask("session/fork", {**OLD, "_meta": {"acp-harness": {"message": "nothing"}}}),
            reopen("session/fork", "unknown"),
            prompt("!context"),
        ),
    ),
    Scenario(
        "steering",
        "A word to the turn that runs; and when none runs",
        ("steering",),
        started(
            prompt("!say Working.", call("shell", command="sleep 1"), "!context", wait=False),
            Until("in_progress"),
            of_session("_session/steering", prompt=[{"type": "text", "text": "Hurry up!"}]),
            Settled(),
            of_session("_session/steering", prompt=HELLO, _meta=WAIT),
            of_session("_session/steering", prompt=[{"type": "hologram"}]),
            of_session("_session/steering", "unknown", prompt=[]),
        ),
        settings={"ACP_HARNESS_MODE": "auto"},
        needs="_session/steering",
    ),
)
