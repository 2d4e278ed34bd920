"""The page for a key: for one browser, from its own form, at its own address, or for nobody."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.key_page import COOKIE, LARGEST, KeyPage
from acp_server.sign_in import NotSignedIn, sign_in
from harness_core.person import Answer, Nobody
from tests.acp_server.browser import Browser, browser

pytestmark = pytest.mark.anyio

KEY = "sk-test"


@asynccontextmanager
async def shown() -> AsyncIterator[tuple[KeyPage, list[str]]]:
    """A page, and the keys that were entered on it."""
    kept: list[str] = []

    async def keep(key: str) -> None:
        kept.append(key)

    async with KeyPage("SOME_KEY", keep) as page:
        yield page, kept


async def test_what_a_browser_is_told_keeps_the_page_to_itself() -> None:
    async with shown() as (page, kept), browser() as window:
        await window.open(page.url)
        headers = window.page.headers
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        cookie = headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", f"Path={httpx.URL(page.url).path}"} <= {
            *cookie.split("; ")
        }
        assert 'type="password"' in window.page.text
        assert kept == []


async def test_only_the_browser_that_opened_it_first_can_use_it() -> None:
    async with shown() as (page, kept), browser() as first, browser() as second:
        await first.open(page.url)
        assert (await second.open(page.url)).page.status_code == 403
        assert "opened in another browser" in second.page.text
        assert "<form" not in second.page.text
        stolen = Browser(second._client)
        stolen.page = first.page
        assert (await stolen.send(key="theirs")).status_code == 403
        await first.open(page.url)
        assert (await first.send(key=KEY)).status_code == 200
        assert kept == [KEY]
        assert await page.outcome is True


async def test_it_takes_one_key() -> None:
    held, going = asyncio.Event(), asyncio.Event()
    kept: list[str] = []

    async def keep(key: str) -> None:
        kept.append(key)
        held.set()
        await going.wait()

    async with KeyPage("SOME_KEY", keep) as page, browser() as window:
        await window.open(page.url)
        again = Browser(window._client)
        again.page = window.page
        sending = asyncio.ensure_future(window.send(key=KEY))
        await held.wait()
        assert (await again.send(key="another")).status_code == 409
        going.set()
        assert (await sending).status_code == 200
        assert kept == [KEY]


WRONG = {
    "address": [f"/{'x' * 43}", "/", "/?", "//evil.example/"],
    "host": ["localhost", "evil.example", "127.0.0.1", ""],
    "cookie": [f"{COOKIE}=wrong", f"{COOKIE}=", "other=1", ";;=;\x80", ""],
    "origin": ["http://evil.example", "null", "http://127.0.0.1", ""],
    "form": ["wrong", ""],
    "method": ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "FOO"],
}


@given(st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in WRONG.items()}))
def test_a_key_is_taken_only_if_everything_is_right(wrong: dict[str, str]) -> None:
    async def scene() -> None:
        async with shown() as (page, kept):
            url = httpx.URL(page.url)
            host = f"127.0.0.1:{url.port}"
            opened = await raw(url, f"GET {url.path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            (cookie,) = re.findall(r"Set-Cookie: ([^;]*);", opened)
            (form,) = re.findall(r'name="form" value="([^"]*)"', opened)
            right = {
                "address": url.path,
                "host": host,
                "cookie": cookie,
                "origin": f"http://{host}",
                "form": form,
                "method": "POST",
            }
            use = {**right, **wrong}
            body = f"form={use['form']}&key={KEY}&do=keep"
            head = [
                f"{use['method']} {use['address']} HTTP/1.1",
                *([f"Host: {use['host']}"] if use["host"] else []),
                *([f"Cookie: {use['cookie']}"] if use["cookie"] else []),
                *([f"Origin: {use['origin']}"] if use["origin"] else []),
                f"Content-Length: {len(body)}",
            ]
            await raw(url, "\r\n".join([*head, "", body]))
            assert kept == ([] if wrong else [KEY])
            assert page.outcome.done() is (not wrong)

    anyio.run(scene)


async def raw(url: httpx.URL, text: str | bytes) -> str:
    """Send bytes and read all that is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", url.port)
    writer.write(text if isinstance(text, bytes) else text.encode("latin-1"))
    writer.write_eof()
    try:
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


@given(
    st.binary(max_size=200)
    | st.sampled_from(
        [
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * LARGEST,
            b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
            b"POST / HTTP/1.1\r\n\r\n",
        ]
    )
)
def test_whatever_else_comes_does_it_no_harm(sent: bytes) -> None:
    async def scene() -> None:
        async with shown() as (page, kept), browser() as window:
            answer = await raw(httpx.URL(page.url), sent)
            assert " 200 " not in answer.partition("\r\n")[0]
            await window.open(page.url)
            await window.send(key=KEY)
            assert kept == [KEY]

    anyio.run(scene)


async def test_a_connection_that_says_nothing_does_not_keep_it_open() -> None:
    async with shown() as (page, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(page.url).port)
        writer.write(b"GET /")
        await writer.drain()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()


async def test_what_has_a_strange_name_is_shown_as_text() -> None:
    async def keep(_: str) -> None:
        raise AssertionError

    async with KeyPage("<script>", keep) as page, browser() as window:
        assert "&lt;script&gt;" in (await window.open(page.url)).page.text


# --- signing in -----------------------------------------------------------------------------------


class Agreeing(Nobody):
    """Somebody who agrees and goes away."""

    url = ""

    async def visit(self, page: str, message: str, url: str, call: str | None) -> Answer:
        self.url = url
        return Answer("accept")


async def test_nobody_is_waited_for_for_ever() -> None:
    async def keep(_: str) -> None:
        raise AssertionError

    person: Any = Agreeing()
    with pytest.raises(NotSignedIn, match="no key was entered within"):
        await sign_in("SOME_KEY", keep, person, patience=0.0)
    with pytest.raises(OSError):
        await raw(httpx.URL(person.url), b"")
