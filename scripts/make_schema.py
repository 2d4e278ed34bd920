"""Regenerate the ACP JSON schemas in ``conformance/schema`` from the published npm package.

The official TypeScript SDK ships the protocol's schemas. This script takes them
out of two of its releases, drops the prose (descriptions, examples, doc hints)
and writes one definition per line, so that a review sees which type changed.
It knows nothing about validation. ``npm`` finds the package with whatever
registry the user has configured.

    python scripts/make_schema.py            write the files
    python scripts/make_schema.py --check    fail if the files are not what npm holds
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "@agentclientprotocol/sdk"
TARGET = Path(__file__).resolve().parent.parent / "conformance" / "schema"

# generation -> (release, {file we keep: file in the package})
#
# Releases before 2.0 carried the unstable schemas alone. Release 1.5.0 is the
# first that holds the whole schema of August 2026 (1.4.0 still misses notices).
SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "2026-08": (
        "1.5.0",
        {
            "v1.unstable.json": "schema/schema.json",
            "v2.unstable.json": "schema/v2/schema.unstable.json",
        },
    ),
    "2026-11": (
        "2.4.0",
        {
            "v1.json": "schema/v1/schema.json",
            "v1.unstable.json": "schema/v1/schema.unstable.json",
            "v2.json": "schema/v2/schema.json",
            "v2.unstable.json": "schema/v2/schema.unstable.json",
        },
    ),
}

PROSE = {"description", "title", "$comment", "examples", "x-docs-group", "x-docs-ignore"}
MAPS = {"properties", "patternProperties", "$defs"}
"""Keywords whose keys are names, not keywords: a property may be called ``title``."""
DATA = {"default", "const", "enum"}
"""Keywords whose value is data, not a schema."""


class NpmUnreachable(Exception):
    """The package could not be downloaded."""


def strip(schema: Any) -> Any:
    """The same schema without words for human readers."""
    if isinstance(schema, list):
        return [strip(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: strip_value(key, value) for key, value in schema.items() if key not in PROSE}


def strip_value(key: str, value: Any) -> Any:
    if key in DATA:
        return value
    if key in MAPS:
        return {name: strip(sub) for name, sub in value.items()}
    return strip(value)


def render(schema: dict[str, Any]) -> str:
    """One definition per line; stable whatever order the package had."""
    head = {key: value for key, value in schema.items() if key != "$defs"}
    lines = [f'"{key}":{compact(value)},' for key, value in head.items()]
    defs = [f"{json.dumps(k)}:{compact(v)}" for k, v in sorted(schema["$defs"].items())]
    return "\n".join(["{", *lines, '"$defs":{', ",\n".join(defs), "}", "}", ""])


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def download(release: str, into: Path) -> Path:
    """Fetch and unpack one release; returns the directory of the package.

    Raises ``NpmUnreachable`` with npm's own last words.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise NpmUnreachable("npm is not installed")
    done = subprocess.run(
        [npm, "pack", "--silent", f"{PACKAGE}@{release}"],
        cwd=into,
        capture_output=True,
        text=True,
        timeout=180,
    )
    if done.returncode:
        raise NpmUnreachable(done.stderr.strip().splitlines()[-1] if done.stderr else "npm failed")
    archive = into / done.stdout.strip().splitlines()[-1]
    with tarfile.open(archive) as tar:
        tar.extractall(into / release, filter="data")
    return into / release / "package"


def generate() -> Iterator[tuple[Path, str]]:
    """Every file we keep, as (path, text)."""
    with tempfile.TemporaryDirectory() as scratch:
        for generation, (release, files) in SOURCES.items():
            package = download(release, Path(scratch))
            for ours, theirs in files.items():
                schema = json.loads((package / theirs).read_text("utf-8"))
                yield TARGET / generation / ours, render(strip(schema))


def write() -> int:
    for path, text in generate():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
        print(path.relative_to(TARGET.parent.parent))
    return 0


def check() -> int:
    stale = [
        path for path, text in generate() if not path.exists() or path.read_text("utf-8") != text
    ]
    for path in stale:
        print(f"stale: {path}; run scripts/make_schema.py", file=sys.stderr)
    return 1 if stale else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Regenerate the ACP schemas from npm.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 if stale")
    arguments = parser.parse_args()
    try:
        return check() if arguments.check else write()
    except NpmUnreachable as error:
        print(f"not compared: {error}", file=sys.stderr)
        return 0 if arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
