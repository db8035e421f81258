"""A site file whole in itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.sites.file.dump import self_contained, to_yaml
from gossamer.sites.file.load import load, load_text
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.file.yaml import read

TEXT = "# mine\nsite: s   # here\nseeds: http://s.example/\nlayers: {a: {}}\n"


def test_a_file_that_leans_on_no_other_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert self_contained(file) == TEXT.replace("\n", "\r\n")


def test_a_file_that_leans_on_others_is_written_together_and_means_the_same(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "all.yaml").write_text(
        "extends: more.yaml\nparams: rows.csv\nlayers: {a: {match: '^/\\d{2}', fields: {t: h1}}}\n"
    )
    (tmp_path / "base" / "more.yaml").write_text("politeness: {delay: 1s, robots: ignore}\nlimits: {pages: 1e6}\n")
    (tmp_path / "base" / "rows.csv").write_text("host,title\nx.example,1e6\ny.example,yes\n")
    file = tmp_path / "s.yaml"
    file.write_text(
        "site: 's-{host}'\nextends: base/all.yaml\nseeds: 'http://{host}/'\ntitle: '{title}'\nlayers: {b: {like: a, match: ^/b}}\n---\n"
        + TEXT
    )
    text = self_contained(file)
    assert load_text(text) == load(file)
    assert [site.title for site in load_text(text)] == ["1e6", "yes", ""]
    assert text.startswith("# Written together from s.yaml and the files it names.\nsite: s-{host}\n")
    assert "extends" not in text


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("site: s\nextends: none.yaml\n---\nsite: t\nparams: none.csv\n")
    with pytest.raises(SiteErrors) as caught:
        self_contained(file)
    assert [problem.path for problem in caught.value.problems] == ["extends", "params"]
    with pytest.raises(SiteErrors, match="the file cannot be read"):
        self_contained(tmp_path / "none.yaml")


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    [
        "1e6",
        "010",
        "0o7",
        "yes",
        "no",
        "null",
        "~",
        "",
        "1_000",
        "12:30",
        "2024-01-01",
        ".5",
        "+1",
        "<<",
        "=",
        "- a",
        "a: b",
        "#",
        "{x}",
        "*a",
        "&a",
        "!t",
        "%",
        "@",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_what_is_written_reads_back(data: Any) -> None:
    (found,) = read(to_yaml({"top": data}), "a.yaml")
    assert found.data == {"top": data}
    assert not found.problems
