"""Reports: one run, five formats, each fit for who reads it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from io import StringIO
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.frames import CheckResult, Direction, Finding, Frame, Level, Run, Status
from conformance.report import FORMATS, renderer
from conformance.report.summary import headline, ok, worst_first
from conformance.report.terminal import Progress, render

FRAMES = (
    Frame(Direction.C2A, 0.1, b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'),
    Frame(Direction.A2C, 0.2, b"<b>Hello</b> \x07 \xff ]]>"),
)


def result(
    status: Status = Status.PASSED,
    level: Level = Level.MUST,
    id: str = "IO-01",
    findings: tuple[Finding, ...] = (),
    reason: str = "",
) -> CheckResult:
    frames = FRAMES if findings else ()
    title = "nothing but <messages> & such"
    return CheckResult(id, title, level, ("V1-IO-03",), status, 0.25, findings, reason, frames)


NOISE = Finding("io.json", "not JSON: <b>", (1,))
FAILED = result(Status.FAILED, findings=(NOISE,))
ADVICE = result(Status.FAILED, Level.REC, "IO-04", (NOISE,))
SKIPPED = result(Status.SKIPPED, id="LOAD-01", reason="the agent does not offer loadSession")
HUNG = result(Status.HUNG, id="CAN-01", reason="no answer within 10 s")
AGENT = {"protocolVersion": 1, "agentInfo": {"name": "toy", "version": "1.0"}}
RUN = Run(("toy", "--acp"), AGENT, (result(id="A-1"), ADVICE, SKIPPED, FAILED, HUNG))

texts = st.text(max_size=20)
findings = st.builds(Finding, texts, texts, st.lists(st.integers(0, 9)).map(tuple))
frames = st.builds(Frame, st.sampled_from(Direction), st.floats(0, 9), st.binary(max_size=30))
results = st.builds(
    CheckResult,
    texts,
    texts,
    st.sampled_from(Level),
    st.lists(texts, max_size=2).map(tuple),
    st.sampled_from(Status),
    st.floats(0, 9),
    st.lists(findings, max_size=2).map(tuple),
    texts,
    st.lists(frames, max_size=2).map(tuple),
)
agents = st.just(AGENT) | st.dictionaries(texts, texts)
runs = st.builds(Run, st.lists(texts).map(tuple), agents, st.lists(results, max_size=4).map(tuple))


class Page(HTMLParser):
    """Collects what a page shows and where it points."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.tags, self.targets, self.proofs = "", [], [], 0  # type: ignore[var-annotated]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.targets += [value for name, value in attrs if name in ("src", "href")]
        self.proofs += ("class", "proof") in attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def page(run: Run) -> Page:
    parser = Page()
    parser.feed(renderer("html")(run))
    return parser


def test_only_duties_decide() -> None:
    assert not ok(RUN)
    assert ok(Run(("x",), {}, (result(), ADVICE, SKIPPED)))
    assert not ok(Run(("x",), {}, (HUNG,)))
    assert headline(RUN) == (
        "5 checks: 2 failed, 1 hung, 1 skipped, 1 passed (1 of them recommendations)"
    )
    assert headline(Run(("x",))) == "no checks"


def test_the_worst_comes_first() -> None:
    assert [r.id for r in worst_first(RUN.results)] == [
        "IO-01",
        "IO-04",
        "CAN-01",
        "LOAD-01",
        "A-1",
    ]


def test_the_terminal_report_shows_what_broke_and_the_proof() -> None:
    text = render(RUN)
    assert "toy 1.0" in text
    assert "io.json: not JSON: <b>" in text
    assert "← <b>Hello</b> \\x07" in text
    assert "the agent does not offer loadSession" in text
    assert "A-1" not in text, "what passed is counted, not listed"
    assert "\x1b[" not in text
    assert "\x1b[" in render(RUN, colour=True)


def test_progress_shows_broken_checks_as_they_come() -> None:
    out = StringIO()
    with Progress(file=out) as progress:
        progress(result(id="A-1"))
        progress(FAILED)
    assert "IO-01" in out.getvalue()
    assert "A-1" not in out.getvalue()


def test_junit_fails_for_duties_alone() -> None:
    suite = ElementTree.fromstring(renderer("junit")(RUN))[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "skipped": "2",
    }
    failure = suite.find(".//failure[@type='failed']")
    assert failure is not None
    assert failure.get("message") == "not JSON: <b>"
    assert "<b>Hello</b>" in (failure.text or "")


def test_json_carries_the_frames_as_in_a_transcript() -> None:
    data = json.loads(renderer("json")(RUN))
    failed = next(item for item in data["results"] if item["id"] == "IO-01")
    assert data["ok"] is False
    assert data["counts"]["failed"] == 2
    assert failed["findings"] == [{"rule": "io.json", "message": "not JSON: <b>", "frames": [1]}]
    assert failed["frames"][0]["msg"]["method"] == "initialize"
    assert failed["frames"][1]["dir"] == "a2c"


def test_the_page_stands_alone_and_marks_the_proof() -> None:
    shown = page(RUN)
    assert shown.targets == []
    assert "script" not in shown.tags
    assert "b" not in shown.tags, "what an agent says is text, never markup"
    assert "<b>Hello</b>" in shown.text
    assert "nothing but <messages> & such" in shown.text
    assert shown.proofs == 2


@pytest.mark.parametrize(
    ("results", "value", "colour"),
    [
        ((result(),), "1/1", "#2e7d32"),
        ((result(), ADVICE), "1/1", "#b58900"),
        ((result(), FAILED, SKIPPED), "1/2", "#c62828"),
        ((), "not run", "#c62828"),
    ],
)
def test_the_badge_tells_how_many_duties_are_kept(
    results: tuple[CheckResult, ...], value: str, colour: str
) -> None:
    svg = renderer("badge")(Run(("x",), {}, results))
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == f"ACP conformance: {value}"
    assert colour in svg


@given(runs)
def test_every_format_renders_every_run(run: Run) -> None:
    rendered = {name: renderer(name)(run) for name in FORMATS}
    for text in rendered.values():
        text.encode("utf-8")
    ElementTree.fromstring(rendered["junit"])
    ElementTree.fromstring(rendered["badge"])
    json.loads(rendered["json"])
    Page().feed(rendered["html"])
