"""The tutorial on sites is followed from top to bottom, every command of it, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.tutorial import follow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-site.md"
PORT = "8102"
VARIES = {
    "gossamer crawl shop.yaml": re.compile(r"(?<=in )[\d.]+ s, [\d,]+(?= pages/s)"),
    "gossamer site try": re.compile(r"\d+\.\d+(?= m?s\b)"),
}
"""What is another number each time: how long something took."""


@pytest.mark.timeout(450)
def test_from_an_empty_file_to_a_scheduled_site(tmp_path: Path) -> None:
    follow(PAGE, PORT, tmp_path, VARIES)
