"""Permission: what may be answered, and what happens then."""

from __future__ import annotations

from typing import Any

from conformance.answers import (
    CANCELLED,
    PERMISSION,
    allow,
    constant,
    failing,
    never,
    reject,
    select,
    selected,
)
from conformance.client import AgentRequest, Answerer
from corpus.steps import Scenario, Settled, Until, call, cancel, prompt, started

TOUCH = call("shell", command="echo ran > ran.txt")
LOOK = '!call glob {"pattern": "ran.txt"}'


def in_turn(*answerers: Answerer) -> Answerer:
    """The first answers the first request, and so on."""
    left = iter(answerers)

    def answer(request: AgentRequest) -> Any:
        return next(left)(request)

    return answer


SCENARIOS = (
    Scenario(
        "permission-allow",
        "Allowed once: it runs, and the next time it is asked again",
        ("permission.allow",),
        started(prompt(TOUCH, "!result"), prompt(TOUCH, "!say Twice.")),
        answers={PERMISSION: allow},
    ),
    Scenario(
        "permission-always",
        "Allowed always: the same is not asked again, something else is, another session knows",
        ("permission.always",),
        started(
            prompt(TOUCH, "!say Once."),
            prompt(TOUCH, "!say Twice."),
            prompt(call("write", path="new.txt", content="x\n"), "!result"),
            *started(prompt(TOUCH, "!say Thrice.", session="${session2}"))[1:],
        ),
        answers={PERMISSION: in_turn(select("allow_always"), reject, allow)},
    ),
    Scenario(
        "permission-reject",
        "Rejected: it does not run, the model is told, the turn goes on",
        ("permission.reject",),
        started(prompt(TOUCH, "!result", LOOK, "!result")),
        answers={PERMISSION: reject},
    ),
    Scenario(
        "permission-cancelled",
        "The client answers that the prompt was cancelled",
        ("permission.cancelled",),
        started(prompt(TOUCH, "!result"), prompt(LOOK, "!result")),
        answers={PERMISSION: constant(CANCELLED)},
    ),
    Scenario(
        "permission-hostile",
        "Answers that are none: an option nobody offered, an error, null, nonsense",
        ("permission.hostile",),
        started(*(prompt(TOUCH, "!result") for _ in range(6)), prompt(LOOK, "!result")),
        answers={
            PERMISSION: in_turn(
                constant(selected("whatever")),
                failing(),
                constant(None),
                constant({"outcome": "allow_once"}),
                constant({"outcome": {"outcome": "granted", "optionId": "allow"}}),
                constant([]),
            )
        },
    ),
    Scenario(
        "permission-unanswered",
        "The client never answers; the user cancels; the next turn is fine",
        ("permission.unanswered", "cancel.permission"),
        started(
            prompt(TOUCH, wait=False),
            Until("session/request_permission"),
            cancel(),
            Settled(),
            prompt(LOOK, "!result"),
        ),
        answers={PERMISSION: never},
    ),
    Scenario(
        "permission-parallel",
        "Two calls of one answer, one allowed and one rejected",
        ("permission.parallel",),
        started(
            prompt(
                call("shell", command="echo one > one.txt"),
                call("shell", command="echo two > two.txt"),
                "!say So be it.",
                '!call glob {"pattern": "*.txt"}',
                "!result",
            )
        ),
        answers={PERMISSION: in_turn(allow, reject)},
    ),
)
