"""How a conversation begins: versions, capabilities, logins, new sessions."""

from __future__ import annotations

from corpus.steps import (
    FILES,
    TERMINAL,
    Ask,
    Line,
    Scenario,
    Settled,
    Until,
    hello,
    message,
    new,
    prompt,
)

EVERYTHING = {
    **FILES,
    **TERMINAL,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}

SCENARIOS = (
    Scenario(
        "initialize-minimal",
        "Only a protocol version, then a session and a prompt",
        ("initialize.minimal", "text.greeting"),
        (Ask("initialize", {"protocolVersion": 1}), new(), prompt("Hello, who are you?")),
    ),
    Scenario(
        "initialize-everything",
        "A client that can do everything, of a newer version, asks twice",
        ("initialize.capabilities", "initialize.newer", "initialize.again"),
        (
            hello(EVERYTHING, 999, _meta={"example.org/trace": "1"}),
            hello(EVERYTHING, 1),
            new(),
            prompt("!say Ready."),
            hello(),
        ),
    ),
    Scenario(
        "initialize-odd",
        "Capabilities that are no capabilities, keys nobody knows, a version below all",
        ("initialize.odd", "initialize.older"),
        (
            hello({"fs": "yes", "terminal": 1, "session": None, "x": {}}, 0, hobby="chess"),
            new(hobby="chess"),
            prompt("!say Fine with me."),
        ),
    ),
    Scenario(
        "initialize-invalid",
        "Versions that are none, and requests before initialize; then all is well",
        ("initialize.invalid", "initialize.missing"),
        (
            new(),
            Ask("session/list"),
            *(hello(version=version) for version in ("1", -1, 70000, 1.5, None, True)),
            Ask("initialize", {}),
            Ask("initialize"),
            hello(capabilities=None),
            new(),
            prompt("!say At last."),
        ),
    ),
    Scenario(
        "pipelined",
        "Initialize and two sessions in one write, with ids of all kinds",
        ("pipelined", "ids"),
        (
            Line(
                b"\n".join(
                    (
                        message(id=0, method="initialize", params={"protocolVersion": 1}),
                        message(id="zwei", method="authenticate", params={"methodId": "?"}),
                        message(id=-5, method="session/list", params={}),
                        message(id=9007199254740991, method="session/list", params={}),
                    )
                ),
                answers=4,
            ),
            new(wait=False),
            new(wait=False),
            Settled(),
            prompt("!say Both are open."),
        ),
    ),
    Scenario(
        "authenticate",
        "Logging in: a method nobody offered, no method, the one there is; and logging out",
        ("authenticate", "logout"),
        (
            hello(),
            Ask("authenticate", {"methodId": "nope"}),
            Ask("authenticate", {}),
            Ask("authenticate", {"methodId": "key"}),
            Ask("logout", {}),
            new(),
        ),
    ),
    Scenario(
        "new-invalid",
        "Directories and MCP servers that cannot be; then a session",
        ("session.new.invalid", "mcp.invalid"),
        (
            hello(),
            *(new(cwd) for cwd in ("project", "", "${cwd}/missing", "${cwd}/file.txt")),
            Ask("session/new", {"mcpServers": []}),
            Ask("session/new", {"cwd": 7, "mcpServers": []}),
            Ask("session/new", []),
            new(mcpServers=[{"type": "carrier-pigeon", "name": "x"}]),
            new(mcpServers=[{"name": "x"}]),
            new(mcpServers="none"),
            new(additionalDirectories=["relative"]),
            new(additionalDirectories=[""]),
            new(additionalDirectories="${cwd}"),
            new(),
            prompt("!say Here is one."),
        ),
        files={"file.txt": "a file, not a directory\n"},
    ),
    Scenario(
        "new-lenient",
        "MCP servers null or left out, unknown keys and _meta of every kind",
        ("session.new.lenient", "meta"),
        (
            hello(),
            new(mcpServers=None),
            Ask("session/new", {"cwd": "${cwd}"}),
            new(_meta={"deep": [{"er": None}]}, colour="blue"),
            new(_meta=None),
            new(_meta=5),
            Ask(
                "session/prompt",
                {
                    "sessionId": "${session1}",
                    "prompt": [{"type": "text", "text": "!say It is me.", "_meta": {"a": 1}}],
                    "_meta": {"sessionId": "${session2}", "session_id": "other"},
                    "hobby": "chess",
                },
            ),
        ),
    ),
    Scenario(
        "additional-directories",
        "A session with a second root: its files are in reach",
        ("additional-directories",),
        (
            hello(),
            new(additionalDirectories=["${cwd2}", "${cwd}/inner", "${cwd2}"]),
            prompt(
                "Look around in the other root.",
                '!call shell {"command": "echo from the other root > ${cwd2}/far.txt"}',
                '!call read {"path": "${cwd2}/far.txt"}',
                "!result",
            ),
            new("${cwd}/inner"),
            prompt("!call list", "!result", session="${session2}"),
        ),
        files={"inner/near.txt": "near\n"},
        settings={"ACP_HARNESS_MODE": "auto"},
    ),
    Scenario(
        "commands",
        "Slash commands: the list, a known one, an unknown one",
        ("commands",),
        (
            hello(),
            new(),
            Until("available_commands_update"),
            prompt("/review the tests\n!say As you wish.\n!context"),
            prompt("/nosuch thing\n!say That is no command of mine."),
        ),
    ),
)
