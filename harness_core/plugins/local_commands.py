"""Commands that the agent answers by itself, without a model: ``/status``, ``/mode`` and the like.

Such a turn is a turn like any other, in the log and on the screen; only the "model" that is called
is one of ours, chosen at ``agent/request`` when the prompt begins with a command's name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness_core import __version__
from harness_core.agent import AGENT_CREATED, AGENT_DISPOSED, Agent
from harness_core.bus import Next
from harness_core.content import Chunk, Finish, TextDelta, UserMessage
from harness_core.facts import AssistantSaid
from harness_core.loop import REQUEST, RequestDraft
from harness_core.model.protocol import ModelConfig, ModelInfo, ModelRequest
from harness_core.plugins.export import markdown
from harness_core.plugins.options import MODE, MODEL, MODES, options, set_option
from harness_core.plugins.rule_store import RuleStoreError
from harness_core.plugins.rules import Rule, written
from harness_core.tools.tool import ToolError

if TYPE_CHECKING:
    from harness_core.harness import Harness

Answer = Callable[["Harness", Agent, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class LocalCommand:
    """A command and the function that answers it with Markdown. ``hint``: what may follow it."""

    name: str
    description: str
    hint: str
    answer: Answer


def called(message: UserMessage) -> tuple[LocalCommand, str] | None:
    """The local command that a prompt calls, and what follows its name."""
    if message.command is None or message.command[0] not in LOCAL:
        return None
    name, words = message.command
    return LOCAL[name], words


class Answering:
    """The "model" of one agent's local commands."""

    def __init__(self, harness: Harness, agent: Agent) -> None:
        self._harness = harness
        self._agent = agent

    @property
    def info(self) -> ModelInfo:
        """A name that no provider has."""
        return ModelInfo("local", self._agent.session.id)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer the command in the last prompt."""
        prompts = [m for m in request.messages if isinstance(m, UserMessage)]
        for message in reversed(prompts):
            if (found := called(message)) is not None:
                command, rest = found
                yield TextDelta(await command.answer(self._harness, self._agent, rest))
                break
        yield Finish("stop")

    async def aclose(self) -> None:
        """Nothing to free."""


def install(harness: Harness) -> None:
    """Give each agent its answering model; stand at ``agent/request``."""

    def created(agent: Agent) -> None:
        model = Answering(harness, agent)
        harness.runtime.models[model.info.id] = model

    def disposed(agent: Agent) -> None:
        harness.runtime.models.pop(f"local:{agent.session.id}", None)

    async def choose(
        draft: RequestDraft, following: Next[RequestDraft, ModelConfig]
    ) -> ModelConfig:
        config = await following(draft)
        turn = draft.agent.turn
        if draft.step == 1 and turn is not None and any(map(called, turn.messages)):
            return replace(config, model=f"local:{draft.agent.session.id}")
        return config

    harness.bus.on(AGENT_CREATED, created)
    harness.bus.on(AGENT_DISPOSED, disposed)
    harness.bus.on(REQUEST, choose)


# --- the commands ------------------------------------------------------------------------------


async def _help(_: Harness, __: Agent, ___: str) -> str:
    told = [f"- `{f'/{c.name} {c.hint}'.strip()}`: {c.description}" for c in LOCAL.values()]
    return "\n".join(["I answer these myself; your editor lists the others:", "", *told])


async def _status(harness: Harness, agent: Agent, _: str) -> str:
    values, session = options(agent), agent.session
    said = [e.fact for e in session.events if isinstance(e.fact, AssistantSaid) and e.fact.usage]
    used = said[-1].usage.context if said and said[-1].usage else 0
    rows = {
        "acp-harness": __version__,
        "session": session.id,
        "log": harness.journal.path(session.id) or "in memory",
        "directories": ", ".join(map(str, agent.roots)),
        "model": values[MODEL],
        "mode": values[MODE],
        "turns": session.structure.turn,
        "context used": f"{used} tokens",
        "tools": ", ".join(tool.name for tool in agent.tools),
    }
    return "\n".join(f"- {name}: `{value}`" for name, value in rows.items())


async def _permissions(harness: Harness, agent: Agent, words: str) -> str:
    memory = harness.memory
    verb, _, scope = words.partition(" ")
    try:
        if verb == "revoke" and scope:
            done = memory.revoke(agent, scope.strip().strip("`"))
            return (
                f"Revoked `{scope}`." if done else f"There is no answer remembered for `{scope}`."
            )
        if verb in ("allow", "reject"):
            asking = {tool.name for tool in agent.tools if tool.effect == "changes"}
            rule = Rule(written(scope, asking), verb == "allow")
            memory.remember(agent, rule)
            return f"`{rule.scope}` is {_always(rule)} {memory.lasting}."
    except (RuleStoreError, ValueError) as failure:
        return f"Nothing was changed: {failure}"
    rules = memory.rules(agent)
    if not rules:
        return f"No answers are remembered {memory.lasting}."
    told = [f"- `{rule.scope}`: {_always(rule)}" for rule in rules]
    head = f"Remembered {memory.lasting} (`/permissions revoke NAME` forgets one):"
    return "\n".join([head, "", *told])


def _always(rule: Rule) -> str:
    return "always allowed" if rule.allow else "always rejected"


async def _mode(_: Harness, agent: Agent, word: str) -> str:
    known = {mode.id: mode for mode in MODES}
    if word in known:
        set_option(agent, MODE, word)
        return f"Mode: **{known[word].name}**. {known[word].description}."
    told = [f"- `{mode.id}`: {mode.description}" for mode in MODES]
    head = f"The mode is `{options(agent)[MODE]}`. `/mode NAME` changes it:"
    return "\n".join([f"There is no mode `{word}`. {head}" if word else head, "", *told])


async def _model(harness: Harness, agent: Agent, word: str) -> str:
    known = [info.id for info in await harness.find_models()]
    if word in known or (word and ":" in word):
        set_option(agent, MODEL, word)
        return f"The model is now `{word}`."
    head = f"The model is `{options(agent)[MODEL]}`. `/model PROVIDER:NAME` changes it:"
    told = [f"- `{id}`" for id in known]
    return "\n".join([f"There is no model `{word}`. {head}" if word else head, "", *told])


async def _fork(harness: Harness, agent: Agent, _: str) -> str:
    fork = await harness.fork(agent.session.id, agent.cwd, agent.roots[1:])
    id = fork.session.id
    await harness.dispose(fork)
    return f"Forked before this message. The new session is `{id}`: open it from your session list."


async def _export(_: Harness, agent: Agent, word: str) -> str:
    try:
        path = agent.files.resolve(word or f"session-{agent.session.id[:8]}.md", write=True)
        if path.exists():
            return f"`{path}` is there already: name another file."
        await agent.files.write(path, markdown(agent.session.events))
    except ToolError as failure:
        return f"Not exported: {failure}"
    return f"Exported to `{path}`."


LOCAL = {
    command.name: command
    for command in (
        LocalCommand("help", "List the commands that need no model", "", _help),
        LocalCommand("status", "Show session, model, mode and where the log is", "", _status),
        LocalCommand("mode", "Show or change how much is done unasked", "[name]", _mode),
        LocalCommand("model", "Show or change the model", "[provider:name]", _model),
        LocalCommand(
            "permissions",
            "List, give or take back lasting permissions",
            "[allow|reject|revoke name]",
            _permissions,
        ),
        LocalCommand("fork", "Branch off a new session from before this message", "", _fork),
        LocalCommand("export", "Write the conversation to a Markdown file", "[file]", _export),
    )
}
"""By name."""
