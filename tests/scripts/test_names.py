"""One name for one thing: no class name is defined twice, no module is called by a participle, no folder is crowded."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST = 15
NOUNS = {"setting", "encoding", "embedded", "feed", "seed", "finding", "crossing"}


def test_no_class_name_is_defined_in_two_modules() -> None:
    names = Counter(
        name
        for path in SOURCES
        for name in {
            node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)
        }
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_modules_are_called_by_nouns() -> None:
    assert [path.stem for path in SOURCES if path.stem.endswith(("ing", "ed")) and path.stem not in NOUNS] == []


def test_no_folder_is_crowded() -> None:
    kinds = {".py", ".lua", ".yaml"}
    files = [path for part in ("src", "tests", "scripts") for path in (ROOT / part).rglob("*") if path.suffix in kinds]
    folders = Counter(path.parent for path in files)
    assert [str(folder) for folder, count in folders.items() if count > MOST] == []
