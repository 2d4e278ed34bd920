"""The protocol's content and lists as ours. Knows the library's types and no connections."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence

import orjson
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    ReadResourceResult,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_types import Resource as ResourceEntry
from mcp_types import ResourceLink as Link
from mcp_types import Tool as ListedTool

from harness_core.content import Audio, Image, Resource, ResourceLink, ResultBlock, Text
from harness_core.model.readable import is_base64
from harness_core.plugins.mcp.offer import (
    ListedResource,
    OfferedPrompt,
    OfferedTool,
    PromptArgument,
)
from harness_core.tools.tool import ToolOutput

log = logging.getLogger(__name__)


def output_of(result: CallToolResult) -> ToolOutput:
    """A tool's result. Structured content stands in for content that is missing."""
    content = tuple(map(block_of, result.content))
    if not content and result.structured_content is not None:
        content = (Text(json.dumps(result.structured_content, ensure_ascii=False, indent=2)),)
    return ToolOutput(content or (Text("(no output)"),), is_error=result.is_error)


def block_of(block: ContentBlock) -> ResultBlock:
    """One block of content."""
    match block:
        case TextContent(text=text):
            return Text(text)
        case ImageContent(data=data, mime_type=mime):
            return _image(data, mime)
        case AudioContent(data=data, mime_type=mime):
            return Audio(data, mime)
        case Link():
            return ResourceLink(
                block.uri, block.name, block.title, block.description, block.mime_type, block.size
            )
        case EmbeddedResource(resource=resource):
            return _resource(resource)


def _image(data: str, mime: str) -> ResultBlock:
    """An image, unless it is none: a provider would refuse it with every later request."""
    return Image(data, mime) if is_base64(data) else Text(f"(an image of type {mime}, not base64)")


def _resource(resource: TextResourceContents | BlobResourceContents) -> Resource:
    if isinstance(resource, TextResourceContents):
        return Resource(resource.uri, text=resource.text, mime_type=resource.mime_type)
    return Resource(resource.uri, blob=resource.blob, mime_type=resource.mime_type)


def contents_of(result: ReadResourceResult) -> ToolOutput:
    """What was read: text as text, pictures as pictures, the rest as it is."""
    content = tuple(map(_read, result.contents))
    return ToolOutput(content or (Text("(empty)"),))


def _read(resource: TextResourceContents | BlobResourceContents) -> ResultBlock:
    if isinstance(resource, TextResourceContents):
        return Text(resource.text)
    mime = resource.mime_type or ""
    return _image(resource.blob, mime) if mime.startswith("image/") else _resource(resource)


def prompt_of(result: GetPromptResult) -> Sequence[ResultBlock]:
    """The messages of a prompt as one; what the assistant would have said is marked."""
    return tuple(_marked((m.role, block_of(m.content)) for m in result.messages))


def _marked(messages: Iterable[tuple[str, ResultBlock]]) -> Iterable[ResultBlock]:
    for role, block in messages:
        if role == "assistant":
            yield Text("[assistant]")
        yield block


# --- what is offered ---------------------------------------------------------------------------


def offered_tool(tool: ListedTool) -> OfferedTool | None:
    """A tool, or nothing if its description cannot be put in a request."""
    annotations = tool.annotations or ToolAnnotations()
    try:
        schema = orjson.loads(orjson.dumps(tool.input_schema))
        orjson.dumps((tool.name, tool.title, tool.description))
    except ValueError as failure:
        log.warning("tool %r of an MCP server cannot be described: %s", tool.name, failure)
        return None
    schema.pop("$schema", None)
    return OfferedTool(
        tool.name,
        tool.title or annotations.title or tool.name,
        tool.description or "",
        {"type": "object", "properties": {}, **schema},
        bool(annotations.read_only_hint),
    )


def offered_prompt(prompt: Prompt) -> OfferedPrompt:
    """A prompt."""
    arguments = tuple(PromptArgument(a.name, bool(a.required)) for a in prompt.arguments or ())
    return OfferedPrompt(prompt.name, prompt.description or prompt.title or "", arguments)


def listed(uri: str, one: ResourceEntry | ResourceTemplate, *, template: bool) -> ListedResource:
    """A resource, or a pattern of some."""
    about = one.description or ""
    return ListedResource(uri, one.title or one.name, about, one.mime_type or "", template)
