"""An MCP server that asks the person, made with the official library, over stdio.

Its pages are real: it serves them itself, on this machine, and says so when one was looked at.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.session import ServerSession
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ElicitRequestURLParams

server = MCPServer("asking")
visited: set[str] = set()


class Pages:
    """A web server that starts with the first page that is needed."""

    port: int | None = None
    session: ServerSession | None = None

    async def url(self, id: str, ctx: Context) -> str:
        self.session = ctx.session
        if self.port is None:
            web = await asyncio.start_server(self.serve, "127.0.0.1", 0)
            self.port = web.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{self.port}/{id}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        id = head.split(b" ")[1].decode().strip("/")
        visited.add(id)
        assert self.session is not None
        await self.session.send_elicit_complete(id)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
        writer.close()


pages = Pages()


@server.tool()
def offered(ctx: Context) -> Any:
    """What the client says that it takes of questions."""
    params = ctx.session.client_params
    asked = params.capabilities.elicitation if params else None
    return {"elicitation": asked.model_dump(exclude_none=True) if asked else None}


@server.tool()
async def form(schema: dict[str, Any], ctx: Context, message: str = "Tell me") -> Any:
    """Show a form; what came of it."""
    result = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return {"action": result.action, "content": result.content}


@server.tool()
async def page(ctx: Context, id: str = "one", url: str = "") -> Any:
    """Send the person to a page; what they say to that."""
    result = await ctx.elicit_url("Look at this", url or await pages.url(id, ctx), id)
    return {"action": result.action}


@server.tool()
async def guarded(ctx: Context, ids: list[str], always: bool = False) -> str:
    """Works when all these pages were looked at, or never."""
    wanted = [id for id in ids if always or id not in visited]
    if wanted:
        raise UrlElicitationRequiredError(
            [
                ElicitRequestURLParams(
                    message="Sign in first", url=await pages.url(id, ctx), elicitation_id=id
                )
                for id in wanted
            ]
        )
    return "the door is open"


if __name__ == "__main__":
    server.run("stdio")
