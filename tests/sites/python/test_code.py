"""What a worker has loaded, beside what is in the files now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gossamer.sites.file.load import load_text
from gossamer.sites.python.code import LoadedCode
from gossamer.sites.python.module import source_digest

SITE = "site: s\nseeds: http://s.example/\nlayers: {a: {handler: 'code_of_a_test:f'}}\n"


def test_changes_are_told_once_and_other_code_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "code_of_a_test.py"
    file.write_text("def f(page): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import code_of_a_test  # type: ignore[import-not-found]

    assert code_of_a_test.f
    digest = source_digest("code_of_a_test")
    code = LoadedCode()
    [site] = load_text(SITE)
    code.note(site)
    [same] = load_text(f"{SITE}code: {{code_of_a_test: {digest}}}\n")
    [other] = load_text(f"{SITE}code: {{code_of_a_test: 0123456789abcdef}}\n")
    assert (code.differences(same), code.differences(other), list(code.changes())) == ([], [str(file)], [])
    file.write_text("def f(page): return None\n")
    os.utime(file, ns=(1, 1))
    assert list(code.changes()) == [str(file)]
    assert list(code.changes()) == []
    # What counts is what was loaded, also when the file is noted again.
    code.note(site)
    assert code.differences(same) == []
    file.write_text("def f(page): ...\n")
    os.utime(file, ns=(2, 2))
    assert list(code.changes()) == [], "it is as it was"
    file.unlink()
    assert list(code.changes()) == []
    del sys.modules["code_of_a_test"]
