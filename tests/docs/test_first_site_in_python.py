"""The tutorial on sites in Python is followed from top to bottom, every command of it, and prints what it says; its types hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.tutorial import File, follow, steps

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-site-in-python.md"
PORT = "8102"
VARIES = {
    command: re.compile(r"(?<=in )[\d.]+ s, [\d,]+(?= pages/s)") for command in ("gossamer crawl", "python shop.py")
}
"""What is another number each time: how long something took."""


@pytest.mark.timeout(450)
def test_from_an_empty_file_to_other_machines(tmp_path: Path) -> None:
    follow(PAGE, PORT, tmp_path, VARIES)


@pytest.mark.timeout(400)
def test_the_types_of_the_tutorial_and_of_the_example_are_strict(tmp_path: Path) -> None:
    files = [step for step in steps(PAGE.read_text("utf-8")) if isinstance(step, File) and step.path == "shop.py"]
    texts = [step.text for step in files[1:]]
    texts.append(texts[0].replace("page.follow(link)", "page.folow(link)").replace("Decimal(price", "str(price"))
    checked = [ROOT / "examples" / "sites" / "shop_in_python.py"]
    for name, text in zip(("functions", "both_kinds", "wrong"), texts, strict=True):
        (tmp_path / f"{name}.py").write_text(text)
        checked.append(tmp_path / f"{name}.py")
    # In the clone, whose cache knows the libraries already, or does when the check beside the tests has ended.
    command = [sys.executable, "scripts/check_types.py", "--strict", *map(str, checked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(lines) == 2, done.stdout + done.stderr
    assert 'wrong.py:23: error: "Page" has no attribute "folow"' in lines[0]
    assert 'wrong.py:30: error: Argument 3 to "Lamp" has incompatible type "str"; expected "Decimal"' in lines[1]
