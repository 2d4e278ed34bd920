"""Rules about questions: whose they are, where they send people, and what comes of pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from conformance.dialogue import A2C, C2A, Dialogue, Message, Role, Span, dig
from conformance.frames import Level
from conformance.lint.rule import Broken, broken, rule

LINK = re.compile(r"https?://\S|\bwww\.\S|\]\(\S", re.IGNORECASE)
"""What clients make a link of."""


@rule(
    "question.request",
    Level.MUST,
    "a question outside sessions belongs to a request that waits",
    "V1-ELIC-04",
)
def of_request(dialogue: Dialogue) -> Iterator[Broken]:
    asked = list(dialogue.sent(C2A, Role.REQUEST))
    for question in _questions(dialogue):
        named = question.params.get("requestId")
        own = [r for r in asked if r.value["id"] == named and type(r.value["id"]) is type(named)]
        if named is not None and not any(question.index in Span(request) for request in own):
            yield broken(f"request {named!r} is not waiting for its answer", question)


@rule(
    "question.credentials",
    Level.MUST,
    "an address that people are sent to holds no credentials",
    "V1-ELIC-13",
)
def credentials(dialogue: Dialogue) -> Iterator[Broken]:
    for question, address in _addresses(dialogue):
        if address is None or "@" in address.netloc:
            yield broken("the URL is none, or holds a user's name", question)


@rule(
    "question.secure",
    Level.SHOULD,
    "people are sent to https, or to their own machine",
    "V1-ELIC-13",
)
def secure(dialogue: Dialogue) -> Iterator[Broken]:
    for question, address in _addresses(dialogue):
        if address is not None and address.scheme != "https" and not _is_here(address):
            yield broken(f"the URL is one of {address.scheme or 'no scheme'}", question)


@rule("question.id", Level.MUST, "the ids of open pages are unique", "V1-ELIC-11")
def unique(dialogue: Dialogue) -> Iterator[Broken]:
    pages = list(_pages(dialogue))
    for number, (question, _) in enumerate(pages):
        for earlier, end in pages[:number]:
            still = end is None or end.index > question.index
            if still and _id(earlier) == _id(question):
                yield broken(f"page {_id(question)!r} is open already", earlier, question)


@rule("question.complete", Level.MUST, "only pages that were asked for are completed", "V1-ELIC-12")
def completed(dialogue: Dialogue) -> Iterator[Broken]:
    pages = list(_pages(dialogue))
    for told in dialogue.calls("elicitation/complete"):
        open_then = [
            page
            for page, end in pages
            if _id(page) == _id(told)
            and page.index < told.index
            and (end is None or end.index >= told.index)
        ]
        if told.direction is A2C and not open_then:
            yield broken(f"page {_id(told)!r} is not open", told)


@rule("question.link", Level.SHOULD, "there is nothing to click in a form", "V1-ELIC-14")
def links(dialogue: Dialogue) -> Iterator[Broken]:
    for question in _questions(dialogue, "form"):
        properties = dig(question.params, "requestedSchema", "properties")
        fields = properties.values() if isinstance(properties, dict) else ()
        shown = [dig(field, key) for field in fields for key in ("title", "description")]
        if found := [text for text in shown if isinstance(text, str) and LINK.search(text)]:
            yield broken(f"a field of the form has a link: {found[0][:200]!r}", question)


# --- what there is of them ------------------------------------------------------------------------


def _questions(dialogue: Dialogue, *modes: str) -> Iterator[Message]:
    for call in dialogue.calls("elicitation/create"):
        if call.direction is A2C and (not modes or call.params.get("mode") in modes):
            yield call


def _addresses(dialogue: Dialogue) -> Iterator[tuple[Message, SplitResult | None]]:
    """Where people are sent, and nothing for what is no address."""
    for question in _questions(dialogue, "url"):
        try:
            yield question, urlsplit(str(question.params.get("url")))
        except ValueError:
            yield question, None


def _is_here(address: SplitResult) -> bool:
    host = address.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _pages(dialogue: Dialogue) -> Iterator[tuple[Message, Message | None]]:
    """Every page that was asked for, and what ended it: its completion, or anything but consent."""
    told = list(dialogue.calls("elicitation/complete"))
    for page in _questions(dialogue, "url"):
        ends = [one for one in told if _id(one) == _id(page) and one.index > page.index]
        if page.answer is not None and dig(page.answer.result, "action") != "accept":
            ends.append(page.answer)
        yield page, min(ends, key=lambda end: end.index, default=None)


def _id(message: Message) -> Any:
    return message.params.get("elicitationId")
