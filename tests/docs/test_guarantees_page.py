"""The page of guarantees names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")
SOURCES = [*(ROOT / "src/gossamer/testing/contract").rglob("*.py"), *(ROOT / "tests").rglob("test_*.py")]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
NAMED = sorted(set(re.findall(r"`(?:\w+\.)?(test_\w+|Test\w+)`", PAGE)) | set(re.findall(r"`(Test\w+)\.", PAGE)))
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists(name: str) -> None:
    assert re.search(rf"^(class|(    )?(async )?def) {name}\b", CODE, re.MULTILINE)


def test_all_eleven_guarantees_name_their_tests() -> None:
    numbered = [section for section in SECTIONS if re.match(r"\d+\. ", section)]
    assert [section.partition(".")[0] for section in numbered] == [str(n) for n in range(1, 12)]
    assert all("Tests: `Test" in section for section in numbered)
