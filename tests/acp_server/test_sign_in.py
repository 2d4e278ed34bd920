"""Signing in on a page: the key goes from the browser to the vault, and nowhere else."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from conformance.answers import constant, failing, never
from conformance.client import AgentRequest, Answerer, RpcError, Sent
from tests.acp_server.browser import browser, is_gone
from tests.acp_server.editor import Editor, spawned

pytestmark = pytest.mark.anyio

ELICIT = "elicitation/create"
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
YES = constant({"action": "accept"})
KEY = "sk-test-9f3a71c25bd8"


@dataclass
class World:
    """An agent without a key, and where it would keep one."""

    editor: Editor
    home: Path

    @property
    def stored(self) -> Any:
        path = self.home / "config" / "credentials.json"
        return orjson.loads(path.read_bytes()) if path.exists() else None

    def texts(self) -> bytes:
        """Everything that was written anywhere but into the vault."""
        files = [p for p in self.home.rglob("*") if p.is_file() and p.name != "credentials.json"]
        frames = [frame.raw for frame in self.editor.frames]
        return b"\n".join([*frames, self.editor.stderr.encode(), *(f.read_bytes() for f in files)])

    async def sign_in(self) -> Sent:
        return await self.editor.start("authenticate", {"methodId": "key"})

    async def page(self) -> AgentRequest:
        request: AgentRequest = await self.editor.asks(ELICIT)
        return request

    @property
    def completed(self) -> list[str]:
        method = "elicitation/complete"
        return [m.params["elicitationId"] for m in self.editor.incoming if m.method == method]


@asynccontextmanager
async def world(
    home: Path, answer: Answerer = YES, capabilities: Any = PAGES, **extra: str
) -> AsyncIterator[World]:
    (home / "config").mkdir(exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "ACP_HARNESS_CONFIG": str(home / "config" / "settings.toml"),
        "ACP_HARNESS_DATA_DIR": str(home / "data"),
        "ACP_HARNESS_LOG_LEVEL": "debug",
        "ACP_HARNESS_LOG_FILE": str(home / "agent.log"),
        "ACP_HARNESS_MODEL": "openai:some-model",
        "ACP_HARNESS_RETRY__ATTEMPTS": "0",
        "OPENAI_BASE_URL": "http://provider.example/v1",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        **extra,
    }
    async with spawned(home, env, answers={ELICIT: answer}) as editor:
        await editor.initialize(capabilities)
        yield World(editor, home)


async def refused(sent: Sent, code: int = -32000) -> str:
    """What the editor was told instead."""
    error = await sent.error()
    assert error is not None
    assert error.code == code
    if code == -32000:
        assert [method["id"] for method in error.data["authMethods"]] == ["key"]
    return error.message


# --- the way it goes ------------------------------------------------------------------------------


async def test_a_key_goes_from_the_browser_to_the_vault_and_nowhere_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w, browser() as window:
        await w.editor.new(tmp_path)
        signing_in = await w.sign_in()
        asked = await w.page()
        page = asked.params
        assert page.keys() == {"mode", "message", "requestId", "elicitationId", "url"}
        assert (page["mode"], page["requestId"]) == ("url", signing_in.id)
        assert "OPENAI_API_KEY" in page["message"]
        place = urlsplit(page["url"])
        assert (place.scheme, place.hostname, place.query) == ("http", "127.0.0.1", "")
        assert len(place.path) > 40

        await window.open(page["url"])
        assert "OPENAI_API_KEY" in window.page.text
        assert (signing_in.response, w.completed) == (None, [])  # agreeing completes nothing
        told = await window.send(key=f"  {KEY}\n")
        assert told.status_code == 200
        assert "The key is stored" in told.text
        assert KEY not in told.text

        assert await signing_in.result() == {}
        assert w.completed == [page["elicitationId"]]
        assert await is_gone(page["url"])
        assert w.stored == {"OPENAI_API_KEY": KEY}
        mode = (tmp_path / "config" / "credentials.json").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
        assert await (await w.sign_in()).result() == {}  # and again, with nothing to ask
        assert len(w.editor.requests) == 1
    assert KEY.encode() not in w.texts()


async def test_the_key_is_used_from_then_on(tmp_path: Path) -> None:
    """The provider is behind a proxy, which is ours: what it hears is what the provider would."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, world(tmp_path, HTTP_PROXY=f"http://127.0.0.1:{port}") as w:
        session = await w.editor.new(tmp_path)
        with pytest.raises(RpcError) as without:
            await w.editor.turn(session, "hello")
        assert without.value.code == -32000
        signing_in = await w.sign_in()
        async with browser() as window:
            await window.open((await w.page()).params["url"])
            await window.send(key=KEY)
        assert await signing_in.result() == {}
        with pytest.raises(RpcError) as busy:
            await w.editor.turn(session, "hello")
        assert busy.value.code == -32603
        assert f"Bearer {KEY}".encode() in await heard.get()
    assert KEY.encode() not in w.texts()


async def test_signed_out_is_signed_out_until_a_key_is_entered(tmp_path: Path) -> None:
    async with world(tmp_path) as w, browser() as window:
        await w.editor.request("logout", {})
        with pytest.raises(RpcError):
            await w.editor.new(tmp_path)
        signing_in = await w.sign_in()
        await window.open((await w.page()).params["url"])
        await window.send(key=KEY)
        await signing_in.result()
        assert await w.editor.new(tmp_path)


async def test_who_is_done_on_the_page_is_not_asked_whether_to_open_it(tmp_path: Path) -> None:
    async with world(tmp_path, never) as w, browser() as window:
        signing_in = await w.sign_in()
        asked = await w.page()
        await window.open(asked.params["url"])
        await window.send(key=KEY)
        assert await signing_in.result() == {}
        taken_back = await w.editor.seen(lambda m: m.method == "$/cancel_request", "withdrawal")
        assert taken_back.params == {"requestId": asked.id}
        await w.editor.respond(asked, {"action": "decline"})  # too late to mean anything
        assert w.stored == {"OPENAI_API_KEY": KEY}


async def test_a_page_belongs_to_one_request(tmp_path: Path) -> None:
    async with world(tmp_path) as w, browser() as one, browser() as other:
        sent = [await w.sign_in(), await w.sign_in()]
        await w.editor.asks(ELICIT, 2)
        first, second = (request.params for request in w.editor.requests)
        assert [first["requestId"], second["requestId"]] == [s.id for s in sent]
        assert first["elicitationId"] != second["elicitationId"]
        await one.open(first["url"])
        await other.open(second["url"])
        await other.send(key=KEY)
        assert await sent[1].result() == {}
        assert sent[0].response is None
        await one.send("cancel")
        await refused(sent[0])
        assert w.completed == [second["elicitationId"]]


# --- the ways it does not -------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_without_pages_nothing_is_asked(tmp_path: Path, capabilities: Any) -> None:
    async with world(tmp_path, YES, capabilities) as w:
        assert "set OPENAI_API_KEY in the environment" in await refused(await w.sign_in())
        assert w.editor.requests == []


async def test_whoever_does_not_agree_is_not_signed_in(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for count, (answer, why) in enumerate(
            [
                (constant({"action": "decline"}), "signing in was declined"),
                (constant({"action": "cancel"}), "signing in was dismissed"),
                (constant({"action": "_later"}), "no answer that could be understood"),
                (constant({"act": "accept"}), "no answer that could be understood"),
                (constant(None), "no answer that could be understood"),
                (failing(-32603, "no browser"), "the editor could not ask: no browser"),
            ],
            1,
        ):
            w.editor.answers[ELICIT] = answer
            told = await refused(await w.sign_in())
            assert why in told
            assert "or set OPENAI_API_KEY where the editor starts the agent" in told
            assert len(w.editor.requests) == count
            assert await is_gone(w.editor.requests[-1].params["url"])
        assert (w.stored, w.completed) == (None, [])


async def test_a_sign_in_can_be_cancelled_on_its_page(tmp_path: Path) -> None:
    async with world(tmp_path) as w, browser() as window:
        signing_in = await w.sign_in()
        url = (await w.page()).params["url"]
        await window.open(url)
        assert "Nothing was stored" in (await window.send("cancel", key=KEY)).text
        assert "cancelled on its page" in await refused(signing_in)
        assert await is_gone(url)
        assert (w.stored, w.completed) == (None, [])


@pytest.mark.parametrize("answer", [YES, never])
async def test_a_sign_in_can_be_cancelled_by_the_editor(tmp_path: Path, answer: Answerer) -> None:
    async with world(tmp_path, answer) as w, browser() as window:
        signing_in = await w.sign_in()
        url = (await w.page()).params["url"]
        await window.open(url)
        await w.editor.notify("$/cancel_request", {"requestId": signing_in.id})
        await refused(signing_in, -32800)
        assert await is_gone(url)
        assert (w.stored, w.completed) == (None, [])
        w.editor.answers[ELICIT] = YES
        again = await w.sign_in()
        await window.open((await w.editor.asks(ELICIT, 2)).params["url"])
        await window.send(key=KEY)
        assert await again.result() == {}


@pytest.mark.parametrize("answer", [YES, never])
@pytest.mark.parametrize("end", ["the end of input", "SIGTERM"])
async def test_an_editor_that_goes_leaves_no_page_behind(
    tmp_path: Path, answer: Answerer, end: str
) -> None:
    async with world(tmp_path, answer) as w, browser() as window:
        await w.sign_in()
        url = (await w.page()).params["url"]
        await window.open(url)
        if end == "SIGTERM":
            w.editor.process.signal(signal.SIGTERM)
    assert await is_gone(url)
    assert w.stored is None


async def test_a_key_that_cannot_be_kept_can_be_entered_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w, browser() as window:
        signing_in = await w.sign_in()
        await window.open((await w.page()).params["url"])
        for typed, why in (("", "no key was given"), ("  ", "no key"), ("two words", "no blanks")):
            told = await window.send(key=typed)
            assert told.status_code == 422
            assert why in told.text
        obstacle = tmp_path / "config" / "credentials.json"
        obstacle.mkdir()
        told = await window.send(key=KEY)
        assert "cannot be" in told.text
        assert KEY not in told.text
        obstacle.rmdir()
        assert signing_in.response is None
        assert "The key is stored" in (await window.send(key=KEY)).text
        assert await signing_in.result() == {}
