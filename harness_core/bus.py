"""Event points and the four verbs that cover all of them.

An event point is an object that knows its name, its verb and its payload type, so that
``bus.on(PRE_STEP, listener)`` is checked by the type checker and listed by the documentation.

- ``emit``: synchronous; each listener is contained, a throw is logged and starves nobody.
- ``waterfall``: an async chain; each listener calls ``next`` or answers by itself.
- ``serial``: awaited one by one; a throw propagates.
- ``parallel``: awaited together; all settle, then the first failure is raised.

Every registration returns a disposer and belongs to a scope that drops them in reverse order. A bus
may have a parent: what is sent on a child is heard by the parent's listeners first, then its own.
This room knows no event point of its own: domains declare theirs beside the code that sends them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, overload

import anyio

from harness_core.cancellation import contain_leaks

P = TypeVar("P")
R = TypeVar("R")

Disposer: TypeAlias = Callable[[], None]
Next: TypeAlias = Callable[[P], Awaitable[R]]

log = logging.getLogger(__name__)

DOMAINS = ("session", "agent", "tools")

MIRRORS = frozenset(
    f"agent/{name}"
    for name in (
        "turn-start",
        "turn-end",
        "step-start",
        "step-end",
        "stream-chunk",
        "steering",
    )
)
"""Names that would mirror a durable fact as a live event. They may never exist."""


@dataclass(frozen=True, eq=False)
class Point(Generic[P]):
    """A named place where listeners can stand. Raises ``ValueError`` for a name that may not be."""

    name: str
    doc: str

    registry: ClassVar[dict[str, Point[Any]]] = {}
    verb: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.name.partition("/")[0] not in DOMAINS:
            raise ValueError(f"{self.name}: an event point belongs to one of {DOMAINS}")
        if self.name in MIRRORS:
            raise ValueError(f"{self.name} mirrors a fact: read it off session/event instead")
        if self.name in Point.registry:
            raise ValueError(f"{self.name} is declared already")
        Point.registry[self.name] = self


class Emit(Point[P]):
    """A point of the verb ``emit``: listeners are plain functions."""

    verb = "emit"


class Waterfall(Point[P], Generic[P, R]):
    """A point of the verb ``waterfall``: listeners take the payload and ``next``."""

    verb = "waterfall"


class Serial(Point[P]):
    """A point of the verb ``serial``: async listeners, one by one."""

    verb = "serial"


class Parallel(Point[P]):
    """A point of the verb ``parallel``: async listeners, together."""

    verb = "parallel"


class Scope:
    """Holds disposers and drops them in reverse order, each contained, exactly once."""

    def __init__(self) -> None:
        self._disposers: dict[object, Disposer] = {}
        self.closed = False

    def add(self, disposer: Disposer) -> Disposer:
        """Keep ``disposer`` until the scope closes (at once if it is closed already), or until what
        is returned is called: the scope lets go of it then."""
        key = object()
        self._disposers[key] = disposer
        if self.closed:
            self._drop(key)
        return lambda: self._drop(key)

    def _drop(self, key: object) -> None:
        if key in self._disposers:
            self._disposers.pop(key)()

    def close(self) -> None:
        """Drop everything, last in first out. A second call has no effect."""
        self.closed = True
        while self._disposers:
            try:
                self._disposers.popitem()[1]()
            except Exception:
                log.exception("a disposer failed")


class Bus:
    """Listeners by event point, with a scope that drops them."""

    def __init__(self, parent: Bus | None = None) -> None:
        self.parent = parent
        self.scope = Scope()
        self._root: Bus = parent._root if parent else self
        self._listeners: dict[Point[Any], tuple[Callable[..., Any], ...]] = {}
        self._heard: dict[Point[Any], tuple[Callable[..., Any], ...]] = {}
        """``listeners`` by point, worked out once until a listener of the family comes or goes."""
        self._changes = 0
        """Of the whole family, counted at its root."""
        self._known = 0
        """How many of them ``_heard`` knows."""

    @overload
    def on(
        self, point: Emit[P], listener: Callable[[P], None], scope: Scope | None = None
    ) -> Disposer: ...
    @overload
    def on(
        self,
        point: Serial[P] | Parallel[P],
        listener: Callable[[P], Awaitable[None]],
        scope: Scope | None = None,
    ) -> Disposer: ...
    @overload
    def on(
        self,
        point: Waterfall[P, R],
        listener: Callable[[P, Next[P, R]], Awaitable[R]],
        scope: Scope | None = None,
    ) -> Disposer: ...
    def on(
        self, point: Point[Any], listener: Callable[..., Any], scope: Scope | None = None
    ) -> Disposer:
        """Register ``listener`` until its disposer is called or the scope closes."""
        self._set(point, (*self._listeners.get(point, ()), listener))

        def dispose() -> None:
            left = list(self._listeners[point])
            left.remove(listener)
            self._set(point, tuple(left))

        return (scope or self.scope).add(dispose)

    def _set(self, point: Point[Any], listeners: tuple[Callable[..., Any], ...]) -> None:
        self._listeners[point] = listeners
        self._root._changes += 1

    def listeners(self, point: Point[Any]) -> tuple[Callable[..., Any], ...]:
        """Who hears ``point`` on this bus, in order: the parent's listeners first."""
        if self._known != self._root._changes:
            self._known = self._root._changes
            self._heard.clear()
        heard = self._heard.get(point)
        if heard is None:
            above = self.parent.listeners(point) if self.parent else ()
            heard = self._heard[point] = (*above, *self._listeners.get(point, ()))
        return heard

    def emit(self, point: Emit[P], payload: P) -> None:
        """Tell every listener; none can fail the emitter or starve the next."""
        for listener in self.listeners(point):
            try:
                listener(payload)
            except Exception:
                log.exception("a listener of %s failed", point.name)

    async def waterfall(self, point: Waterfall[P, R], payload: P, last: Next[P, R]) -> R:
        """Send ``payload`` down the chain; ``last`` answers if no listener does."""
        chain = self.listeners(point)

        async def step(index: int, value: P) -> R:
            if index == len(chain):
                return await last(value)

            async def following(value: P) -> R:
                return await step(index + 1, value)

            with contain_leaks():
                answer: R = await chain[index](value, following)
            return answer

        return await step(0, payload)

    async def serial(self, point: Serial[P], payload: P) -> None:
        """Await each listener in turn; the first throw stops the chain and propagates."""
        for listener in self.listeners(point):
            with contain_leaks():
                await listener(payload)

    async def parallel(self, point: Parallel[P], payload: P) -> None:
        """Await all listeners together; when all have settled, raise the first failure."""
        failures: list[tuple[int, Exception]] = []

        async def run(index: int, listener: Callable[[P], Awaitable[None]]) -> None:
            try:
                with contain_leaks():
                    await listener(payload)
            except Exception as failure:
                failures.append((index, failure))

        listeners = self.listeners(point)
        if len(listeners) <= 1:
            for listener in listeners:
                await run(0, listener)
        else:
            async with anyio.create_task_group() as group:
                for index, listener in enumerate(listeners):
                    group.start_soon(run, index, listener)
        if failures:
            raise min(failures, key=lambda pair: pair[0])[1]
