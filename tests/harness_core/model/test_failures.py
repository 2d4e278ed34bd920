"""Failures in words: the right code, one bounded sentence, and no secret in it."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.model.failures import CODES, LONGEST_TEXT, Reporter, code_of_status
from harness_core.model.headers import request_id, retry_after

NOW = 1_800_000_000.0


def refused(status: int, body: Any) -> tuple[str, str]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = Reporter("acme").refused(status, {}, raw, NOW)
    assert told.code in CODES
    return told.code, told.message


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, {"code": "context_length_exceeded", "message": "Too much."}, "context-overflow"),
        (400, {"type": "exceed_context_size_error", "message": "x"}, "context-overflow"),
        (400, {"message": "This model's maximum context length is 8 tokens"}, "context-overflow"),
        (400, {"message": "prompt is too long: 9 tokens > 8 maximum"}, "context-overflow"),
        (
            400,
            {"message": "input length and `max_tokens` exceed context limit"},
            "context-overflow",
        ),
        (
            400,
            {"message": "The input token count (9) exceeds the maximum number of tokens"},
            "context-overflow",
        ),
        (500, {"message": "the request exceeds the available context size"}, "context-overflow"),
        (400, {"message": "Unknown parameter: 'foo'"}, "bad-request"),
        (400, {"message": "API key not valid. Please pass a valid API key."}, "auth"),
        (400, {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}, "auth"),
        (429, {"code": "insufficient_quota", "message": "Check your plan."}, "bad-request"),
        (429, {"message": "Request too large: context length and tokens per min"}, "rate-limit"),
        (404, {"type": "not_found_error", "message": "model: nope"}, "bad-request"),
    ],
)
def test_the_error_object_can_say_more_than_the_status(
    status: int, error: dict[str, Any], code: str
) -> None:
    assert refused(status, {"error": error})[0] == code


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Because."}},
        {"error": "Because."},
        {"message": "Because."},
        {"detail": "Because."},
        {"detail": [{"msg": "Because."}]},
        [{"error": {"message": "Because."}}],
        b"Because.",
    ],
)
def test_the_words_are_found_in_every_usual_shape(body: Any) -> None:
    assert refused(500, body) == ("server", "acme answered HTTP 500: Because.")


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"\xff\xfe", {}, b"{"])
def test_a_body_without_words_is_not_repeated(body: Any) -> None:
    assert refused(502, body)[1] == "acme answered HTTP 502: it did not say why"


def test_an_error_in_a_stream_may_tell_the_name_of_the_call_itself() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error"}, "request_id": "req_1"}
    assert Reporter("acme").interrupted(error, {}).request_id == "req_1"
    assert Reporter("acme").interrupted(error, {"request-id": "req_2"}).request_id == "req_2"
    assert Reporter("acme").interrupted({"request_id": 7}, {}).request_id is None


SECRETS = [
    "sk-proj-abcdef0123456789",
    "sk-ant-api03-AbCd1234",
    "sk-abc1****************wxyz",
    "AIzaSyA1234567890abcdef",
    "gsk_0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "0123456789abcdef0123456789abcdef",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_what_looks_like_a_key_is_redacted(secret: str) -> None:
    told = refused(401, {"error": {"message": f"Incorrect key {secret}, sorry."}})[1]
    assert secret not in told
    assert "Incorrect key [redacted]" in told
    assert "sorry" in told


@pytest.mark.parametrize(
    "text",
    [
        "model gpt-5-mini-2026-01-01 not found",
        "claude-sonnet-4-5-20250929 is deprecated",
        "Authorization: Bearer [redacted]",
        "unsupported parameter 'max_tokens'",
    ],
)
def test_what_does_not_look_like_a_key_is_left_alone(text: str) -> None:
    assert Reporter("acme").clean(text) == text


def test_the_own_key_is_redacted_whatever_it_looks_like() -> None:
    assert Reporter("acme", ("correct horse",)).clean("no correct horse") == "no [redacted]"
    assert Reporter("acme", ("k",)).clean("thanks") == "thanks"


@given(st.text(max_size=2000))
def test_a_sentence_is_one_bounded_line(text: str) -> None:
    told = refused(400, {"message": text})[1]
    assert len(told) <= LONGEST_TEXT + len("acme answered HTTP 400: ")
    assert len(told.splitlines()) == 1


@given(st.integers(400, 599))
def test_every_error_status_has_a_code(status: int) -> None:
    assert code_of_status(status) in CODES


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        (
            {
                "x-ratelimit-reset-requests": "1m30s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6h0m",
                "x-ratelimit-remaining-tokens": "500",
            },
            90.0,
        ),
        ({"x-ratelimit-reset-tokens": "120ms", "x-ratelimit-remaining-tokens": "0"}, 0.12),
        ({"x-ratelimit-reset": str(int((NOW + 5) * 1000))}, 5.0),
        ({"x-ratelimit-reset": str(int(NOW + 5))}, 5.0),
        ({"x-ratelimit-reset": "5"}, 5.0),
        (
            {
                "anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:10Z",
                "anthropic-ratelimit-tokens-remaining": "0",
            },
            10.0,
        ),
    ],
)
def test_the_wait_is_read_from_any_header_that_states_it(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == (seconds if seconds is None else pytest.approx(seconds))


@given(st.text(max_size=40))
def test_no_header_value_breaks_the_reading(value: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset"):
        wait = retry_after({name: value}, NOW)
        assert wait is None or 0 <= wait < float("inf")


def test_the_request_id_has_several_names() -> None:
    assert request_id({"request-id": "r"}) == "r"
    assert request_id({"x-request-id": "x" * 1000}) == "x" * 128
    assert request_id({}) is None
