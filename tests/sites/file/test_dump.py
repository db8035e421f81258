"""Data as the text of a site file."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.yaml import read

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
