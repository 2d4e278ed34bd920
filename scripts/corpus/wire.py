"""Below ACP: lines that are no messages, messages that are no requests, methods nobody has."""

from __future__ import annotations

from corpus.steps import Ask, HangUp, Line, Scenario, Tell, hello, message, new, prompt, started

LIST = b'{"jsonrpc":"2.0","id":%d,"method":"session/list","params":{}}'

SCENARIOS = (
    Scenario(
        "malformed-lines",
        "Not JSON, not UTF-8, scalars, arrays, batches: one error each, nothing breaks",
        ("malformed.json", "malformed.utf8", "malformed.type", "malformed.batch"),
        (
            hello(),
            *(
                Line(raw)
                for raw in (
                    b"{not json",
                    b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}',
                    b'{"jsonrpc":"2.0","id":1,"method":"ses\xff\xfesion/list"}',
                    b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":NaN}',
                    b"42",
                    b'"text"',
                    b"null",
                    b"true",
                    b"[]",
                    b"[" + LIST % 77 + b"]",
                    b"[" * 100_0 + b"]" * 100_0,
                )
            ),
            new(),
            prompt("!say Unharmed."),
        ),
    ),
    Scenario(
        "malformed-requests",
        "Objects that are no requests, ids that are no ids, parameters of the wrong type",
        ("malformed.request", "malformed.id", "malformed.params"),
        (
            hello(),
            *(
                Line(raw)
                for raw in (
                    b"{}",
                    b'{"jsonrpc":"2.0"}',
                    b'{"jsonrpc":"1.0","id":1001,"method":"session/list"}',
                    b'{"id":1002,"method":"session/list"}',
                    b'{"jsonrpc":"2.0","id":1003,"method":7}',
                    b'{"jsonrpc":"2.0","id":{},"method":"session/list"}',
                    b'{"jsonrpc":"2.0","id":null,"method":"session/list"}',
                    b'{"jsonrpc":"2.0","id":1.5,"method":"session/list"}',
                    message(id=1004, method="session/list", params=[1, 2]),
                    message(id=1005, method="session/list", params="x"),
                    message(id=1006, method="session/list", params={"cwd": 5}),
                    message(id=1007, method="session/prompt"),
                    message(id=1008, method=""),
                )
            ),
            new(),
            prompt("!say Unharmed."),
        ),
    ),
    Scenario(
        "line-ends",
        "Blank lines, CRLF, a byte order mark, blanks around a message",
        ("line-ends",),
        (
            hello(),
            Line(b"", 0),
            Line(b"   \t ", 0),
            Line(b"\r", 0),
            Line(LIST % 901 + b"\r"),
            Line(b"  " + LIST % 902 + b"  "),
            Line(b"\xef\xbb\xbf" + LIST % 903),
            Line(LIST % 904, open_end=True, answers=0),
            HangUp(),
        ),
    ),
    Scenario(
        "unknown-methods",
        "Methods and notifications nobody has, ours and others, and methods of clients",
        ("unknown.method", "unknown.notification", "extension"),
        started(
            Ask("foo/bar", {}),
            Ask("_example.org/hello", {"x": 1}),
            Ask("session/fly", {"sessionId": "${session1}"}),
            Ask("fs/read_text_file", {"sessionId": "${session1}", "path": "/etc/hostname"}),
            Ask("session/update", {}),
            Ask("session/cancel", {"sessionId": "${session1}"}),
            Tell("foo/bar", {}),
            Tell("$/foo"),
            Tell("_example.org/hello"),
            Tell("session/prompt", {"sessionId": "${session1}", "prompt": []}),
            prompt("!say Unimpressed."),
        ),
    ),
    Scenario(
        "stray-responses",
        "Answers to questions nobody asked, and an id that is used twice at once",
        ("stray-response", "id-reuse"),
        started(
            Line(message(id=555, result={}), 0),
            Line(message(id="x", error={"code": -1, "message": "?"}), 0),
            Line(message(id=None, error={"code": -32600, "message": "?"}), 0),
            Line(message(id=555), 1),
            Ask("session/list", {}, id=7),
            Ask("session/list", {}, id=7),
            prompt("!say Unimpressed."),
        ),
    ),
)
