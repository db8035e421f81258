"""The README's Python runs as it stands and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_tour_prints_what_the_readme_shows(tmp_path: Path) -> None:
    [(code, shown)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == shown
