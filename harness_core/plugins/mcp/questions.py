"""What a server asks of the person: forms and pages, on behalf of the requests under way.

The protocol does not say what request a question belongs to. It is the one that is under way, if
there is one alone; a question is taken back when all that were under way have ended. Loaded when a
server is connected; knows the library's types and nothing of connections.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from harness_core.person import Answer, Person, Unanswered, Unasked
from harness_core.plugins.mcp.offer import ServerError

BACK_IN = 120.0
"""Seconds that a request waits for a person to be done on the pages that it needs: many servers do
not say so, and whoever takes longer can have it made again."""


@dataclass(eq=False, slots=True)
class Work:
    """A request under way. ``call`` is the tool call it is made for, if any."""

    call: str | None
    seconds: float
    """How long the server may take, without the time that the person takes."""
    limit: anyio.CancelScope = field(init=False)

    def __post_init__(self) -> None:
        self.limit = anyio.CancelScope(deadline=anyio.current_time() + self.seconds)


@dataclass(eq=False, slots=True)
class Question:
    """One that waits for its answer, and what it waits for it for."""

    works: set[Work]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(eq=False, slots=True)
class Page:
    """One that the person was sent to. ``theirs`` is its server's id."""

    theirs: str | None
    id: str = field(default_factory=lambda: uuid4().hex)
    done: anyio.Event = field(default_factory=anyio.Event)


class PagesWanted(ServerError):
    """A request needs the person to visit pages first; the server has done nothing of it."""

    def __init__(self, message: str, pages: Sequence[types.ElicitRequestURLParams]) -> None:
        super().__init__(message)
        self.pages = pages


class Questions:
    """Those of one connection to the server of that name."""

    def __init__(self, server: str, person: Person) -> None:
        self._server = server
        self.person = person
        self._works: set[Work] = set()
        self._questions: set[Question] = set()
        self._pages: list[Page] = []

    @contextmanager
    def during(self, work: Work) -> Iterator[None]:
        """What is asked meanwhile is asked for this request, and taken back with it."""
        self._works.add(work)
        try:
            yield
        finally:
            self._works.remove(work)
            for question in self._questions:
                if work in question.works:
                    question.works.remove(work)
                    if not question.works:
                        question.scope.cancel()

    # --- what servers ask while they work ------------------------------------------------------

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask, and tell the server what came of it: unasked is not the same as declined."""
        try:
            with self._asking() as question:
                works = [work.call for work in question.works]
                answer = await self._ask(params, works[0] if len(works) == 1 else None)
        except Unasked as failure:
            return types.ErrorData(code=types.INVALID_PARAMS, message=str(failure))
        except Unanswered as failure:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=str(failure))
        if question.scope.cancelled_caught:
            return types.ElicitResult(action="cancel")
        filled = answer.action == "accept" and params.mode == "form"
        return types.ElicitResult(
            action=answer.action, content=dict(answer.content) if filled else None
        )

    @contextmanager
    def _asking(self) -> Iterator[Question]:
        """A question for all that is under way, which does not run out of time meanwhile."""
        question = Question(set(self._works))
        self._questions.add(question)
        for work in question.works:
            work.limit.deadline = math.inf
        try:
            with question.scope:
                yield question
        finally:
            self._questions.remove(question)
            for work in question.works.difference(*(other.works for other in self._questions)):
                work.limit.deadline = anyio.current_time() + work.seconds

    async def _ask(self, params: types.ElicitRequestParams, call: str | None) -> Answer:
        if isinstance(params, types.ElicitRequestURLParams):
            answer, _ = await self._visit(params, call)
            return answer
        message = f"MCP server {self._server} asks: {params.message}"
        return await self.person.fill_in(message, params.requested_schema, call)

    async def _visit(
        self, params: types.ElicitRequestURLParams, call: str | None
    ) -> tuple[Answer, Page]:
        page = Page(params.elicitation_id)
        self._pages.append(page)
        message = f"MCP server {self._server} wants you to open a page: {params.message}"
        agreed = False
        try:
            answer = await self.person.visit(page.id, message, params.url, call)
            agreed = answer.action == "accept"
        finally:
            if not agreed and page in self._pages:
                self._pages.remove(page)
        return answer, page

    def completed(self, theirs: str) -> None:
        """The server says that what was to do on a page of its is done."""
        for page in [page for page in self._pages if page.theirs == theirs]:
            self._pages.remove(page)
            page.done.set()
            self.person.visited(page.id)

    # --- what has to be done before they work --------------------------------------------------

    async def visit_all(self, wanted: PagesWanted, call: str | None) -> None:
        """Send the person to every page that a request needs, and wait until that is done.

        Raises ``ServerError`` that says why the request is not to be repeated now.
        """
        visited = []
        for params in wanted.pages:
            needs = f"it needs the user to open a page of {_host(params.url)} first"
            needs += f" ({params.message})"
            try:
                answer, page = await self._visit(params, call)
            except (Unasked, Unanswered) as failure:
                raise ServerError(f"{needs}, but {failure}") from None
            if answer.action != "accept":
                refused = "declined" if answer.action == "decline" else "dismissed the question"
                raise ServerError(f"{needs}, and they {refused}")
            visited.append(page)
        with anyio.move_on_after(BACK_IN):
            for page in visited:
                await page.done.wait()
            return
        raise ServerError(
            "the user agreed to open the page that it needs, but it has not said that all is done "
            "there. Ask the user, and call it again when they say so"
        )


def pages_of(failure: MCPError) -> PagesWanted | None:
    """The pages that an error says have to be visited, if that is what it says."""
    if failure.code != types.URL_ELICITATION_REQUIRED:
        return None
    try:
        data = types.ElicitationRequiredErrorData.model_validate(failure.error.data)
    except ValidationError:
        return None
    return PagesWanted(failure.message, data.elicitations) if data.elicitations else None


def _host(url: str) -> str:
    """What a person is told of a URL that they are not sent to."""
    try:
        return urlsplit(url).hostname or "the web"
    except ValueError:
        return "the web"
