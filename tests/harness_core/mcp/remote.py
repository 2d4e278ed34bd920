"""An MCP server over HTTP or SSE, made with the official library, on a port of its own.

Run as a script with the transport and a port (0 for any); it prints the port when it listens.
"""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("remote", instructions="Ask me for headers.")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def header(name: str, ctx: Context) -> str:
    """A header of the request."""
    request = ctx.request_context.request
    return str(request.headers.get(name)) if request is not None else "no request"


forgotten: set[bytes] = set()


@server.tool()
def forget(ctx: Context) -> str:
    """Know the session of this request no more."""
    request = ctx.request_context.request
    forgotten.add(request.headers["mcp-session-id"].encode() if request else b"")
    return "forgotten"


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the person for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    result = await ctx.session.elicit_form("Who are you?", schema, ctx.request_id)
    return f"{result.action} {result.content}"


@server.resource("remote://about")
def about() -> str:
    """About this server."""
    return "a remote resource"


@server.prompt()
def greet(who: str) -> str:
    """Greet somebody."""
    return f"Say hello to {who}."


class Forgetful:
    """Lets the library meet an unknown session where a forgotten one is asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers", ())
        known = [(name, b"unknown" if value in forgotten else value) for name, value in headers]
        await self._app({**scope, "headers": known}, receive, send)


def app(transport: str) -> Starlette:
    return server.sse_app() if transport == "sse" else server.streamable_http_app()


def main(transport: str, port: str) -> None:
    config = uvicorn.Config(Forgetful(app(transport)), "127.0.0.1", int(port), log_level="critical")
    socket = config.bind_socket()
    socket.listen()
    print(socket.getsockname()[1], flush=True)
    uvicorn.Server(config).run([socket])


if __name__ == "__main__":
    main(*sys.argv[1:])
