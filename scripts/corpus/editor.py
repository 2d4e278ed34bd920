"""What the agent does with an editor's own means: files, terminals, MCP servers, options, modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.answers import ELICITATION, PERMISSION, Files, Terminals, allow, constant, failing
from conformance.client import AgentRequest, Answerer, RpcError
from corpus.steps import FILES, TERMINAL, Scenario, call, hello, new, of_session, prompt

UNSAVED = "Roses are blue, not saved yet.\n"


class Buffers:
    """The editor's unsaved texts, by the name of the file."""

    def __init__(self) -> None:
        self._texts = {"poem.txt": UNSAVED}

    def read(self, request: AgentRequest) -> Any:
        name = Path(request.params["path"]).name
        if name not in self._texts:
            raise RpcError(-32002, "there is no such file")
        return {"content": self._texts[name]}

    def write(self, request: AgentRequest) -> Any:
        self._texts[Path(request.params["path"]).name] = request.params["content"]
        return {}

    def answers(self) -> dict[str, Answerer]:
        return {"fs/read_text_file": self.read, "fs/write_text_file": self.write}


NOTICES = {"session": {"notices": {}}}
BOOLEANS = {"session": {"configOptions": {"boolean": {}}}}

MCP_SERVER = '''\
"""A server with one tool, on the standard library alone."""
import json, os, sys

TOOL = {
    "name": "greet",
    "description": "Greet somebody.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}

def handle(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "greeter", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        name = params["arguments"].get("name")
        if not name:
            return {"content": [{"type": "text", "text": "whom?"}], "isError": True}
        text = os.environ.get("WORD", "Hello") + ", " + name
        return {"content": [{"type": "text", "text": text}]}
    return {}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        answer["result"] = handle(message["method"], message.get("params") or {})
        print(json.dumps(answer), flush=True)
'''
GREETER = {
    "name": "greeter",
    "command": "python3",
    "args": ["${cwd}/greeter.py"],
    "env": [{"name": "WORD", "value": "Salve"}],
}
BROKEN = {"name": "broken", "command": "${cwd}/no-such-program", "args": [], "env": []}

REPLIES = (
    {"action": "accept", "content": {"answer": "tea"}},
    {"action": "accept", "content": {"answer": 5}},
    {"action": "decline"},
    {"action": "cancel", "content": {"answer": "cake"}},
    {"action": "_later"},
)


def in_turn(*results: Any) -> Answerer:
    """One result after the other."""
    left = iter(results)
    return lambda _: next(left)


SCENARIOS = (
    Scenario(
        "client-files",
        "The editor's buffer goes before the disk, for reading and for writing",
        ("client.files",),
        (
            hello(FILES),
            new(),
            prompt(call("read", path="poem.txt"), "!result"),
            prompt(call("edit", path="poem.txt", old_text="blue", new_text="green"), "!result"),
            prompt(call("write", path="new.txt", content="fresh\n"), "!result"),
        ),
        files={"poem.txt": "Roses are red.\n"},
        answers={
            **Buffers().answers(),
            PERMISSION: allow,
        },
    ),
    Scenario(
        "client-files-failing",
        "The editor fails at files, and answers writing with null",
        ("client.files.failing",),
        (
            hello(FILES),
            new(),
            prompt(call("read", path="poem.txt"), "!result"),
            prompt(call("write", path="new.txt", content="fresh\n"), "!result"),
        ),
        files={"poem.txt": "Roses are red.\n"},
        answers={
            "fs/read_text_file": failing(-32603, "the buffer is gone"),
            "fs/write_text_file": constant(None),
            PERMISSION: allow,
        },
    ),
    Scenario(
        "client-read-only",
        "An editor that offers reading alone",
        ("client.files.read-only",),
        (
            hello({"fs": {"readTextFile": True, "writeTextFile": False}}),
            new(),
            prompt(call("read", path="poem.txt"), "!result"),
            prompt(call("write", path="new.txt", content="fresh\n"), "!result"),
        ),
        files={"poem.txt": "Roses are red.\n"},
        answers={**Buffers().answers(), PERMISSION: allow},
    ),
    Scenario(
        "questions",
        "The model asks the user: answered, declined, dismissed, nonsense; and for a secret",
        ("client.questions",),
        (
            hello({"elicitation": {"form": {}}}),
            new(),
            prompt(call("ask", question="Tea or coffee?", choices=["tea", "coffee"]), "!result"),
            *(prompt(call("ask", question="What else?"), "!result") for _ in range(4)),
            prompt(call("ask", question="What is your password?"), "!result"),
        ),
        answers={ELICITATION: in_turn(*REPLIES)},
    ),
    Scenario(
        "client-terminal",
        "Commands run in the editor's terminal: one that works, one that fails",
        ("client.terminal",),
        (
            hello(TERMINAL),
            new(),
            prompt(call("shell", command="echo hello"), "!result"),
            prompt(call("shell", command="echo bye; exit 3"), "!result"),
        ),
        answers={**Terminals().answers(), PERMISSION: allow},
    ),
    Scenario(
        "client-terminal-failing",
        "The editor cannot open a terminal",
        ("client.terminal.failing",),
        (
            hello({**TERMINAL, **FILES}),
            new(),
            prompt(call("shell", command="echo hello"), "!result"),
            prompt("!say Still here."),
        ),
        answers={
            **Terminals(failing=("terminal/create",)).answers(),
            **Files().answers(),
            PERMISSION: allow,
        },
    ),
    Scenario(
        "mcp",
        "A server of the client's: its tool is called, with the environment it was given",
        ("mcp.stdio",),
        (
            hello(),
            new(mcpServers=[GREETER]),
            prompt(call("mcp__greeter__greet", name="Ada"), "!result"),
            prompt(call("mcp__greeter__greet"), "!result"),
        ),
        files={"greeter.py": MCP_SERVER},
        answers={PERMISSION: allow},
    ),
    Scenario(
        "mcp-broken",
        "A server that cannot be started: the session works all the same",
        ("mcp.broken",),
        (hello(NOTICES), new(mcpServers=[BROKEN]), prompt("!say Without it, then.")),
    ),
    Scenario(
        "modes",
        "The mode is changed: ask, plan, auto, one nobody offers",
        ("modes",),
        (
            hello(),
            new(),
            of_session("session/set_mode", modeId="plan"),
            prompt(call("write", path="a.txt", content="x\n"), "!result"),
            of_session("session/set_mode", modeId="auto"),
            prompt(call("write", path="a.txt", content="x\n"), "!result"),
            of_session("session/set_mode", modeId="accept-edits"),
            prompt(call("write", path="b.txt", content="x\n"), "!result"),
            prompt(call("shell", command="echo asked"), "!result"),
            of_session("session/set_mode", modeId="reckless"),
            of_session("session/set_mode"),
            of_session("session/set_mode", "unknown", modeId="ask"),
        ),
        answers={PERMISSION: allow},
        needs="new.modes",
    ),
    Scenario(
        "config-options",
        "Options are set: the whole list comes back; unknown ones and values are refused",
        ("config-options", "config-options.boolean"),
        (
            hello(BOOLEANS),
            new(),
            of_session("session/set_config_option", configId="mode", value="auto"),
            of_session("session/set_config_option", configId="thought_level", value="high"),
            of_session("session/set_config_option", configId="mode", value="reckless"),
            of_session("session/set_config_option", configId="colour", value="blue"),
            of_session("session/set_config_option", configId="mode"),
            of_session(
                "session/set_config_option", configId="delegate", type="boolean", value=False
            ),
            prompt("!say Set."),
        ),
        needs="new.configOptions",
    ),
    Scenario(
        "config-options-kept",
        "What was set is known when the session is loaded again",
        ("config-options.kept",),
        (
            hello(),
            new(),
            of_session("session/set_config_option", configId="mode", value="plan"),
            prompt("!say Noted."),
            of_session("session/close"),
            of_session("session/load", cwd="${cwd}", mcpServers=[]),
        ),
        needs="new.configOptions",
    ),
)
