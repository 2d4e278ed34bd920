"""The page on which a user enters a key: from a browser on this machine to the agent, no further.

For one browser, one key and a short time, at an address that nobody can guess (V1-ELIC-16). Whoever
opens it first is the only one who can use it; a site that the user looks at meanwhile can neither
read it nor fill it in. Loaded when somebody signs in. Knows no protocol and no vault.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, parse_headers
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

from harness_core.credentials import CredentialError

Keep = Callable[[str], Awaitable[None]]

LARGEST = 16 * 1024
"""Bytes of a request's head, and of its body."""

SLOWEST = 30.0
"""Seconds that a browser may take to ask, and to read what it is answered."""

COOKIE = "acp-harness-sign-in"

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Connection": "close",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Without a referrer of the same origin, browsers would not say where a form comes from."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>acp-harness</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }}
body {{ max-width: 34rem; margin: 4rem auto; padding: 0 1rem }}
input {{ font: inherit; width: 100%; box-sizing: border-box; padding: .5rem }}
button {{ font: inherit; padding: .4rem 1rem; margin: 1rem .5rem 0 0 }}
</style></head>
<body><h1>acp-harness</h1>
{body}
</body></html>
"""

FORM = """<p>Your editor has asked the agent to sign in. Enter the key for <code>{variable}</code>.
It is stored for you on this machine; your editor does not get to know it.</p>
<p role="alert"><strong>{problem}</strong></p>
<form method="post">
<input type="hidden" name="form" value="{form}">
<input type="password" name="key" aria-label="Key" autocomplete="off" autofocus>
<button name="do" value="keep">Sign in</button>
<button name="do" value="cancel">Cancel</button>
</form>"""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a browser is answered."""

    status: HTTPStatus
    body: str
    cookie: str = ""
    outcome: bool | None = None
    """What has come of the page with this, if anything has: whether there is a key."""

    def encoded(self) -> bytes:
        """The bytes of it."""
        content = PAGE.format(body=self.body).encode()
        headers = HEADERS | {"Content-Length": str(len(content))}
        if self.cookie:
            headers["Set-Cookie"] = self.cookie
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass(frozen=True, slots=True)
class Request:
    """What a browser asks for."""

    method: str
    path: str
    headers: HTTPMessage
    body: bytes = b""

    def header(self, name: str) -> str:
        """A header that is there once; nothing otherwise."""
        values = self.headers.get_all(name, [])
        return str(values[0]).strip() if len(values) == 1 else ""

    def cookie(self) -> str:
        """Ours, if the browser has one."""
        with contextlib.suppress(CookieError):
            morsel = SimpleCookie(self.header("Cookie")).get(COOKIE)
            return morsel.value if morsel is not None else ""
        return ""


@dataclass(eq=False)
class KeyPage:
    """A page for the key of ``variable``, while its context is open.

    ``keep`` stores a key, and raises ``CredentialError`` for one that cannot be.
    """

    variable: str
    keep: Keep
    outcome: asyncio.Future[bool] = field(init=False)
    """Whether a key was stored, once it is known; the browser has been told by then."""

    async def __aenter__(self) -> Self:
        self.outcome = asyncio.get_running_loop().create_future()
        self._path = f"/{token_urlsafe(32)}"
        self._visitor, self._form = token_urlsafe(32), token_urlsafe(32)
        """What only the one browser has that may use it: in a cookie, and on the page."""
        self._opened = False
        self._keeping = False
        self._connections: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, limit=LARGEST, start_serving=True
        )
        self._host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self._host}{self._path}"

    # --- connections ---------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, and the connection is closed."""
        outcome: bool | None = None
        try:
            async with asyncio.timeout(SLOWEST):
                request = await _read(reader)
            reply = await self._answer(request)
            outcome = reply.outcome
            writer.write(reply.encoded())
            writer.close()
            async with asyncio.timeout(SLOWEST):
                await writer.wait_closed()
        except (OSError, EOFError, ValueError, HTTPException, asyncio.LimitOverrunError):
            pass  # whatever that was, it was no browser that is still there
        finally:
            writer.transport.abort()
            if outcome is not None and not self.outcome.done():
                self.outcome.set_result(outcome)

    async def _answer(self, request: Request) -> Reply:
        """Nobody who does not know the address learns that there is anything at it."""
        if request.header("Host") != self._host:  # a name that somebody has pointed at us
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST, "This is not the page's address.")
        if not compare_digest(request.path.encode(), self._path.encode()):
            return _refusal(HTTPStatus.NOT_FOUND, "There is nothing here.")
        if request.method not in ("GET", "POST"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "This page can be opened and sent.")
        if request.method == "GET" and not self._opened:
            self._opened = True
            cookie = f"{COOKIE}={self._visitor}; Path={self._path}; HttpOnly; SameSite=Strict"
            return Reply(HTTPStatus.OK, self._shown(), cookie)
        if not compare_digest(request.cookie().encode(), self._visitor.encode()):
            return _refusal(
                HTTPStatus.FORBIDDEN,
                "This page was opened in another browser already. If that was not you, cancel the "
                "sign-in in your editor; otherwise begin it anew.",
            )
        if request.method == "GET":
            return Reply(HTTPStatus.OK, self._shown())
        return await self._sent(request)

    async def _sent(self, request: Request) -> Reply:
        fields = dict(parse_qsl(request.body.decode("utf-8"), max_num_fields=8))
        from_here = request.header("Origin") == f"http://{self._host}"
        if not from_here or not compare_digest(
            fields.get("form", "").encode(), self._form.encode()
        ):
            return _refusal(HTTPStatus.FORBIDDEN, "This was not sent from the page.")
        if self._keeping:
            return _refusal(HTTPStatus.CONFLICT, "It was sent already.")
        if fields.get("do") == "cancel":
            text = "<p>Nothing was stored. You can close this window.</p>"
            return Reply(HTTPStatus.OK, text, outcome=False)
        return await self._kept(fields.get("key", ""))

    async def _kept(self, key: str) -> Reply:
        self._keeping = True
        try:
            await self.keep(key)
        except CredentialError as failure:
            self._keeping = False
            return Reply(HTTPStatus.UNPROCESSABLE_ENTITY, self._shown(f"Not stored: {failure}."))
        text = "<p>The key is stored. You can close this window.</p>"
        return Reply(HTTPStatus.OK, text, outcome=True)

    def _shown(self, problem: str = "") -> str:
        values = {"variable": self.variable, "problem": problem, "form": self._form}
        return FORM.format(**{name: html.escape(value) for name, value in values.items()})


def _refusal(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, f"<p>{html.escape(text)}</p>")


async def _read(reader: asyncio.StreamReader) -> Request:
    """A request. Raises what reading and parsing it raises."""
    head = await reader.readuntil(b"\r\n\r\n")
    line, _, rest = head.partition(b"\r\n")
    method, path, _ = line.decode("ascii").split(" ")
    request = Request(method, path, parse_headers(io.BytesIO(rest)))
    if method != "POST":
        return request
    size = int(request.header("Content-Length"))
    if not 0 <= size <= LARGEST:
        raise ValueError("the body is too large")
    return Request(method, path, request.headers, await reader.readexactly(size))
