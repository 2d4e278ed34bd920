"""The manifest of requirements: everything the protocol asks has its proof or its reason.

Reads ``requirements.toml`` and the sources only; runs neither the tests nor the checks it names.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.checks import CATALOGUE
from conformance.lint import RULES

ROOT = Path(__file__).parents[1]
MANIFEST: dict[str, dict[str, Any]] = tomllib.loads(
    (ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8")
)
ID = re.compile(r"\bV1-[A-Z]+-\d+\b")
SHORTENED = re.compile(r"\b(V1-[A-Z]+)-\d+((?:, -\d+)+)")
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REC"}
KEYS = {"level", "actor", "title", "tests", "not_applicable"}
CITED = {
    **{f"check:{check.id}": check.refs for check in CATALOGUE},
    **{f"rule:{rule.id}": rule.refs for rule in RULES.values()},
}
"""Proofs of the conformance kit by name, and the requirements that each of them cites."""


@cache
def functions_in(path: str) -> frozenset[str]:
    """The functions of a module, if there is one."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    tree = ast.parse(file.read_bytes())
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def exists(proof: str) -> bool:
    """Whether a proof names a check, a rule or a test function."""
    path, _, name = proof.partition("::")
    return proof in CITED or (name.startswith("test_") and name in functions_in(path))


def mentioned(text: str) -> set[str]:
    """The ids in a text, with what ``V1-A-01, -02`` leaves out."""
    found = set(ID.findall(text))
    for match in SHORTENED.finditer(text):
        found |= {f"{match[1]}{number}" for number in re.findall(r"-\d+", match[2])}
    return found


def docstrings(path: Path) -> Iterator[str]:
    """Every string in a module that stands for itself: docstrings of anything, attributes too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


# --- the manifest ---------------------------------------------------------------------------------


def test_every_requirement_is_well_formed() -> None:
    for id, entry in MANIFEST.items():
        assert ID.fullmatch(id)
        assert entry.keys() <= KEYS, id
        assert entry["level"] in LEVELS, id
        assert entry["actor"] in {"A", "C", "AC"}, id
        assert 0 < len(entry["title"].split()) <= 10, id


def test_every_requirement_has_proofs_or_a_reason_why_not() -> None:
    for id, entry in MANIFEST.items():
        assert bool(entry.get("tests")) is not bool(entry.get("not_applicable")), id


def test_every_proof_exists_and_is_named_once() -> None:
    for id, entry in MANIFEST.items():
        proofs = entry.get("tests", [])
        assert [proof for proof in proofs if not exists(proof)] == [], id
        assert len(set(proofs)) == len(proofs), id


@pytest.mark.parametrize(
    "proof",
    [
        "check:NONE-01",
        "rule:none",
        "check:",
        "tests/none.py::test_x",
        "tests/test_requirements.py::test_none",
        "tests/test_requirements.py::exists",
        "tests/test_requirements.py",
    ],
)
def test_a_proof_that_is_none_is_found(proof: str) -> None:
    assert not exists(proof)


def test_numbers_of_a_subject_have_no_gap() -> None:
    """A statement that was lost would leave one."""
    numbers: dict[str, list[int]] = {}
    for id in MANIFEST:
        subject, _, number = id.rpartition("-")
        numbers.setdefault(subject, []).append(int(number))
    for subject, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), subject


# --- what refers to it ----------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["acp_server", "harness_core", "conformance"])
def test_docstrings_mention_known_requirements(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        ids = {id for text in docstrings(path) for id in mentioned(text)}
        assert ids - MANIFEST.keys() == set(), path


def test_checks_and_rules_cite_known_requirements() -> None:
    for proof, refs in CITED.items():
        ids = {ref for ref in refs if ref.startswith("V1-")}
        assert ids - MANIFEST.keys() == set(), proof


def test_a_check_that_proves_a_requirement_cites_it() -> None:
    for id, entry in MANIFEST.items():
        for proof in entry.get("tests", []):
            assert id in CITED.get(proof, (id,)), proof


def test_ids_are_found_in_sentences() -> None:
    assert mentioned("as said (V1-A-01, -02) and V1-B-10.") == {"V1-A-01", "V1-A-02", "V1-B-10"}
