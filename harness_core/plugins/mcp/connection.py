"""A connection to one server: from the library's terms to ours.

Loaded when a server is connected; the only room that makes requests. Knows no session, no tool
registry and no way to come back after an end: ``server`` does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import FileUrl, ValidationError

from harness_core import __version__
from harness_core.content import Json, ResultBlock
from harness_core.person import Nobody
from harness_core.plugins.mcp.blocks import (
    contents_of,
    listed,
    offered_prompt,
    offered_tool,
    output_of,
    prompt_of,
)
from harness_core.plugins.mcp.offer import (
    ConnectionGone,
    ListedResource,
    Offer,
    ServerError,
    SessionExpired,
)
from harness_core.plugins.mcp.questions import PagesWanted, Questions, Work, pages_of
from harness_core.plugins.mcp.spec import Place, ServerSpec
from harness_core.plugins.mcp.transport import opened
from harness_core.tools.tool import ToolOutput

log = logging.getLogger(__name__)

T = TypeVar("T")
Page = TypeVar("Page", bound=types.PaginatedResult)

PAGES = 50
"""Pages of one list that are read."""

ANSWERED = 30.0
"""Seconds that a server has to list, to give a prompt or a resource. Tools take what they take."""

ATTEMPTS = 3
"""How often a request is made that needs pages to be opened first."""

CHANGES = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)


@asynccontextmanager
async def connected(spec: ServerSpec, place: Place) -> AsyncIterator[Connection]:
    """A connection whose handshake is done. Raises whatever went wrong, perhaps in groups.

    Every server in use knows the handshake; one that refuses it is asked in the newer way, in
    which it has no questions of its own.
    """
    connection = Connection(place, Questions(spec.name, place.person()))
    try:
        async with connection.client(spec, "legacy") as client:
            connection.up(client)
            yield connection
            return
    except Exception as failure:
        refusal = leaf(failure)
        if connection.is_up or not isinstance(refusal, MCPError) or _is_gone(refusal):
            raise
    connection = Connection(place, Questions(spec.name, Nobody()))
    async with connection.client(spec, "auto") as client:
        connection.up(client)
        yield connection


@dataclass(slots=True)
class Connection:
    """Requests to one server. ``news`` is set when its lists changed or when it is ``gone``."""

    place: Place
    questions: Questions
    gone: bool = False
    news: anyio.Event = field(default_factory=anyio.Event)
    _client: Client | None = None

    @property
    def is_up(self) -> bool:
        """Whether the handshake was done."""
        return self._client is not None

    def up(self, client: Client) -> None:
        """The handshake is done."""
        self._client = client

    def client(self, spec: ServerSpec, mode: Literal["legacy", "auto"]) -> Client:
        """A client for this connection, to be entered by whoever owns it.

        It offers no sampling, and elicitation as far as there is a person: a server that asks for
        more is told so.
        """
        modes = self.questions.person.modes
        return Client(
            opened(spec, self.place.cwd, self.lose, modes),
            mode=mode,
            client_info=types.Implementation(name="acp-harness", version=__version__),
            list_roots_callback=self._roots,
            elicitation_callback=self.questions.elicit if modes else None,
            message_handler=self._heard,
            cache=None,
        )

    def lose(self) -> None:
        """The other end has closed, or does not know us any more."""
        self.gone = True
        self.news.set()

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, CHANGES):
            self.news.set()
        elif isinstance(message, types.ElicitCompleteNotification):
            self.questions.completed(message.params.elicitation_id)

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[
                types.Root(uri=FileUrl(path.as_uri()), name=path.name)
                for path in self.place.roots()
            ]
        )

    # --- what there is -------------------------------------------------------------------------

    async def offer(self) -> Offer:
        """Everything the server offers now. Raises ``ServerError``."""
        client = self._ready()
        can, session = client.server_capabilities, client.session
        tools = await self._pages(session.list_tools, lambda page: page.tools) if can.tools else []
        prompts = (
            await self._pages(session.list_prompts, lambda page: page.prompts)
            if can.prompts
            else []
        )
        return Offer(
            tuple(tool for tool in map(offered_tool, tools) if tool is not None),
            tuple(map(offered_prompt, prompts)),
            bool(can.resources and await self.resources()),
            client.instructions or "",
        )

    async def resources(self) -> list[ListedResource]:
        """The resources that are there, and the patterns of others. Raises ``ServerError``."""
        session = self._ready().session
        found = await self._pages(session.list_resources, lambda page: page.resources)
        try:
            patterns = await self._pages(
                session.list_resource_templates, lambda page: page.resource_templates
            )
        except (ConnectionGone, SessionExpired):
            raise
        except ServerError:  # few servers have any, and some do not know the question
            patterns = []
        return [
            *(listed(one.uri, one, template=False) for one in found),
            *(listed(one.uri_template, one, template=True) for one in patterns),
        ]

    async def _pages(
        self,
        fetch: Callable[..., Awaitable[Page]],
        items: Callable[[Page], Sequence[T]],
    ) -> list[T]:
        found: list[T] = []
        cursor: str | None = None
        for _ in range(PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self._ask(fetch(params=params))
            found += items(page)
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    # --- what it does --------------------------------------------------------------------------

    async def call(
        self, name: str, arguments: Mapping[str, Json], call: str, trace: Mapping[str, str]
    ) -> ToolOutput:
        """Call a tool, for as long as it takes. Cancelling this cancels it. Raises ``ServerError``.

        What it returns is not held against its output schema: the call has happened. The server
        finds ``trace`` in ``_meta``.
        """
        meta: Any = dict(trace) or None
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments), _meta=meta)
        request = types.CallToolRequest(params=params)
        session = self._ready().session
        return output_of(
            await self._serve(lambda: session.send_request(request, types.CallToolResult), call)
        )

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[ResultBlock]:
        """The content of a prompt. Raises ``ServerError``."""
        session = self._ready().session
        ask = partial(session.get_prompt, name, dict(arguments))
        return prompt_of(await self._serve(ask, seconds=ANSWERED))

    async def read(self, uri: str, call: str) -> ToolOutput:
        """Read a resource. Raises ``ServerError``."""
        session = self._ready().session
        ask = partial(session.read_resource, uri)
        return contents_of(await self._serve(ask, call, ANSWERED))

    async def _serve(
        self, ask: Callable[[], Awaitable[T]], call: str | None = None, seconds: float = math.inf
    ) -> T:
        """The answer to a request that is made for the person or the model: meanwhile the server
        may ask, and what it needs to be done first is done."""
        for _ in range(ATTEMPTS):
            work = Work(call, seconds)
            try:
                with self.questions.during(work):
                    return await self._ask(ask(), work)
            except PagesWanted as wanted:
                await self.questions.visit_all(wanted, call)
        raise ServerError("it needs one page after another to be opened")

    def _ready(self) -> Client:
        if self._client is None or self.gone:
            raise SessionExpired("the connection has ended")
        return self._client

    async def _ask(self, answer: Awaitable[T], work: Work | None = None) -> T:
        """The answer to a request, with every failure in our words."""
        work = work or Work(None, ANSWERED)
        try:
            with work.limit:
                return await answer
        except MCPError as failure:
            if _is_gone(failure):
                raise ConnectionGone("the connection ended") from None
            if _is_expired(failure):
                self.lose()
                raise SessionExpired("the server has begun anew") from None
            raise (pages_of(failure) or ServerError(failure.message)) from None
        except (ValidationError, RuntimeError) as failure:
            log.info("an MCP server's answer is not valid", exc_info=failure)
            raise ServerError("its answer is not valid in the protocol") from None
        raise ServerError(f"it did not answer within {work.seconds:.0f} s")


# --- the library's terms -----------------------------------------------------------------------


def _is_gone(failure: MCPError) -> bool:
    return failure.code == types.CONNECTION_CLOSED


def _is_expired(failure: MCPError) -> bool:
    """The word for a 404 to a request with a session id: the library's, or a server's own."""
    return failure.message in ("Session terminated", "Session not found")


def leaf(failure: BaseException) -> BaseException:
    """What really failed, out of the groups that it comes in; what that broke says less."""
    if not isinstance(failure, BaseExceptionGroup):
        return failure
    leaves = [leaf(one) for one in failure.exceptions]
    return next((one for one in leaves if not isinstance(one, MCPError)), leaves[0])


def sentence(failure: BaseException) -> str:
    """Why a connection could not be had, without values that may be secret."""
    match leaf(failure):
        case FileNotFoundError(filename=str(name)):
            return f"{name} was not found"
        case PermissionError(filename=str(name)):
            return f"{name} may not be run"
        case OSError(strerror=str(why)):
            return why.lower()
        case httpx2.HTTPStatusError(response=response):
            return f"the server answered {response.status_code} {response.reason_phrase}".strip()
        case httpx2.HTTPError() as unreached:
            return f"the server cannot be reached ({type(unreached).__name__})"
        case MCPError() as refusal if _is_gone(refusal):
            return "it ended before it had answered"
        case MCPError() as refusal:
            return f"it answered: {refusal.message}"
        case ServerError() as refusal:
            return str(refusal)
        case other:
            return f"unexpected failure ({type(other).__name__})"
