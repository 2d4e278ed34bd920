"""Which models a user can choose from: who is asked, what is kept, and who is left out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
import pytest

from conformance.model_server import ModelServer
from harness_core.model.catalogue import resolve
from harness_core.model.choices import (
    Lists,
    Times,
    available_models,
    discover,
    known_models,
    provider_title,
)
from harness_core.model.protocol import ModelInfo
from harness_core.model.providers import PRESETS
from harness_core.model.settings import ModelSettings, ProviderSettings

pytestmark = pytest.mark.anyio

Answer: TypeAlias = Callable[[str], bytes]
"""An HTTP response to a request's head."""

LOCAL = [id for id, preset in PRESETS.items() if preset.local]
NOBODY = ProviderSettings(base_url="http://127.0.0.1:1/v1")
"""A port on which nothing ever listens."""
PATIENT = Times(10.0, 1000.0)


def settings(model: str | None = None, **providers: ProviderSettings) -> ModelSettings:
    """With no local server but those that are named: this machine may have some of its own."""
    return ModelSettings(model, {**dict.fromkeys(LOCAL, NOBODY), **providers})


def at(url: str, **rest: Any) -> ProviderSettings:
    return ProviderSettings(base_url=url, **rest)


def listed(*ids: str) -> bytes:
    return page(json.dumps({"data": [{"id": id} for id in ids]}).encode(), "application/json")


def page(body: bytes, kind: str, status: int = 200) -> bytes:
    head = f"HTTP/1.1 {status} Told\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(head.decode("latin-1").lower()))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


def ids(infos: Sequence[ModelInfo]) -> list[str]:
    return [info.id for info in infos]


# --- what is known without asking --------------------------------------------------------------


def test_with_nothing_set_up_there_is_the_demo_model() -> None:
    (only,) = known_models(settings(), {}, Lists())
    assert (only.id, only.label) == ("demo:demo", "Offline demo")


@pytest.mark.parametrize(
    ("model", "env", "expected"),
    [
        ("openai:gpt-x", {}, ["openai:gpt-x", "demo:demo"]),
        ("nowhere:m", {}, ["nowhere:m", "demo:demo"]),
        ("nonsense", {}, ["demo:demo"]),
        ("demo:other", {}, ["demo:demo", "demo:other"]),
        (None, {"ACP_HARNESS_MODEL": "anthropic:claude"}, ["anthropic:claude", "demo:demo"]),
    ],
)
def test_the_default_is_there_and_the_demo_is_last(
    model: str | None, env: dict[str, str], expected: list[str]
) -> None:
    assert ids(known_models(settings(model), env, Lists())) == expected


def test_models_that_the_settings_name_are_known() -> None:
    acme = at("http://localhost:9/v1", context_windows={"big": 100, "small": 10})
    infos = known_models(settings(acme=acme), {}, Lists())
    assert [(info.id, info.context_window) for info in infos[:-1]] == [
        ("acme:big", 100),
        ("acme:small", 10),
    ]


def test_providers_that_cannot_be_called_offer_nothing() -> None:
    keyless = at("https://llm.example/v1", context_windows={"big": 100})
    odd = ProviderSettings(kind="gopher", context_windows={"m": 1})
    homeless = ProviderSettings(context_windows={"m": 1})
    said = settings(keyless=keyless, odd=odd, homeless=homeless)
    assert ids(known_models(said, {}, Lists())) == ["demo:demo"]


def test_providers_have_titles() -> None:
    said = settings(acme=ProviderSettings(title="Acme Corp."))
    titles = {id: provider_title(id, said, {}) for id in ("openai", "llamacpp", "acme", "who")}
    assert titles == {
        "openai": "OpenAI",
        "llamacpp": "llama.cpp",
        "acme": "Acme Corp.",
        "who": "who",
    }


# --- asking ------------------------------------------------------------------------------------


async def test_every_provider_that_can_be_called_is_asked() -> None:
    async with ModelServer(models=("claude-a", "claude-b")) as one, ModelServer() as two:
        said = settings(
            "openai:favourite",
            acme=at(one.anthropic_base_url, kind="anthropic"),
            newer=at(one.openai_base_url, kind="openai-responses"),
        )
        env = {"OPENAI_BASE_URL": two.openai_base_url}
        infos = await available_models(said, env, Lists(near=PATIENT))
    assert ids(infos) == [
        "acme:claude-a",
        "acme:claude-b",
        "newer:claude-a",
        "newer:claude-b",
        "openai:favourite",
        "openai:fake-model",
        "demo:demo",
    ]


async def test_local_servers_are_found_by_asking() -> None:
    async with ModelServer(models=("qwen3:8b", "nomic-embed-text")) as ollama:
        said = settings(ollama=at(ollama.openai_base_url))
        infos = await discover(said, {"OPENAI_API_KEY": "k"}, Lists(near=PATIENT))
    assert ids(infos) == ["ollama:qwen3:8b"]


async def test_a_server_that_has_a_name_already_is_not_found_twice() -> None:
    mine = at("http://localhost:11434/v1/", context_windows={"qwen3:8b": 8192})
    said = ModelSettings(None, {id: NOBODY for id in LOCAL if id != "ollama"} | {"mine": mine})
    async with server(lambda head: listed("other")):
        assert "ollama:other" not in ids(known_models(said, {}, Lists()))


async def test_they_are_asked_side_by_side() -> None:
    """Each answers only when all have been asked."""
    barrier = asyncio.Barrier(len(LOCAL))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await barrier.wait()
        writer.write(listed("m"))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        said = ModelSettings(None, dict.fromkeys(LOCAL, at(url)))
        infos = await discover(said, {}, Lists(near=PATIENT))
    assert ids(infos) == [f"{id}:m" for id in LOCAL]


async def test_who_says_nothing_is_not_waited_for() -> None:
    silent = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    listening = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        with anyio.fail_after(20):
            infos = await discover(settings(vllm=at(url)), {}, Lists(near=Times(0.05, 1.0)))
        silent.set()
    assert infos == []


STRANGE: dict[str, bytes] = {
    "a page": page(b"<html>Welcome", "text/html"),
    "an error": page(b'{"error": {"message": "no"}}', "application/json", 500),
    "a closed door": page(b'{"data": [{"id": "m"}]}', "application/json", 401),
    "something else": page(b'{"hello": "world"}', "application/json"),
    "a number": page(b"42", "application/json"),
    "bytes": page(b"\xff\xfe\x00", "application/json"),
    "no http": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("what", STRANGE)
async def test_a_server_of_another_kind_on_a_usual_port_is_left_out(what: str) -> None:
    async with server(lambda head: STRANGE[what]) as url:
        said = settings(vllm=at(url))
        assert await discover(said, {}, Lists(near=PATIENT)) == []
        infos = await available_models(said, {}, Lists(near=PATIENT))
    assert ids(infos) == ["demo:demo"]


async def test_a_key_goes_only_to_its_provider() -> None:
    heads: dict[str, str] = {}

    def remember(name: str) -> Answer:
        def answer(head: str) -> bytes:
            heads[name] = head
            return listed("m")

        return answer

    async with server(remember("mine")) as mine, server(remember("vllm")) as theirs:
        said = settings(mine=at(mine, api_key_env="MINE"), vllm=at(theirs))
        env = {"MINE": "my-secret", "OPENAI_API_KEY": "their-secret"}
        await discover(said, env, Lists(near=PATIENT))
    assert "authorization: bearer my-secret" in heads["mine"]
    assert "secret" not in heads["vllm"]


# --- what is kept ------------------------------------------------------------------------------


async def test_a_list_is_kept_for_a_while() -> None:
    now, asked = [0.0], iter(("one", "two", "three"))
    async with server(lambda head: listed(next(asked))) as url:
        said, lists = settings(vllm=at(url)), Lists(near=Times(10.0, 5.0), clock=lambda: now[0])
        seen = []
        for moment in (0.0, 4.0, 6.0):
            now[0] = moment
            seen += ids(await discover(said, {}, lists))
    assert seen == ["vllm:one", "vllm:one", "vllm:two"]
    assert ids(known_models(said, {}, lists)) == ["vllm:two", "demo:demo"]


async def test_a_local_server_that_went_away_has_no_models() -> None:
    now = [0.0]
    lists = Lists(near=Times(10.0, 5.0), clock=lambda: now[0])
    async with server(lambda head: listed("one")) as url:
        said = settings(vllm=at(url))
        assert ids(await discover(said, {}, lists)) == ["vllm:one"]
    now[0] = 6.0
    assert await discover(said, {}, lists) == []


async def test_the_settings_count_more_than_the_list() -> None:
    entry = {"id": "m", "context_length": 8, "name": "Em"}
    answer = page(json.dumps([entry, {**entry, "id": "n"}]).encode(), "application/json")
    async with server(lambda head: answer) as url:
        said = settings(vllm=at(url, context_windows={"m": 99}, images=False))
        m, n = await discover(said, {}, Lists(near=PATIENT))
    assert (m.context_window, m.label, m.images) == (99, "Em", False)
    assert (n.context_window, n.base_url) == (8, url)


async def test_a_model_knows_what_its_providers_list_said() -> None:
    entry = {"id": "m", "meta": {"n_ctx": 4096}, "architecture": {"input_modalities": ["text"]}}
    async with server(lambda head: page(json.dumps([entry]).encode(), "application/json")) as url:
        said = settings(llamacpp=at(url))
        assert resolve("llamacpp:m", said, {}).info.context_window is None
        await discover(said, {})
    info = resolve("llamacpp:m", said, {}).info
    assert (info.context_window, info.images) == (4096, False)


FAR_AWAY = """
import anyio, json, sys
from harness_core.model.choices import Lists, Times, available_models
from harness_core.model.settings import ModelSettings, ProviderSettings

nobody = ProviderSettings(base_url="http://127.0.0.1:1/v1")
providers = dict.fromkeys(("ollama", "lmstudio", "llamacpp", "vllm"), nobody)
providers["far"] = ProviderSettings(base_url="http://llm.example/v1", api_key="k")
now = [0.0]

async def main():
    lists = Lists(far=Times(20.0, 100.0), clock=lambda: now[0])
    for moment in (0.0, 101.0, 120.0, 140.0):
        now[0] = moment
        infos = await available_models(ModelSettings(None, providers), {}, lists)
        print(json.dumps([info.id for info in infos]), flush=True)

anyio.run(main)
"""


@pytest.fixture
def clean_env() -> Mapping[str, str]:
    """The environment without what would lead requests elsewhere."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}


async def test_a_provider_far_away_keeps_its_list_when_it_fails(
    clean_env: Mapping[str, str],
) -> None:
    """It is asked through the environment's proxy, and after a failure not again at once."""
    answers: Iterator[bytes] = iter((listed("one"), page(b"", "text/plain", 503), listed("two")))
    asked = []

    def answer(head: str) -> bytes:
        asked.append(head.split("\r\n")[0])
        return next(answers)

    async with server(answer) as url:
        env = {**clean_env, "HTTP_PROXY": url.removesuffix("/v1")}
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, "-c", FAR_AWAY],
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
        )
    assert asked == ["get http://llm.example/v1/models http/1.1"] * 3
    seen = [json.loads(line)[0] for line in done.stdout.splitlines()]
    assert seen == ["far:one", "far:one", "far:one", "far:two"]
