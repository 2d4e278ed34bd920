"""What an agent says: text of every kind, thoughts, plans, titles, usage; and what it is sent."""

from __future__ import annotations

import base64

from corpus.steps import Ask, Scenario, blocks, hello, prompt, started

DOT = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()
SEPARATORS = "line\u2028paragraph\u2029next\u0085tab\tbell\u0007null\u0000end"
SCRIPTS = "naïve Ünïcödé, 你好, שלום, 👩‍👩‍👧‍👦, 𝔘𝔫𝔦𝔠𝔬𝔡𝔢, e\u0301 \ufeff \u202eright to left\u202c"

SCENARIOS = (
    Scenario(
        "text",
        "Lines of text, streamed word by word",
        ("text",),
        started(prompt("!say Good morning!\\nThis is a second line.", "!say And a third.")),
    ),
    Scenario(
        "text-unicode",
        "Every kind of character, there and back, as text and through a tool",
        ("text.unicode", "text.separators"),
        started(
            prompt(f"!say {SEPARATORS}"),
            prompt(f"!say {SCRIPTS}"),
            prompt(f"{SEPARATORS} {SCRIPTS}", "!context"),
            prompt('!call read {"path": "unicode.txt"}', "!result"),
        ),
        files={"unicode.txt": f"{SEPARATORS}\n{SCRIPTS}\n"},
    ),
    Scenario(
        "text-long",
        "Many deltas, and one prompt longer than 64 KiB",
        ("text.long",),
        started(
            prompt("!stream 300 number {i}, "),
            prompt("x" * 70_000 + "\n!say That was long."),
        ),
    ),
    Scenario(
        "thoughts",
        "Thinking, speaking, thinking again around a call",
        ("thoughts", "message-ids"),
        started(
            prompt(
                "!think What could they want?",
                "!say Let me look.",
                '!call read {"path": "a.txt"}',
                "!think So that is it.",
                "!say It is there.",
            )
        ),
        files={"a.txt": "there\n"},
    ),
    Scenario(
        "plan",
        "A plan that moves on; every update has all entries",
        ("plan", "tool.plan"),
        started(
            prompt(
                "!plan read the code; fix the bug; run the tests",
                "!plan [x] read the code; [>] fix the bug; run the tests",
                "!plan [x] read the code; [x] fix the bug; [x] run the tests",
                "!say All done.",
            )
        ),
    ),
    Scenario(
        "title-usage",
        "The session gets its title from the first prompt; the model reports tokens",
        ("title", "usage"),
        started(
            prompt("\n   Tidy   the   kitchen   \n!say Sure.\n!usage 1200 10"),
            prompt("Something else\n!say Sure.\n!usage 200 10"),
            Ask("session/list", {"cwd": "${cwd}"}),
        ),
    ),
    Scenario(
        "content",
        "A prompt of text, a link, an embedded text, an embedded blob and an image",
        ("content.link", "content.resource", "content.blob", "content.image"),
        started(
            blocks(
                {"type": "text", "text": "What are these?\n!context"},
                {"type": "resource_link", "uri": "file://${cwd}/a.txt", "name": "a.txt"},
                {
                    "type": "resource",
                    "resource": {
                        "uri": "file://${cwd}/buffer.py",
                        "mimeType": "text/x-python",
                        "text": "print('not saved yet')\n",
                    },
                },
                {
                    "type": "resource",
                    "resource": {
                        "uri": "file://${cwd}/dot.png",
                        "mimeType": "image/png",
                        "blob": DOT,
                    },
                },
                {"type": "image", "mimeType": "image/png", "data": DOT},
            )
        ),
        files={"a.txt": "linked\n"},
    ),
    Scenario(
        "content-refused",
        "Blocks that were not offered or are none; the session goes on",
        ("content.refused",),
        started(
            blocks({"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}),
            blocks({"type": "hologram"}),
            blocks({"type": "text"}),
            blocks({"type": "image", "mimeType": "image/png", "data": "%%%"}),
            blocks({"type": "text", "text": 7}),
            blocks(),
            Ask("session/prompt", {"sessionId": "${session1}", "prompt": "hello"}),
            Ask("session/prompt", {"sessionId": "${session1}"}),
            blocks({"type": "text", "text": ""}),
            prompt("!say Now I understand."),
        ),
    ),
    Scenario(
        "script-mistake",
        "A directive nobody can follow is explained; the language is listed",
        ("demo",),
        (hello(), *started()[1:], prompt("!call read a.txt"), prompt("!help")),
    ),
)
