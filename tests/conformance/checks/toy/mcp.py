"""A minimal MCP client over stdio: start a server, learn its tools, call them."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from toy.mutation import broken
from toy.peer import Json

PATIENCE = 1.0
"""Seconds a server may take to tell its tools."""


class Server:
    """One MCP server of one session."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._next = 0
        self.tools: list[Json] = []

    @classmethod
    async def start(cls, config: Json) -> Server | None:
        """The server, or None if it cannot be started or says nothing."""
        env = {**os.environ, **{e["name"]: e["value"] for e in config["env"]}}
        try:
            process = await asyncio.create_subprocess_exec(
                config["command"],
                *config["args"],
                env=env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError:
            if broken("NEW-07"):
                raise
            return None
        server = cls(config["name"], process)
        try:
            patience = None if broken("NEW-07.silent") else PATIENCE
            await asyncio.wait_for(server._greet(), patience)
        except (TimeoutError, ValueError):
            server.stop()
            return None
        return server

    async def call(self, name: str, arguments: Json) -> str:
        result = await self._request("tools/call", {"name": name, "arguments": arguments})
        return "".join(item.get("text", "") for item in result["content"])

    def stop(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    def offered(self) -> list[Json]:
        return [
            {
                "name": f"mcp__{self.name}__{tool['name']}",
                "description": tool.get("description", ""),
                "parameters": tool["inputSchema"],
            }
            for tool in self.tools
        ]

    async def _greet(self) -> None:
        info = {"name": "toy", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        await self._request("initialize", params)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = (await self._request("tools/list", {}))["tools"]

    async def _request(self, method: str, params: Json) -> Any:
        id = self._next
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == id:
                return message["result"]
        raise ValueError("the MCP server ended")

    def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
