"""The pages make a website, without a warning and without a network; the picture can be read; prose has one width."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.reflow import ROOT, WIDTH, pages, reflow, too_wide

PICTURE = ROOT / "docs" / "picture.svg"
OVERLAPS = """
<script>
  const box = one => one.getBoundingClientRect();
  const texts = [...document.querySelectorAll("text")];
  const shapes = [...texts, ...document.querySelectorAll(".arrows path")];
  const found = [];
  for (const text of texts) {
    for (const other of shapes) {
      const [a, b] = [box(text), box(other)];
      if (text !== other && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        found.push(text.textContent);
    }
  }
  document.title = JSON.stringify({texts: texts.length, shapes: shapes.length, found});
</script>
"""


def overlaps(svg: str, folder: Path) -> dict[str, Any]:
    """What a browser says of a picture: how many texts, how many texts and arrows, and which texts lie on another of them."""
    (folder / "picture.html").write_text(f"<meta charset=utf-8><body>{svg}{OVERLAPS}", "utf-8")
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed: make system"
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [*command, "--window-size=1000,400", "--dump-dom", (folder / "picture.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    said: dict[str, Any] = json.loads(title[1])
    return said


def test_no_text_of_the_picture_lies_on_an_arrow_or_on_another_text(tmp_path: Path) -> None:
    said = overlaps(PICTURE.read_text("utf-8"), tmp_path)
    assert said["found"] == []
    assert said["texts"] == PICTURE.read_text("utf-8").count("<text ")
    assert said["shapes"] == said["texts"] + 10
    moved = PICTURE.read_text("utf-8").replace('x="632"', 'x="460"')
    assert overlaps(moved, tmp_path)["found"] == ["exchange, one atomic call:"]


def test_the_website_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    built = {path.relative_to(tmp_path).with_suffix(".md").as_posix() for path in tmp_path.rglob("*.html")}
    assert {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} <= built
    assert (tmp_path / "repository" / "examples" / "sites" / "shop.yaml.txt").exists()
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]*src="(?:https?:)?//|<link[^>]*href="(?:https?:)?//""")
    assert [page.name for page in tmp_path.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_has_one_width(page: Path) -> None:
    assert too_wide(page.read_text("utf-8")) == [], f"{page.name} has lines over {WIDTH} columns: run make docs"


def test_only_prose_is_filled_again() -> None:
    long = "word " * 29 + "word"
    code = f"1. `a {'x' * 97} b` c"
    page = f"# {long}\n\n{long}\n- {long}\n{code}\n\n| {long} |\n\n```\n{long}\n```\n\n    {long}\n    b\n"
    filled = reflow(page)
    assert too_wide(page) == [long, f"- {long}", code]
    assert too_wide(filled) == []
    assert [line for line in filled.splitlines() if len(line) > WIDTH] == [
        f"# {long}", code[:-2], f"| {long} |", long, f"    {long}",
    ]  # fmt: skip
    assert filled.split() == page.split()
    assert len([line for line in filled.splitlines() if line.startswith("  word")]) == 1
    assert reflow(filled) == filled


def test_a_line_never_begins_with_what_would_make_a_list_of_it() -> None:
    text = f"{'x' * 97} - 1. # {'y' * 40}\n"
    assert [line[:1] for line in reflow(text).splitlines()] == ["x", "y"]
