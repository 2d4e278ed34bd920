"""The HTTP parser takes requests in any chunking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.model_server.http import BadRequest, HttpRequest, RequestParser, chunk

BODIES = st.lists(st.binary(max_size=40), min_size=1, max_size=4)


def plain(body: bytes) -> bytes:
    return b"POST /x HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def chunked(body: bytes) -> bytes:
    half = len(body) // 2
    pieces = chunk(body[:half]) + chunk(body[half:])
    return b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"


@given(BODIES, st.data())
def test_requests_come_out_the_same_however_the_bytes_arrive(
    bodies: list[bytes], data: st.DataObject
) -> None:
    wire = b"".join(data.draw(st.sampled_from([plain, chunked]))(body) for body in bodies)
    parser, found = RequestParser(), list[HttpRequest]()
    while wire:
        size = data.draw(st.integers(1, len(wire)))
        found += parser.feed(wire[:size])
        wire = wire[size:]
    assert [request.body for request in found] == bodies
    assert {request.path for request in found} == {"/x"}


def test_the_query_is_not_part_of_the_path() -> None:
    (request,) = RequestParser().feed(b"GET /v1/models?limit=5 HTTP/1.1\r\n\r\n")
    assert request.path == "/v1/models"


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
def test_bytes_that_are_not_http_are_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        list(RequestParser().feed(raw))


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(BadRequest):
        list(RequestParser().feed(b"x" * 100_000))
