"""What a tool is: one schema, one body, and pure functions that say how it looks.

The schema yields the JSON schema for the model, the validation of arguments, and the docs.
Presentation is JSON in, JSON out and touches nothing, so that a replay years later shows the same
card. A tool knows neither the protocol of a front end nor the session's log: what it needs of its
surroundings it gets from its ``ToolContext``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

from harness_core.content import Json, ResultBlock, Text
from harness_core.model.protocol import ToolSpec

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from harness_core.facts import Fact
    from harness_core.tools.files import Files

Kind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "other"]
Effect: TypeAlias = Literal["none", "reads", "changes"]
"""``none``: only the session itself; ``reads``: looks; ``changes``: has effects outside."""


class ToolError(Exception):
    """A tool could not do what was asked. The message is for the model: a sentence to act on.

    ``code`` is one of ``failed``, ``invalid-arguments``, ``denied``, ``timeout``,
    ``unknown-tool``, ``invalid-output``, ``aborted``, ``never-started``.
    """

    def __init__(self, message: str, *, code: str = "failed", meta: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.meta = meta


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file: absolute path, 1-based line."""

    path: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """A change to show: ``old`` is ``None`` for a new file."""

    path: str
    new: str
    old: str | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """How a call or its result looks. ``None`` or empty means: nothing new to say.

    ``content`` is what a person is shown (not necessarily what the model gets); ``terminal`` says
    that the call's live output is a terminal's and is shown as it arrives.
    """

    title: str | None = None
    kind: Kind | None = None
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    content: tuple[ResultBlock, ...] = ()
    terminal: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a body returns: what the model sees, and ``meta``, JSON kept for presentation.

    ``is_error`` marks a result the model should read as a failure (a command's exit status, say).
    """

    content: tuple[ResultBlock, ...]
    meta: Json = None
    is_error: bool = False

    @classmethod
    def text(cls, text: str, meta: Json = None, *, is_error: bool = False) -> ToolOutput:
        """An output of one text block."""
        return cls((Text(text),), meta, is_error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A recorded result, as presentation gets it back from the log."""

    content: tuple[ResultBlock, ...]
    error: str | None
    """The error's code, ``None`` on success."""
    meta: Json


class ToolContext(Protocol):
    """What a body may use of its surroundings."""

    @property
    def call_id(self) -> str:
        """The id of this call, unique in the session."""
        ...

    @property
    def cwd(self) -> Path:
        """The session's directory, absolute. Relative paths mean: below it."""
        ...

    @property
    def roots(self) -> tuple[Path, ...]:
        """``cwd`` and the additional directories: the only places files may be in."""
        ...

    @property
    def files(self) -> Files:
        """Confined file access that remembers what this session has read."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The ``tools`` table of the settings."""
        ...

    @property
    def trace(self) -> Mapping[str, str]:
        """W3C trace context by header name, for services that the body calls; mostly empty."""
        ...

    def output(self, data: bytes, stream: str = "stdout") -> None:
        """Log live output of a running command; shown as it arrives."""
        ...

    def append(self, fact: Fact) -> None:
        """Append a fact to the session's log."""
        ...

    def spill(self, name: str, data: bytes) -> Path:
        """Keep a large output in a file of the session that ``read`` can open; its path."""
        ...


class Arguments:
    """Base of a tool's parameters: a frozen dataclass, each field a ``parameter``.

    Plain dataclasses keep pydantic away from start-up: it is imported when the first schema is
    asked for. A pydantic model (with ``extra="forbid"``) serves as well.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}


def parameter(description: str, default: Any = MISSING, **limits: float) -> Any:
    """A field of ``Arguments``: what the model is told about it, and what it must be.

    ``limits`` are those of a pydantic field: ``ge``, ``gt``, ``le``, ``min_length`` and so on.
    """
    return field(default=default, metadata={"description": description, **limits})


A = TypeVar("A")


@dataclass(frozen=True)
class Schema(Generic[A]):
    """The parameters of a tool: a dataclass of ``Arguments``, or a pydantic model."""

    model: type[A]

    def json_schema(self) -> Json:
        """The JSON schema that the model is given."""
        return self._json_schema

    def validate(self, arguments: str) -> A:
        """Parse and validate raw JSON text. Raises ``ToolError`` (``invalid-arguments``).

        ``null`` for an argument that has a default means: left out. Some models fill in every
        parameter they are shown.
        """
        from pydantic_core import from_json

        try:
            values = from_json(arguments or "{}")
        except ValueError as failure:
            text = f"the arguments are not valid JSON: {failure}"
            raise ToolError(text, code="invalid-arguments") from None
        if not isinstance(values, dict):
            raise ToolError("the arguments must be a JSON object", code="invalid-arguments")
        return self.checked(values)

    def accepts(self, arguments: Mapping[str, Json]) -> bool:
        """Whether ``checked`` takes these arguments."""
        try:
            self.checked(arguments)
        except ToolError:
            return False
        return True

    def checked(self, values: Mapping[str, Json]) -> A:
        """Validate arguments that are parsed already; see ``validate``."""
        from pydantic import ValidationError

        given = {k: v for k, v in values.items() if v is not None or k in self._required}
        try:
            return self._adapter.validate_python(given)
        except ValidationError as failure:
            raise ToolError(explain(failure), code="invalid-arguments") from None

    @cached_property
    def _adapter(self) -> TypeAdapter[A]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.model)

    @cached_property
    def _json_schema(self) -> Json:
        return _plain(self._adapter.json_schema())

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(self._json_schema.get("required", ()))


def _plain(schema: Json) -> Json:
    """A schema without what no model needs: titles, and ``null`` as another word for left out."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {k: _plain(v) for k, v in schema.items() if k != "title" or not isinstance(v, str)}
    match plain:
        case {"anyOf": [{**only}, {"type": "null"}], "default": None}:
            del plain["anyOf"], plain["default"]
            plain = {**only, **plain}
    return plain


def explain(failure: Any) -> str:
    """A pydantic ``ValidationError`` as a sentence: which argument, what is wrong with it."""
    problems = []
    for error in failure.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in error["loc"])
        problems.append(f"{where}: {error['msg']}" if where else error["msg"])
    return "invalid arguments: " + "; ".join(problems)


class Tool(ABC, Generic[A]):
    """A tool. Subclass it, set the attributes, write ``execute`` and the two cards."""

    name: str
    description: str
    effect: Effect = "changes"
    kind: Kind = "other"

    @property
    @abstractmethod
    def schema(self) -> Schema[A]:
        """Its parameters; built when first needed."""

    @abstractmethod
    async def execute(self, arguments: A, context: ToolContext) -> ToolOutput:
        """Do it. Raises ``ToolError`` for what the model can act on.

        Cancellation must leave nothing running: end children before letting it through.
        """

    def spec(self) -> ToolSpec:
        """The tool as the model is told about it."""
        return ToolSpec(self.name, self.description, self.schema.json_schema())

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        """How the call looks before it runs. Pure; ``arguments`` may be incomplete or wrong."""
        return Card(title=self.name, kind=self.kind)

    async def foresee(self, arguments: A, context: ToolContext) -> tuple[Diff, ...]:
        """What the call would change in files, for whoever is asked whether it may. Only looks.

        Raises ``ToolError`` where the call would fail.
        """
        return ()

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        """How the result looks. Pure."""
        return Card(content=outcome.content)
