"""Every link inside the project leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)


def pages() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def headings(page: Path) -> set[str]:
    """What a page's headings are called in links."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title).strip().lower() for title in titles)
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    source = ROOT / page
    broken = []
    for link in LINK.findall(FENCED.sub("", source.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, heading = link.partition("#")
        target = source.parent / path if path else source
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert broken == []
