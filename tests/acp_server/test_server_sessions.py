"""Sessions through the server: made, listed, left, opened again and deleted, in order."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import RpcError, encode_line, envelope
from tests.acp_server.editor import Editor, local, prompt_params

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

LOADING = pytest.mark.parametrize("method", ["session/load", "session/resume"])


async def refused(editor: Editor, method: str, params: Mapping[str, Any]) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await editor.request(method, dict(params))
    return caught.value


def break_off(data: Path, kind: bytes) -> None:
    """Leave the one log below ``data`` as a crash right after a fact of this kind leaves it."""
    (log,) = data.rglob("log.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    (last,) = [n for n, line in enumerate(lines) if kind in line]
    log.write_bytes(b"".join(lines[: last + 1]) + lines[last + 1][:20])


# --- new ------------------------------------------------------------------------------------------


async def test_every_session_has_an_id_of_its_own(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        ids = [await editor.new(tmp_path) for _ in range(30)]
        assert len(set(ids)) == 30


async def test_a_session_is_known_before_anything_is_told_of_it(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        params = {"cwd": str(tmp_path), "mcpServers": []}
        pending = [await editor.start("session/new", params) for _ in range(3)]
        for sent in pending:
            session = (await sent.result())["sessionId"]
            await editor.shown(session, lambda screen: screen.items)
            first = next(i for i in editor.incoming if i.session == session)
            assert first.index > (await sent.wait()).index
            assert first.kind == "available_commands_update"


@pytest.mark.parametrize("cwd", [None, "", "proj", "./proj", 5, "/no/such/directory"])
async def test_a_directory_that_is_none_is_refused(flags: Flags, cwd: Any, tmp_path: Path) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        error = await refused(editor, "session/new", {"cwd": cwd, "mcpServers": []})
        assert error.code == -32602
        error = await refused(editor, "session/new", {"mcpServers": []})
        assert error.code == -32602
        assert await editor.new(tmp_path)


@pytest.mark.parametrize("roots", [["rel"], [""], ["/no/such/directory"], [5], [None]])
async def test_no_additional_directory_is_dropped_silently(
    flags: Flags, roots: list[Any], tmp_path: Path
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        params = {"cwd": str(tmp_path), "additionalDirectories": [str(tmp_path), *roots]}
        assert (await refused(editor, "session/new", params)).code == -32602


@pytest.mark.parametrize("servers", [{}, {"mcpServers": None}, {"mcpServers": []}])
async def test_a_session_needs_no_servers(tmp_path: Path, flags: Flags, servers: Any) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        assert await editor.request("session/new", {"cwd": str(tmp_path), **servers})


@pytest.mark.parametrize(
    "server",
    [
        {"type": "x", "name": "n", "url": "http://127.0.0.1:1"},
        {"name": "n"},
        5,
    ],
)
async def test_a_server_that_cannot_be_had_fails_the_request(
    tmp_path: Path, flags: Flags, server: Any
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        params = {"cwd": str(tmp_path), "mcpServers": [server]}
        assert (await refused(editor, "session/new", params)).code == -32602


async def test_additional_directories_are_open_to_tools_and_others_are_not(
    tmp_path: Path, flags: Flags
) -> None:
    inside, beside, outside = (tmp_path / name for name in ("inside", "beside", "outside"))
    for directory in (inside, beside, outside):
        directory.mkdir()
        (directory / "file").write_text(f"the file {directory.name}")
    script = f'!call read {{"path": "{beside}/file"}}\n!call read {{"path": "{outside}/file"}}'
    async with local(flags) as editor:
        await editor.initialize()
        session = await editor.new(inside, additionalDirectories=[str(beside)])
        await editor.turn(session, script)
        statuses = [call["status"] for call in editor.screen(session).calls.values()]
        assert statuses == ["completed", "failed"]
        assert await editor.close(session) == {}
        await (await editor.load(session, inside)).result()
        since = len(editor.frames)
        await editor.turn(session, script)
        calls = list(editor.screen(session, since).calls.values())
        assert [call["status"] for call in calls] == ["failed", "failed"]


# --- list -----------------------------------------------------------------------------------------


async def listed(editor: Editor, **params: Any) -> list[str]:
    """Every session, page by page."""
    found: list[str] = []
    page = await editor.request("session/list", params)
    while True:
        found += [info["sessionId"] for info in page["sessions"]]
        if "nextCursor" not in page:
            return found
        page = await editor.request("session/list", {**params, "cursor": page["nextCursor"]})


@pytest.mark.parametrize("params", [{}, None, {"cwd": None, "cursor": None}, {"cwd": "/"}])
async def test_an_empty_list_is_a_list(flags: Flags, params: Any) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        assert await editor.request("session/list", params) == {"sessions": []}


async def test_all_sessions_are_listed_once_page_by_page_and_by_directory(
    tmp_path: Path, flags: Flags
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    async with local(flags) as editor:
        await editor.initialize()
        made: dict[Path, list[str]] = {}
        for directory in (here, there):
            directory.mkdir()
            made[directory] = [await editor.new(directory) for _ in range(30)]
        for session in made[here] + made[there]:
            await editor.turn(session, "!say ok")
            await editor.close(session)
        everything = await listed(editor)
        assert sorted(everything) == sorted(made[here] + made[there])
        assert sorted(await listed(editor, cwd=str(there))) == sorted(made[there])
        assert await listed(editor, cwd=str(tmp_path)) == []


async def test_a_list_is_answered_while_a_turn_runs(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        assert await listed(editor) == [session]
        await editor.cancel(session)
        await prompt.result()


@pytest.mark.parametrize("params", [{"cursor": "nonsense"}, {"cursor": ""}, {"cwd": "rel"}])
async def test_a_list_refuses_what_it_did_not_offer(flags: Flags, params: dict[str, Any]) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        assert (await refused(editor, "session/list", params)).code == -32602


# --- load and resume ------------------------------------------------------------------------------


@LOADING
async def test_a_session_goes_on_in_another_process(
    tmp_path: Path, flags: Flags, method: str
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "my name is Ada\n!say hello Ada")
    async with local(flags) as editor:
        await editor.initialize()
        assert isinstance(await (await editor.load(session, tmp_path, method)).result(), dict)
        since = len(editor.frames)
        await editor.turn(session, "!context")
        assert "my name is Ada" in editor.screen(session, since).text()


async def test_a_load_replays_before_it_is_answered_and_a_resume_does_not(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "first\n!say one")
        await editor.turn(session, "second\n!say two")
        await editor.close(session)
        since = len(editor.frames)
        await (await editor.load(session, tmp_path, "session/resume")).result()
        await editor.barrier()
        assert list(editor.screen(session, since).without("available_commands_update")) == []
        await editor.close(session)
        load = await editor.load(session, tmp_path)
        answered = (await load.wait()).index
        screen = editor.screen(session, since)
        assert screen.text("user_message_chunk") == "first\n!say onesecond\n!say two"
        assert screen.text() == "onetwo"
        await editor.barrier()
        assert list(editor.screen(session, answered).without("available_commands_update")) == []


async def test_a_loaded_session_is_announced_like_a_new_one(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
        created = await editor.request("session/new", {"cwd": str(tmp_path)})
    async with local(flags) as editor:
        await editor.initialize()
        load = await editor.load(session, tmp_path)
        assert (await load.result()).keys() == created.keys() - {"sessionId"}
        answered = (await load.wait()).index
        await editor.barrier()
        after = editor.updates(session, answered)
        assert "available_commands_update" in [update["sessionUpdate"] for update in after]


@LOADING
@pytest.mark.parametrize("id", ["nope", "", "../..", "a" * 5_000, "\0"])
async def test_an_unknown_session_cannot_be_opened(
    tmp_path: Path, flags: Flags, method: str, id: str
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        error = await refused(
            editor, method, {"sessionId": id, "cwd": str(tmp_path), "mcpServers": []}
        )
        assert error.code == -32002
        assert error.data["sessionId"] == id[:128]


@LOADING
async def test_a_session_does_not_move_silently(tmp_path: Path, flags: Flags, method: str) -> None:
    (tmp_path / "other").mkdir()
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
        params = {"sessionId": session, "cwd": str(tmp_path / "other"), "mcpServers": []}
        assert (await refused(editor, method, params)).code == -32602
        await editor.close(session)
        assert (await refused(editor, method, params)).code == -32602
        assert await (await editor.load(session, tmp_path, method)).result() is not None


async def test_loading_a_running_session_disturbs_no_turn(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say before")
        prompt = await editor.prompt(session, "!delay 1\n!stream 30 <{i}>")
        await editor.says(session, "<3>")
        load = await editor.load(session, tmp_path)
        await load.result()
        assert await prompt.result() == {"stopReason": "end_turn"}
        texts = [update["content"]["text"] for update in editor.said(session)]
        again = texts[texts.index("before", 1) :]
        assert "".join(again) == "before" + "".join(f"<{n}>" for n in range(1, 31))


async def test_an_interrupted_turn_is_closed_when_it_is_loaded(
    tmp_path: Path, flags: Flags
) -> None:
    """The log of a process that was killed ends in the middle of a call."""
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, '!say now\n!call read {"path": "a"}\n!say never')
    break_off(Path(flags["data_dir"]), b'"tool/start"')
    async with local(flags) as editor:
        await editor.initialize()
        await (await editor.load(session, tmp_path)).result()
        screen = editor.screen(session)
        assert screen.open_calls == []
        assert "now" in screen.text()
        assert "never" not in screen.text()
        assert await editor.turn(session, "!say again") == "end_turn"


# --- close and delete -----------------------------------------------------------------------------


async def test_a_closed_session_can_be_opened_again_but_not_be_prompted(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
        assert await editor.close(session) == {}
        error = await refused(editor, "session/prompt", prompt_params(session, "!say no"))
        assert (error.code, error.data) == (-32002, {"sessionId": session})
        assert await listed(editor) == [session]
        await (await editor.load(session, tmp_path)).result()
        assert await editor.turn(session, "!say again") == "end_turn"


async def test_closing_and_deleting_always_succeed(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for _ in range(2):
            assert await editor.close(session) == {}
        for _ in range(2):
            assert await editor.request("session/delete", {"sessionId": session}) == {}
        for method in ("session/close", "session/delete"):
            assert await editor.request(method, {"sessionId": "nope"}) == {}


async def test_a_deleted_session_is_gone(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        kept, gone = await editor.open(tmp_path), await editor.new(tmp_path)
        for session in (kept, gone):
            await editor.turn(session, "!say ok")
        assert await editor.request("session/delete", {"sessionId": gone}) == {}
        assert await listed(editor) == [kept]
        params = {"sessionId": gone, "cwd": str(tmp_path), "mcpServers": []}
        assert (await refused(editor, "session/load", params)).code == -32002


async def test_deleting_a_running_session_cancels_it(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        assert await editor.request("session/delete", {"sessionId": session}) == {}
        assert await prompt.result() == {"stopReason": "cancelled"}
        assert await listed(editor) == []


@pytest.mark.parametrize("method", ["session/prompt"])
async def test_a_stored_session_is_not_opened_by_a_prompt(
    tmp_path: Path, flags: Flags, method: str
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
    async with local(flags) as editor:
        await editor.initialize()
        error = await refused(editor, method, prompt_params(session, "!say no"))
        assert (error.code, error.data) == (-32002, {"sessionId": session})


# --- the order of what is asked -------------------------------------------------------------------


async def test_what_is_asked_of_a_session_in_one_write_happens_in_order(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say before")
    opened = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("session/load", opened),
        ("session/prompt", prompt_params(session, "!say first")),
        ("session/prompt", prompt_params(session, "!hang")),
        ("session/close", {"sessionId": session}),
        ("session/prompt", prompt_params(session, "!say lost")),
        ("session/resume", opened),
        ("session/prompt", prompt_params(session, "!context")),
        ("session/delete", {"sessionId": session}),
        ("session/load", opened),
    ]
    async with local(flags) as editor:
        await editor.initialize()
        sent = await editor.pipelined(*asked)
        outcomes = []
        for request in sent:
            message = (await request.wait()).message or {}
            outcomes.append(message.get("result", {}).get("stopReason") or request_code(message))
        assert outcomes == [
            "ok",
            "cancelled",
            "cancelled",
            "ok",
            -32002,
            "ok",
            "cancelled",
            "ok",
            -32002,
        ]


async def test_sessions_opened_in_one_write_are_each_told_of_after_their_own_answer(
    tmp_path: Path, flags: Flags
) -> None:
    """But for what a load replays, which comes before it."""
    async with local(flags) as editor:
        await editor.initialize()
        source, resumed, loaded = [await editor.new(tmp_path) for _ in range(3)]
        for session in (source, resumed, loaded):
            await editor.turn(session, "!say before")
    plain: dict[str, Any] = {"cwd": str(tmp_path), "mcpServers": []}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("session/new", plain),
        ("session/fork", {**plain, "sessionId": source}),
        ("session/resume", {**plain, "sessionId": resumed}),
        ("session/load", {**plain, "sessionId": loaded}),
        ("session/fork", {**plain, "sessionId": source}),
        ("session/new", plain),
        ("session/prompt", prompt_params(resumed, "!say after")),
        ("session/prompt", prompt_params(loaded, "!say after")),
    ]
    async with local(flags) as editor:
        await editor.initialize()
        sent = await editor.pipelined(*asked)
        for request, (method, params) in zip(sent[:6], asked, strict=False):
            session = (await request.result()).get("sessionId") or params["sessionId"]
            answered = (await request.wait()).index
            await editor.shown(session, lambda screen: screen.items, answered)
            told = editor.updates(session)
            early = told[: len(told) - len(editor.updates(session, answered))]
            said = [u["content"]["text"] for u in early if u["sessionUpdate"].endswith("chunk")]
            assert said == (["!say before", "before"] if method == "session/load" else [])
            assert bool(early) is (method == "session/load")
        assert [await request.result() for request in sent[6:]] == [{"stopReason": "end_turn"}] * 2


def request_code(message: dict[str, Any]) -> Any:
    return message["error"]["code"] if "error" in message else "ok"


async def test_a_cancel_right_behind_a_load_and_a_prompt_cancels_the_prompt(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say before")
    async with local(flags) as editor:
        await editor.initialize()
        load = editor.expect("session/load", "load")
        prompt = editor.expect("session/prompt", "prompt")
        opened = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        messages = [
            {**envelope("session/load", opened), "id": "load"},
            {**envelope("session/prompt", prompt_params(session, "!hang")), "id": "prompt"},
            envelope("session/cancel", {"sessionId": session}),
        ]
        await editor.send_raw(b"".join(map(encode_line, messages)))
        await load.result()
        assert await prompt.result() == {"stopReason": "cancelled"}


# --- memory ---------------------------------------------------------------------------------------


def ours() -> Counter[str]:
    """How many objects of our own classes there are, by class."""
    gc.collect()
    names = (f"{type(x).__module__}.{type(x).__qualname__}" for x in gc.get_objects())
    return Counter(name for name in names if name.startswith(("acp_server.", "harness_core.")))


async def test_a_closed_session_leaves_nothing_behind(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        await editor.initialize()

        async def some(count: int) -> None:
            for _ in range(count):
                session = await editor.new(tmp_path)
                await editor.turn(session, '!say ok\n!call list {"path": "."}')
                prompt = await editor.prompt(session, "!say begun\n!hang")
                await editor.says(session, "begun")
                await editor.close(session)
                assert await prompt.result() == {"stopReason": "cancelled"}
                await (await editor.load(session, tmp_path)).result()
                await editor.request("session/delete", {"sessionId": session})

        await some(10)
        before = ours()
        await some(30)
        assert ours() - before == Counter()
