"""The catalogue: what a check is and the registry that ``@check`` fills.

One function is one check. Its docstring says what is done and what is expected; the reference
documentation is made from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.frames import Level

if TYPE_CHECKING:
    from conformance.checks.context import Context

Body = Callable[["Context"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that can be tried on any agent."""

    id: str
    """``GROUP-NN`` or ``GROUP-NN.variant``."""
    title: str
    level: Level
    refs: tuple[str, ...]
    """The statements of the specification it tests, or the word ``advice`` where it is silent."""
    needs: tuple[str, ...]
    """What the agent must offer for the check to apply; see ``conformance.checks.profile``."""
    body: Body
    judged: bool = True
    """Whether the rules that always hold apply to its conversations.

    They do not if the client itself makes it impossible to tell what an answer belongs to.
    """

    @property
    def group(self) -> str:
        return self.id.split("-", 1)[0]

    @property
    def description(self) -> str:
        return inspect.getdoc(self.body) or ""

    def matches(self, wanted: str) -> bool:
        """Whether a selector names it: its id, its id without variant, or its group."""
        upper = wanted.upper()
        return upper in {self.id.upper(), self.id.split(".", 1)[0], self.group}


class Catalogue:
    """All checks by id, in the order of their definition."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, check: Check) -> None:
        if check.id in self._checks:
            raise ValueError(f"two checks are called {check.id}")
        self._checks[check.id] = check

    def __iter__(self) -> Iterator[Check]:
        return iter(self._checks.values())

    def __len__(self) -> int:
        return len(self._checks)

    def __getitem__(self, id: str) -> Check:
        return self._checks[id]

    def select(self, ids: Sequence[str], levels: Iterable[Level]) -> list[Check]:
        """The checks that match any of ``ids`` (all if empty) and have one of ``levels``.

        Raises ``ValueError`` for an id that names nothing.
        """
        for wanted in ids:
            if not any(check.matches(wanted) for check in self):
                raise ValueError(f"no check is called {wanted!r}; the ids are listed in --list")
        allowed = frozenset(levels)
        return [
            check
            for check in self
            if check.level in allowed and (not ids or any(map(check.matches, ids)))
        ]


CATALOGUE = Catalogue()


def check(
    id: str, title: str, level: Level, refs: str, needs: str = "", *, judged: bool = True
) -> Callable[[Body], Body]:
    """Register a check; ``refs`` and ``needs`` are words separated by blanks.

    Every check needs an agent that answers ``initialize`` unless it says ``nothing``.
    """
    wanted = tuple(needs.split())
    needed = () if wanted == ("nothing",) else ("initialize", *wanted)

    def register(body: Body) -> Body:
        CATALOGUE.add(Check(id, title, level, tuple(refs.split()), needed, body, judged))
        return body

    return register
