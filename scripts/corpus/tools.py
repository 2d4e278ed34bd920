"""The agent's tools, as an editor shows them."""

from __future__ import annotations

from conformance.answers import PERMISSION, allow
from corpus.steps import Scenario, call, prompt, started

ALLOWED = {PERMISSION: allow}
AUTO = {"ACP_HARNESS_MODE": "auto"}
POEM = "Roses are red,\nviolets are blue,\nsugar is sweet.\n"
PYTHON = "def main():\n    print('hello')\n\n\nif __name__ == '__main__':\n    main()\n"

SCENARIOS = (
    Scenario(
        "tool-read",
        "Reading: whole, in part, a file that is not there, a directory, past the end",
        ("tool.read", "tool.failed"),
        started(
            prompt(call("read", path="poem.txt"), "!result"),
            prompt(call("read", path="${cwd}/poem.txt", offset=2, limit=1), "!result"),
            prompt(call("read", path="missing.txt"), "!result"),
            prompt(call("read", path="src"), "!result"),
            prompt(call("read", path="poem.txt", offset=99), "!result"),
        ),
        files={"poem.txt": POEM, "src/main.py": PYTHON},
    ),
    Scenario(
        "tool-edit",
        "An edit is asked for with its diff, done, and shown; one that does not fit fails",
        ("tool.edit", "diff.edit", "permission.allow"),
        started(
            prompt(
                call("read", path="poem.txt"),
                call("edit", path="poem.txt", old_text="blue", new_text="green"),
                call("edit", path="poem.txt", old_text="are", new_text="were", replace_all=True),
                "!say Changed.",
            ),
            prompt(call("edit", path="poem.txt", old_text="nowhere", new_text="x"), "!result"),
            prompt(call("edit", path="unread.txt", old_text="a", new_text="b"), "!result"),
            prompt(call("read", path="poem.txt"), "!result"),
        ),
        files={"poem.txt": POEM, "unread.txt": "a\n"},
        answers=ALLOWED,
    ),
    Scenario(
        "tool-write",
        "A new file in a new directory; a replaced one; one that was never read",
        ("tool.write", "diff.create", "diff.replace"),
        started(
            prompt(call("write", path="deep/er/new.txt", content="fresh\n"), "!result"),
            prompt(
                call("read", path="poem.txt"),
                call("write", path="poem.txt", content="Violets are red.\n"),
                "!result",
            ),
            prompt(call("write", path="unread.txt", content="lost\n"), "!result"),
        ),
        files={"poem.txt": POEM, "unread.txt": "precious\n"},
        answers=ALLOWED,
    ),
    Scenario(
        "tool-changed-behind",
        "A file that changed after it was read is not overwritten",
        ("tool.stale",),
        started(
            prompt(
                call("read", path="poem.txt"),
                call("shell", command="echo changed >> poem.txt"),
                call("edit", path="poem.txt", old_text="blue", new_text="green"),
                "!result",
            ),
        ),
        files={"poem.txt": POEM},
        settings=AUTO,
    ),
    Scenario(
        "tool-search",
        "Listing, globbing, grepping: with and without a find",
        ("tool.list", "tool.glob", "tool.grep"),
        started(
            prompt(call("list"), "!result"),
            prompt(call("list", path="src"), "!result"),
            prompt(call("glob", pattern="**/*.py"), "!result"),
            prompt(call("glob", pattern="*.rs"), "!result"),
            prompt(call("grep", pattern=r"print\(", context=1), "!result"),
            prompt(call("grep", pattern="ROSES", ignore_case=True, files_only=True), "!result"),
            prompt(call("grep", pattern="(", literal=True, glob="*.txt"), "!result"),
            prompt(call("grep", pattern="("), "!result"),
        ),
        files={
            "poem.txt": POEM,
            "src/main.py": PYTHON,
            "src/ignored.log": "noise\n",
            ".gitignore": "*.log\n",
        },
    ),
    Scenario(
        "tool-shell",
        "Commands: output as it comes, both streams, in the session's directory, failing",
        ("tool.shell", "tool.streaming", "tool.exit-status"),
        started(
            prompt(call("shell", command="pwd; echo out; echo err >&2"), "!result"),
            prompt(call("shell", command="cat poem.txt; exit 3"), "!result"),
            prompt(call("shell", command="no-such-command-here"), "!result"),
            prompt(call("shell", command="true"), "!result"),
            prompt(call("shell", command="echo begin; sleep 60", timeout=1), "!result"),
            prompt(call("shell", command=r"printf '\033[1mbold\033[0m \377\376 end\n'"), "!result"),
        ),
        files={"poem.txt": POEM},
        settings=AUTO,
    ),
    Scenario(
        "tool-shell-large",
        "More output than fits: head and tail are shown, the whole is kept",
        ("tool.large-output",),
        started(prompt(call("shell", command="seq 1 30000"), "!say Enough.")),
        settings=AUTO,
    ),
    Scenario(
        "tool-parallel",
        "Calls side by side, and calls that wait for each other",
        ("tool.parallel",),
        started(
            prompt(
                "!say Let me look.",
                call("read", path="poem.txt"),
                call("read", path="src/main.py"),
                call("glob", pattern="*.txt"),
                "!say Then run.",
                call("shell", command="echo one"),
                call("shell", command="echo two"),
                "!say Done.",
            )
        ),
        files={"poem.txt": POEM, "src/main.py": PYTHON},
        settings=AUTO,
    ),
    Scenario(
        "tool-invalid",
        "A tool nobody has, arguments that do not fit: the model is told, the turn goes on",
        ("tool.unknown", "tool.invalid-arguments"),
        started(
            prompt(call("teleport", to="Mars"), "!result"),
            prompt(call("read"), "!result"),
            prompt(call("read", path=7, colour="blue"), "!result"),
            prompt(call("edit", path="a.txt"), "!result"),
            prompt("!say Still here."),
        ),
    ),
    Scenario(
        "tool-line-endings",
        "An edit keeps CRLF and the byte order mark",
        ("tool.line-endings",),
        started(
            prompt(
                call("read", path="windows.txt"),
                call("edit", path="windows.txt", old_text="two", new_text="deux"),
                call("shell", command="od -c windows.txt | head -3"),
                "!result",
            ),
        ),
        files={"windows.txt": "\ufeffone\r\ntwo\r\nthree"},
        settings=AUTO,
    ),
)
