"""Which models a provider says it has: one bounded question, and how its answer reads.

Pure but for ``ask``. What is not there for a conversation with tools is left out as far as the
list, or a name, tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import anyio
import anyio.to_thread
import orjson

from harness_core.content import Json
from harness_core.model.failures import Reporter
from harness_core.model.http import Endpoint, client, preload
from harness_core.model.protocol import ModelInfo
from harness_core.model.providers import ANTHROPIC, OPENAI, RESPONSES

PATHS = {OPENAI: "/models", RESPONSES: "/models", ANTHROPIC: "/v1/models?limit=1000"}
"""Where an API lists its models."""
LARGEST = 8 * 1024 * 1024
"""Bytes of a list that are read."""
LONGEST = 500
"""Models of a list that are kept."""

_OTHER_USE = re.compile(
    r"embed|whisper|\btts|dall-e|moderation|image|imagen|veo-|sora|realtime|transcribe|audio"
    r"|rerank|guard|\bocr|davinci|babbage|-turbo-instruct|search-preview|deep-research|computer-use",
    re.IGNORECASE,
)
_OTHER_TYPES = ("embedding", "embeddings", "image", "audio", "moderation", "rerank")
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""What servers call a context window."""


class NoList(Exception):
    """A provider gave no list: it is not there, it refused, or it said something else."""


async def ask(endpoint: Endpoint, path: str, patience: float) -> Json:
    """The answer to ``GET path``, waited for ``patience`` seconds at most. Raises ``NoList``."""
    await anyio.to_thread.run_sync(preload)
    try:
        with anyio.fail_after(patience):
            return orjson.loads(await _read(endpoint, path))
    except NoList:
        raise
    except Exception as failure:
        raise NoList(f"{endpoint.provider}: {type(failure).__name__}") from failure


async def _read(endpoint: Endpoint, path: str) -> bytes:
    body = bytearray()
    url = endpoint.base_url + path
    headers = {"accept": "application/json"}
    async with (
        client(endpoint, Reporter(endpoint.provider, endpoint.secrets)) as http,
        http.stream("GET", url, headers=headers) as response,
    ):
        if not response.is_success:
            raise NoList(f"{endpoint.provider}: HTTP {response.status_code}")
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LARGEST:
                raise NoList(f"{endpoint.provider}: the list is too long")
    return bytes(body)


def models(answer: Json, provider: str) -> list[ModelInfo]:
    """The models that a list names, newest first if it tells."""
    entries = [entry for entry in _entries(answer) if _is_for_us(entry)]
    if all(isinstance(entry.get("created"), int) for entry in entries):
        entries.sort(key=lambda entry: -int(entry["created"]))
    return [_model(entry, provider) for entry in entries[:LONGEST]]


def _entries(answer: Json) -> Iterator[Mapping[str, Json]]:
    """Those that have a name: most wrap them in ``data``, some do not wrap them."""
    found = answer.get("data") if isinstance(answer, dict) else answer
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            yield entry


def _is_for_us(entry: Mapping[str, Json]) -> bool:
    parameters = entry.get("supported_parameters")
    return not (
        _OTHER_USE.search(entry["id"])
        or entry.get("type") in _OTHER_TYPES
        or entry.get("lifecycle") == "retired"
        or (isinstance(parameters, list) and "tools" not in parameters)
    )


def _model(entry: Mapping[str, Json], provider: str) -> ModelInfo:
    window, sees = _window(entry), _sees(entry)
    return ModelInfo(provider, entry["id"], window, images=sees, title=_title(entry))


def _title(entry: Mapping[str, Json]) -> str | None:
    for key in ("display_name", "name"):
        if isinstance(entry.get(key), str) and entry[key] != entry["id"]:
            return str(entry[key])
    if entry["id"].endswith(".gguf"):
        return re.split(r"[/\\]", entry["id"])[-1].removesuffix(".gguf")
    return None


def _window(entry: Mapping[str, Json]) -> int | None:
    meta = entry.get("meta")
    sizes = [entry.get(name) for name in (*_WINDOWS, "max_input_tokens")]
    sizes += [meta.get("n_ctx")] if isinstance(meta, dict) else []
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


def _sees(entry: Mapping[str, Json]) -> bool:
    """Whether it takes images, as far as the list tells."""
    shape = entry.get("architecture")
    taken = shape.get("input_modalities") if isinstance(shape, dict) else None
    return "image" in taken if isinstance(taken, list) else True
