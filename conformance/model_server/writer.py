"""Writes one reply: pauses where the script pauses, sends together what can leave together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from conformance.model_server import http
from conformance.model_server.dialect import Content, Stream
from conformance.model_server.reply import (
    Call,
    Cut,
    Delay,
    Finish,
    Hang,
    Malformed,
    Part,
    Repeat,
    Reply,
    Text,
    Think,
    ToolCall,
    Wait,
)


class StreamWriter:
    """Writes one streamed reply; what can leave together leaves in one write."""

    def __init__(self, stream: Stream, send: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._send = send
        self._opening = http.STREAM_HEAD + http.chunk(stream.begin())

    async def write(self, parts: Iterable[Part], finish: Finish, reply: Reply) -> bool:
        """Write it all; False if the script wants the connection dropped."""
        ready: list[bytes] = []
        for part in parts:
            match part:
                case Delay() | Wait() | Hang():
                    self._flush(ready, begin=bool(ready))
                    await _pause(part)
                case Cut(clean=clean):
                    self._flush(ready)
                    self._send(http.LAST_CHUNK if clean else b"")
                    return clean
                case Malformed(raw=raw):
                    ready.append(raw)
                case ToolCall():
                    raise AssertionError("semantic calls are resolved before writing")
                case Text() | Repeat() | Think() | Call():
                    ready.append(self._stream.part(part))
                case _:
                    assert_never(part)
        ready.append(self._stream.end(finish, reply.usage))
        self._flush(ready)
        self._send(http.LAST_CHUNK)
        return True

    def _flush(self, ready: list[bytes], begin: bool = True) -> None:
        if begin:
            self._send(self._opening)
            self._opening = b""
        self._send(http.chunk(b"".join(ready)))
        ready.clear()


async def _pause(part: Delay | Wait | Hang) -> None:
    match part:
        case Delay(seconds=seconds):
            await asyncio.sleep(seconds)
        case Wait(event=event):
            await event.wait()
        case Hang():
            await asyncio.get_running_loop().create_future()


async def waited(parts: Sequence[Part]) -> tuple[list[Content], bool]:
    """The content of a reply that is not streamed, after its pauses; False if it is cut."""
    content: list[Content] = []
    for part in parts:
        match part:
            case Delay() | Wait() | Hang():
                await _pause(part)
            case Cut() | Malformed():
                return content, False
            case Text() | Repeat() | Think() | Call():
                content.append(part)
    return content, True
