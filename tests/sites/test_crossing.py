"""What `check` says about links that lead to other sites."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import Command

from gossamer.cli import exit_codes

A = "site: a\nseeds: [http://a.example/]\nlayers:\n  list: {follow: [{css: a, to: %s}]}\n"
B = "site: b\nlayers:\n  post: {fields: {title: h1, from: {from: parent.list}}, follow: [{url: '/{list}', to: post}]}\n"


@pytest.mark.parametrize(
    ("to", "folder", "said"),
    [
        ("b.post", True, []),
        ("b.post", False, ["warning: layers.list.follow[0].to: there is no site b in these files"]),
        ("c.post", True, ["layers.list.follow[0].to: there is no site c in these files"]),
        ("b.pots", True, ["layers.list.follow[0].to: the site b has no layer pots (did you mean post?)"]),
        (
            "a.list",
            True,
            ["layers.list.follow[0].to: this is the site itself (write list)", "warning: site: there are"],
        ),
    ],
)
def test_links_to_other_sites(command: Command, tmp_path: Path, to: str, folder: bool, said: list[str]) -> None:
    (tmp_path / "a.yaml").write_text(A % to)
    (tmp_path / "b.yaml").write_text(B)
    code = exit_codes.MISUSED if any(not line.startswith("warning") for line in said) else 0
    told = command("site", "check", *([tmp_path] if folder else [tmp_path / "a.yaml"]), code=code)
    assert len(told.out.splitlines()) == len(said) + 1 + (to == "c.post")
    for line in said:
        assert line in told.out
