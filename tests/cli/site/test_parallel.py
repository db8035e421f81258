"""Many site files are checked in shares, and that cannot be told from the result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer.cli.site.parallel import FILES_EACH, check_files
from gossamer.sites.file.grant import Grant

SITE = """
site: {name}
extends: base/common.yaml
params: {{page: [1, 2, 3]}}
seeds: ['http://{name}.example/{{page}}']
layers: {{page: {{fields: {{title: h1}}}}}}
"""

TWO = """
import sys
from gossamer.cli.site import parallel as checking; from gossamer.cli import main
checking.cores = lambda: 2
sys.exit(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Enough files for several processes; one file serves all others."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "common.yaml").write_text("politeness: {delay: 1s}\n")
    for number in range(2 * FILES_EACH):
        (tmp_path / f"s{number:03}.yaml").write_text(SITE.format(name=f"s{number}"))
    return tmp_path


def test_shares_come_to_the_same_as_all_in_one(folder: Path) -> None:
    (folder / "s005.yaml").write_text(SITE.format(name="s5").replace("h1", "'h1['"))
    (folder / "s190.yaml").write_text(SITE.format(name="s7"))
    (folder / "s008.yaml").write_text("politeness: {delay: 1s}\n")
    (folder / "s009.yaml").write_text("site: [\n")
    one, two = (check_files([folder], {"page": "9"}, Grant(), processes=number) for number in (1, 2))
    assert one == two
    assert [(Path(problem.file).name, problem.line, problem.column) for problem in two.problems] == [
        ("s005.yaml", 6, 33), ("s008.yaml", 1, 1), ("s008.yaml", 1, 1), ("s009.yaml", 2, 1), ("s190.yaml", 2, 7)
    ]  # fmt: skip
    assert (two.sites, two.seeds) == (2 * FILES_EACH - 2, 2 * FILES_EACH - 2)


def test_a_parameter_that_only_a_file_of_another_share_has_is_known(folder: Path) -> None:
    changed = folder / "s001.yaml"
    changed.write_text(changed.read_text().replace("page", "leaf").replace("{leaf: {fields", "{page: {fields"))
    assert check_files([folder], {"leaf": "9"}, Grant(), processes=2).problems == []
    [problem] = check_files([folder], {"peaf": "9"}, Grant(), processes=2).problems
    assert "leaf" in problem.hint


def test_a_range_without_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("site: s\nseeds: ['http://s.example/[1-9:0]']\nlayers: {a: {}}\n")
    [problem] = check_files([tmp_path], {}, Grant()).problems
    assert problem.message == "[1-9:0] has a step of 0"


def test_ctrl_c_ends_it_with_one_word(folder: Path) -> None:
    with started(folder) as run:
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=100)
    assert "Traceback" not in err
    assert (run.returncode, out) == (130, "")


def test_what_a_killed_process_had_to_do_is_done_all_the_same(folder: Path) -> None:
    with started(folder) as run:
        os.kill(int(children(run).read_text().split()[0]), signal.SIGKILL)
        out, _ = run.communicate(timeout=100)
    assert (run.returncode, out) == (
        0,
        f"{10 * FILES_EACH:,} files, {10 * FILES_EACH:,} sites, {30 * FILES_EACH:,} seeds\n",
    )


def started(folder: Path) -> subprocess.Popen[str]:
    """A check of many files that has begun with them."""
    for number in range(8 * FILES_EACH):
        (folder / f"t{number}.yaml").write_text(SITE.format(name=f"t{number}"))
    words = [sys.executable, "-c", TWO, "site", "check", str(folder)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not children(run).read_text():
        assert run.poll() is None
        time.sleep(0.005)
    return run


def children(run: subprocess.Popen[str]) -> Path:
    return Path(f"/proc/{run.pid}/task/{run.pid}/children")
