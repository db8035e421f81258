"""The reference of the native engine names every reason and every counter that its code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gossamer.model.fetch import REASONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/engine.md").read_text()
SOURCE = "\n".join(path.read_text() for path in sorted((ROOT / "src/gossamer/engine").rglob("*.py")))
SAID = set(re.findall(r'Failed\(\s*"([a-z_]+)"', SOURCE)) | set(REASONS)
NAMES = (ROOT / "src/gossamer/model/counter_names.py").read_text()
COUNTED = set(re.findall(r'\.add\(\s*f?"((?:site|engine|gossamer)/[a-z_]+)', SOURCE)) | set(
    re.findall(r'"((?:site|engine)/[a-z_]+)', NAMES)
)


def test_there_is_something_to_look_for() -> None:
    assert len(SAID) > 15
    assert len(COUNTED) > 25


@pytest.mark.parametrize("reason", sorted(SAID))
def test_every_reason_is_documented(reason: str) -> None:
    assert f"`{reason}`" in PAGE


@pytest.mark.parametrize("counter", sorted(COUNTED))
def test_every_counter_is_documented(counter: str) -> None:
    assert f"`{counter}" in PAGE
