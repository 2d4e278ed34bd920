"""Tools of servers as tools of the agent: offered ones, and two that list and read resources."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from harness_core.content import Json, ResultBlock, Text
from harness_core.plugins.mcp.offer import (
    ConnectionGone,
    ListedResource,
    OfferedTool,
    ServerError,
)
from harness_core.plugins.mcp.server import Server
from harness_core.tools.disk import size_of
from harness_core.tools.output import excerpt
from harness_core.tools.tool import (
    Arguments,
    Card,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)

if TYPE_CHECKING:
    from harness_core.plugins.mcp.connection import Connection

T = TypeVar("T")

HEAD, TAIL = 24 * 1024, 8 * 1024
"""Bytes of a long text that the model is given; the whole is in a file."""


@dataclass(frozen=True)
class GivenSchema(Schema[Mapping[str, Json]]):
    """A JSON schema from somewhere else. Arguments must be an object; the rest its owner checks."""

    given: Mapping[str, Json]

    def json_schema(self) -> Json:
        """As it was given."""
        return self.given

    def checked(self, values: Mapping[str, Json]) -> Mapping[str, Json]:
        """Any object may be what its owner wants."""
        return values


class McpTool(Tool[Mapping[str, Json]]):
    """A tool that a server offers."""

    def __init__(self, name: str, server: Server, offered: OfferedTool) -> None:
        self.name = name
        self.description = offered.description
        self.effect = "reads" if offered.read_only else "changes"
        self.kind = "read" if offered.read_only else "other"
        self._server = server
        self._offered = offered
        self._schema = GivenSchema(dict, offered.schema)

    @property
    def schema(self) -> Schema[Mapping[str, Json]]:
        """What its server says."""
        return self._schema

    async def execute(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        """Call it on its server."""
        name, call, trace = self._offered.name, context.call_id, context.trace
        output = await _use(self._server, lambda c: c.call(name, arguments, call, trace))
        return fitted(output, context)

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        """Its title and whose it is."""
        return Card(title=f"{self._offered.title} ({self._server.name})", kind=self.kind)


async def _use(server: Server, request: Callable[[Connection], Awaitable[T]]) -> T:
    """A request on behalf of the model. Raises ``ToolError``."""
    try:
        return await server.use(request)
    except ConnectionGone:
        raise ToolError(
            f"MCP server {server.name} ended while it worked on this, so the outcome is unknown: "
            "find out whether it took effect before you repeat it. The server is started again "
            "with the next call."
        ) from None
    except ServerError as failure:
        raise ToolError(f"MCP server {server.name}: {failure}") from None


def fitted(output: ToolOutput, context: ToolContext) -> ToolOutput:
    """``output`` with every long text cut in the middle and kept whole in a file."""
    content = (
        _fitted_text(block, number, context) if isinstance(block, Text) else block
        for number, block in enumerate(output.content, 1)
    )
    return replace(output, content=tuple(content))


def _fitted_text(block: Text, number: int, context: ToolContext) -> ResultBlock:
    data = block.text.encode("utf-8", "replace")
    if len(data) <= HEAD + TAIL:
        return block
    shown = excerpt(data, HEAD, TAIL)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", context.call_id)[:80]
    path = context.spill(f"mcp-{name}-{number}.txt", data)
    return Text(
        f"{shown.head}\n[… {size_of(shown.left_out)} left out; the whole is in {path}: use read or "
        f"grep …]\n{shown.tail}"
    )


# --- resources ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListResources(Arguments):
    """The parameters of ``list_mcp_resources``."""

    server: str | None = parameter("The name of one server; all by default.", None)


@dataclass(frozen=True)
class ReadResource(Arguments):
    """The parameters of ``read_mcp_resource``."""

    server: str = parameter("The name of the server.")
    uri: str = parameter("The resource's URI, as it was listed or made from a template.")


class ListResourcesTool(Tool[ListResources]):
    """Lists what there is to read."""

    name = "list_mcp_resources"
    description = (
        "List the resources that MCP servers offer: data that can be read with read_mcp_resource."
    )
    effect = "reads"
    kind = "search"

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers

    @property
    def schema(self) -> Schema[ListResources]:
        """Its parameters."""
        return Schema(ListResources)

    async def execute(self, arguments: ListResources, context: ToolContext) -> ToolOutput:
        """Ask the servers; one that fails does not hide the others."""
        servers = self._servers()
        if arguments.server is not None:
            servers = [named(servers, arguments.server)]
        texts = []
        for server in servers:
            try:
                listed = await server.use(lambda c: c.resources())
                texts.append(_listing(server.name, listed))
            except ServerError as failure:
                texts.append(f"{server.name}: {failure}")
        return fitted(ToolOutput.text("\n\n".join(texts)), context)

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        """Whose resources."""
        server = arguments.get("server")
        return Card(title=f"List resources of {server or 'MCP servers'}", kind=self.kind)


class ReadResourceTool(Tool[ReadResource]):
    """Reads one resource."""

    name = "read_mcp_resource"
    description = "Read a resource of an MCP server."
    effect = "reads"
    kind = "read"

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        self._servers = servers

    @property
    def schema(self) -> Schema[ReadResource]:
        """Its parameters."""
        return Schema(ReadResource)

    async def execute(self, arguments: ReadResource, context: ToolContext) -> ToolOutput:
        """Read it from its server."""
        server = named(self._servers(), arguments.server)
        uri, call = arguments.uri, context.call_id
        return fitted(await _use(server, lambda c: c.read(uri, call)), context)

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        """What is read, and from whom."""
        uri, server = arguments.get("uri", "resource"), arguments.get("server", "MCP")
        return Card(title=f"Read {uri} ({server})", kind=self.kind)


def named(servers: Iterable[Server], name: str) -> Server:
    """The server of that name. Raises ``ToolError`` that lists the names there are."""
    servers = list(servers)
    for server in servers:
        if name in (server.name, server.slug):
            return server
    known = ", ".join(server.name for server in servers)
    raise ToolError(f"no MCP server {name!r} offers resources; these do: {known}")


def _listing(server: str, resources: Sequence[ListedResource]) -> str:
    return "\n".join([f"{server}:", *map(_line, resources)]) if resources else f"{server}: none"


def _line(resource: ListedResource) -> str:
    kind = ", a template: fill in the braces" if resource.template else ""
    mime = f", {resource.mime_type}" if resource.mime_type else ""
    about = f": {resource.description}" if resource.description else ""
    return f"- {resource.uri} ({resource.name}{mime}{kind}){about}"
