"""Parameters of ACP v1 requests, validated.

Tolerant where the protocol is: unknown fields and any ``_meta`` are ignored, ``null`` is absent.
Strict where silence would lose something: a malformed directory, server or content block fails the
request (V1-NEW-10, V1-DIR-03).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from acp_server.framing import INVALID_PARAMS
from acp_server.rpc import RpcError
from acp_server.trace import trace_of
from harness_core.model.readable import is_base64


class Wire(BaseModel):
    """Base of all: camelCase names, unknown fields ignored, no coercion between JSON types."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", strict=True, defer_build=True
    )


def _absolute(path: str) -> str:
    if not os.path.isabs(path):
        raise ValueError("must be an absolute path")
    if "\0" in path:
        raise ValueError("must not contain NUL")
    return path


def _empty_if_null(value: Any) -> Any:
    return [] if value is None else value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
T = TypeVar("T")
ListOf = Annotated[list[T], BeforeValidator(_empty_if_null)]


def _http(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return url


class Pair(Wire):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class StdioServer(Wire):
    """An MCP server that is started as a process."""

    name: str
    command: str
    args: ListOf[str] = []
    env: ListOf[Pair] = []


class RemoteServer(Wire):
    """An MCP server behind a URL."""

    type: Literal["http", "sse"]
    name: str
    url: Annotated[str, AfterValidator(_http)]
    headers: ListOf[Pair] = []


def _transport(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else None
    return "stdio" if kind in (None, "stdio") else "remote"


McpServer = Annotated[
    Annotated[StdioServer, Tag("stdio")] | Annotated[RemoteServer, Tag("remote")],
    Discriminator(_transport),
]


def _each_name_once(servers: list[McpServer]) -> list[McpServer]:
    if len({server.name for server in servers}) < len(servers):
        raise ValueError("two servers have the same name")
    return servers


class NewSession(Wire):
    """``session/new``."""

    cwd: AbsolutePath
    mcp_servers: Annotated[ListOf[McpServer], AfterValidator(_each_name_once)] = []
    additional_directories: ListOf[AbsolutePath] = []


class OldSession(NewSession):
    """``session/load`` and ``session/resume``."""

    session_id: str


class ForkSession(OldSession):
    """``session/fork``; ``_meta["acp-harness"].message`` names a message to fork at."""

    meta: Any = Field(default=None, alias="_meta")

    @property
    def message(self) -> str | None:
        """The id of the message to fork at, if the client names one."""
        match self.meta:
            case {"acp-harness": {"message": str(id)}}:
                return id
        return None


class OfSession(Wire):
    """Anything that names a session and nothing else."""

    session_id: str


class SetMode(Wire):
    """``session/set_mode``."""

    session_id: str
    mode_id: str


class SetOption(Wire):
    """``session/set_config_option``; whether ``value`` fits is for the option to say."""

    session_id: str
    config_id: str
    value: str | bool


class ListSessions(Wire):
    """``session/list``."""

    cwd: AbsolutePath | None = None
    cursor: str | None = None


class Authenticate(Wire):
    """``authenticate``."""

    method_id: str


def _base64(data: str) -> str:
    """``data`` without the line breaks that some encoders make and providers refuse."""
    if not is_base64(data) and not is_base64(data := "".join(data.split())):
        raise ValueError("must be base64, without a data: prefix")
    return data


def _not_empty(data: str) -> str:
    if not data:
        raise ValueError("must not be empty")
    return data


def _media_type(name: str) -> str:
    if _MEDIA_TYPE.match(name) is None:
        raise ValueError("must be a media type, such as image/png")
    return name


_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+\s*(?:;|\Z)", re.ASCII)
Base64 = Annotated[str, AfterValidator(_base64)]
Data = Annotated[Base64, AfterValidator(_not_empty)]
MediaType = Annotated[str, AfterValidator(_media_type)]


class TextBlock(Wire):
    """Text."""

    type: Literal["text"]
    text: str


class ImageBlock(Wire):
    """An image, base64."""

    type: Literal["image"]
    data: Data
    mime_type: MediaType
    uri: str | None = None


class AudioBlock(Wire):
    """A sound, base64."""

    type: Literal["audio"]
    data: Data
    mime_type: MediaType


class LinkBlock(Wire):
    """A reference."""

    type: Literal["resource_link"]
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class TextResource(Wire):
    """Embedded text."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobResource(Wire):
    """Embedded bytes, base64."""

    uri: str
    blob: Base64
    mime_type: str | None = None


def _contents(value: Any) -> str:
    """Which of the two an embedded resource is meant to be."""
    match value:
        case {"text": str()}:
            return "text"
        case {"blob": _}:
            return "blob"
    return "text"


class ResourceBlock(Wire):
    """An embedded resource."""

    type: Literal["resource"]
    resource: Annotated[
        Annotated[TextResource, Tag("text")] | Annotated[BlobResource, Tag("blob")],
        Discriminator(_contents),
    ]


Block = Annotated[
    TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock, Discriminator("type")
]


class Prompt(Wire):
    """``session/prompt``."""

    session_id: str
    prompt: list[Block]
    trace: Annotated[Mapping[str, str], BeforeValidator(trace_of)] = Field(
        default_factory=dict, alias="_meta"
    )


class Steering(Wire):
    """``_session/steering``: as a prompt, into the turn that runs."""

    session_id: str
    prompt: list[Block]
    meta: Any = Field(default=None, alias="_meta")

    @property
    def prompt_required(self) -> bool:
        """Whether the client would rather send a prompt itself if no turn runs."""
        match self.meta:
            case {"steering": {"idleBehavior": "promptRequired"}}:
                return True
        return False


M = TypeVar("M", bound=Wire)


def validate(model: type[M], params: Mapping[str, Any]) -> M:
    """``params`` as a ``model``. Raises ``RpcError`` (-32602) naming the field and the problem."""
    try:
        return model.model_validate(params)
    except ValidationError as failure:
        raise RpcError(INVALID_PARAMS, _explain(failure)) from None


def _explain(failure: ValidationError) -> str:
    """The first problem in a sentence, which repeats nothing of what was sent (V1-RPC-08)."""
    error = failure.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in error["loc"])
    problem = error["msg"].removeprefix("Value error, ")
    if error["type"] == "union_tag_invalid":
        problem = "{discriminator} must be one of {expected_tags}".format(**error["ctx"])
    return f"invalid params: {where}: {problem}"
