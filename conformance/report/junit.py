"""JUnit XML, for CI systems.

A recommendation that is not followed must not turn a build red: it is reported as
skipped, with the finding as the reason.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from conformance.frames import CheckResult, Run, Status
from conformance.report.summary import binding, broken, proof, show, title

FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold."""


def render(run: Run) -> str:
    """The run as one test suite."""
    cases = [_case(result) for result in run.results]
    suite = Element("testsuite", name=_clean(title(run)), tests=str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.set("errors", "0")
    suite.set("time", f"{sum(result.seconds for result in run.results):.3f}")
    suite.extend(cases)
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(result: CheckResult) -> Element:
    case = Element("testcase", classname=f"acp.{result.level}", time=f"{result.seconds:.3f}")
    case.set("name", _clean(f"{result.id} {result.title}"))
    if result.status is Status.SKIPPED:
        SubElement(case, "skipped", message=_clean(result.reason))
    elif broken(result) and binding(result):
        failure = SubElement(case, "failure", type=str(result.status), message=_message(result))
        failure.text = _clean(_details(result))
    elif broken(result):
        skipped = SubElement(case, "skipped", message=f"recommendation: {_message(result)}")
        skipped.text = _clean(_details(result))
    return case


def _message(result: CheckResult) -> str:
    first = result.findings[0].message if result.findings else result.reason
    return _clean(first or str(result.status))


def _details(result: CheckResult) -> str:
    lines = [f"{finding.rule}: {finding.message}" for finding in result.findings]
    lines += [f"{index:>4} {show(frame)}" for index, frame in proof(result)]
    return "\n".join([*lines, f"see {', '.join(result.refs)}"] if result.refs else lines)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)
