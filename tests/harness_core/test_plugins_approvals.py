"""Approvals: what is asked for, and how answers are remembered."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from harness_core.bus import Next
from harness_core.facts import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalRule,
    Decision,
    SessionOption,
    ToolArguments,
)
from harness_core.model.scripted import asked, said
from harness_core.plugins.rule_store import RuleStore
from harness_core.plugins.rules import Rule
from harness_core.tools.pipeline import APPROVE, PRE_EXECUTE, Approval, ApprovalRequest, Verdict
from harness_core.tools.pipeline import Call as ToolRun
from harness_core.tools.tool import Kind
from tests.harness_core.kit import VIRTUAL, Doing, World, adopt, call, echo, refuse, world

pytestmark = pytest.mark.anyio

ASK = {"mode": "ask"}


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


def tools() -> list[Doing]:
    command = Doing("run", echo, "changes")
    command.kind = "execute"
    return [
        Doing("look", echo, "reads"),
        Doing("plan", echo, "none"),
        Doing("change", echo, "changes"),
        command,
    ]


class Person:
    """Answers questions in order, and remembers them."""

    def __init__(self, w: World, *decisions: Decision) -> None:
        self.asked: list[str] = []
        self._decisions = iter(decisions)
        w.agent.bus.on(APPROVE, self._answer)

    async def _answer(self, request: ApprovalRequest, _: object) -> Approval:
        self.asked.append(request.verdict.label)
        return Approval(next(self._decisions), "user")


def script(*names: str) -> list[Any]:
    """A turn for each tool named: one call, then the end."""
    replies: list[Any] = []
    for number, name in enumerate(names):
        replies += [asked(call(f"c{number}", name)), said("done")]
    return replies


async def test_only_what_changes_something_is_asked_for() -> None:
    async with world(*script("look", "plan", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, "allow-once")
        for _ in range(3):
            await w.turn()
        assert len(person.asked) == 1
        assert [fact.call_id for fact in w.all(ApprovalAsked)] == ["c2"]
        assert w.result("c2").error is None


async def test_nothing_is_asked_for_if_the_settings_say_so() -> None:
    async with world(*script("change"), tools=tools(), settings={"mode": "auto"}) as w:
        person = Person(w)
        await w.turn()
        assert person.asked == []
        assert w.result("c0").error is None


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [("allow-always", None, None), ("reject-always", None, "denied")],
)
async def test_always_is_a_fact_and_is_not_asked_again(
    first: Decision, second: None, error: str | None
) -> None:
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, first)
        await w.turn()
        await w.turn()
        assert len(person.asked) == 1
        assert [rule.allow for rule in w.all(ApprovalRule)] == [error is None]
        assert w.result("c1").error == error


@pytest.mark.parametrize("decision", ["allow-once", "reject-once", "cancelled", "unavailable"])
async def test_an_answer_for_once_is_not_remembered(decision: Decision) -> None:
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, decision, "allow-once")
        await w.turn()
        await w.turn()
        assert len(person.asked) == 2
        assert w.all(ApprovalRule) == []
        assert w.result("c1").error is None


async def test_always_for_one_tool_says_nothing_of_another() -> None:
    async with world(*script("change", "run"), tools=tools(), settings=ASK) as w:
        person = Person(w, "allow-always", "reject-once")
        await w.turn()
        await w.turn()
        assert len(person.asked) == 2
        assert w.result("c1").error == "denied"


async def test_a_revoked_answer_is_asked_again() -> None:
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, "allow-always", "reject-once")
        await w.turn()
        (rule,) = w.all(ApprovalRule)
        w.agent.session.append(ApprovalRule(rule.scope, rule.allow, revoked=True))
        await w.turn()
        assert len(person.asked) == 2
        assert w.result("c1").error == "denied"


async def test_an_always_that_cannot_be_logged_is_no_allowance() -> None:
    async with world(*script("change"), tools=tools(), settings=ASK) as w:
        Person(w, "allow-always")
        w.agent.session.validators.append(refuse(ApprovalRule))
        await w.turn()
        assert w.result("c0").error == "denied"
        assert w.last(ApprovalDecided).decision == "unavailable"


async def test_what_another_check_has_rewritten_is_asked_for_and_run_as_rewritten() -> None:
    async with world(*script("change"), tools=tools(), settings=ASK) as w:
        requests: list[ApprovalRequest] = []

        async def rewrite(_: ToolRun, __: Next[ToolRun, Verdict]) -> Verdict:
            return Verdict("allow", by="hook", arguments={"word": "safe"})

        async def answer(request: ApprovalRequest, _: object) -> Approval:
            requests.append(request)
            return Approval("allow-once", "user")

        w.agent.bus.on(PRE_EXECUTE, rewrite)
        w.agent.bus.on(APPROVE, answer)
        await w.turn()
        assert dict(requests[0].call.arguments) == {"word": "safe"}
        assert w.last(ToolArguments).by == "hook"
        assert w.result_text("c0") == "safe"


@pytest.mark.parametrize("verdict", [Verdict("deny", "no"), Verdict("ask", "sure?")])
async def test_a_remembered_yes_does_not_outvote_another_check(verdict: Verdict) -> None:
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, "allow-always", "reject-once")
        await w.turn()

        async def check(_: ToolRun, __: Next[ToolRun, Verdict]) -> Verdict:
            return verdict

        w.agent.bus.on(PRE_EXECUTE, check)
        await w.turn()
        assert w.result("c1").error == "denied"
        assert len(person.asked) == (2 if verdict.kind == "ask" else 1)


# --- modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "tool", "asked_for", "error"),
    [
        ("ask", "write", True, None),
        ("accept-edits", "write", False, None),
        ("accept-edits", "run", True, None),
        ("plan", "write", False, "denied"),
        ("plan", "run", False, "denied"),
        ("plan", "look", False, None),
        ("auto", "run", False, None),
        ("no such mode", "write", True, None),
    ],
)
async def test_the_mode_of_a_session_decides_what_is_asked_for(
    mode: str, tool: str, asked_for: bool, error: str | None
) -> None:
    write = Doing("write", echo, "changes")
    write.kind = "edit"
    async with world(*script(tool), tools=[*tools(), write], settings=ASK) as w:
        person = Person(w, "allow-once")
        w.agent.session.append(SessionOption("mode", mode))
        await w.turn()
        assert bool(person.asked) == asked_for
        assert w.result("c0").error == error


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_what_was_rejected_stays_rejected_in_every_mode(mode: str) -> None:
    async with world(*script("run"), tools=tools(), settings={"mode": mode}) as w:
        person = Person(w)
        w.harness.memory.remember(w.agent, Rule("run", allow=False))
        await w.turn()
        assert (w.result("c0").error, person.asked) == ("denied", [])


async def test_a_plan_tells_the_model_why_nothing_is_run() -> None:
    async with world(*script("run"), tools=tools(), settings={"mode": "plan"}) as w:
        await w.turn()
        assert "plan mode" in w.result_text("c0")


# --- rules that outlive a session --------------------------------------------------------------


async def test_with_a_store_an_answer_lasts_for_the_project_until_it_is_revoked(
    tmp_path: Path,
) -> None:
    store = RuleStore(tmp_path / "rules.json")
    replies = script("change", "change", "change", "change")
    async with world(*replies, tools=tools(), settings=ASK) as w:
        w.harness.memory.store = store
        person = Person(w, "allow-always")
        await w.turn()
        adopt(w, await w.harness.create("/nowhere"))
        await w.turn()
        assert w.result("c1").error is None
        assert len(person.asked) == 1
        adopt(w, await w.harness.create("/elsewhere"))
        elsewhere = Person(w, "reject-once")
        await w.turn()
        assert len(elsewhere.asked) == 1
        adopt(w, await w.harness.create("/nowhere"))
        again = Person(w, "reject-once")
        (rule,) = store.rules(os.path.realpath("/nowhere"))
        assert w.harness.memory.revoke(w.agent, rule.scope)
        assert not w.harness.memory.revoke(w.agent, rule.scope)
        await w.turn()
        assert len(again.asked) == 1


@pytest.mark.parametrize("kind", get_args(Kind))
async def test_an_always_says_once_how_long_it_holds(kind: Kind, tmp_path: Path) -> None:
    change = Doing("change", echo, "changes")
    change.kind = kind
    async with world(*script("change", "change"), tools=[change], settings=ASK) as w:
        person = Person(w, "allow-once", "allow-once")
        await w.turn()
        w.harness.memory.store = RuleStore(tmp_path / "rules.json")
        await w.turn()
        lasting = [re.findall(r"in this \w+", label) for label in person.asked]
        assert lasting == [["in this session"], ["in this project"]]


async def test_a_rule_of_the_session_alone_is_revoked_there() -> None:
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        person = Person(w, "reject-always", "allow-once")
        await w.turn()
        assert w.harness.memory.revoke(w.agent, w.last(ApprovalRule).scope)
        await w.turn()
        assert len(person.asked) == 2
        assert w.result("c1").error is None


async def test_a_store_that_cannot_be_used_means_that_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "rules.json"
    broken.write_text("not JSON")
    async with world(*script("change", "change"), tools=tools(), settings=ASK) as w:
        w.harness.memory.store = RuleStore(broken)
        person = Person(w, "allow-always", "reject-once")
        await w.turn()
        await w.turn()
        assert len(person.asked) == 2
        assert (w.result("c0").error, w.result("c1").error) == (None, "denied")
    assert str(broken) in caplog.text
    assert broken.read_text() == "not JSON"
