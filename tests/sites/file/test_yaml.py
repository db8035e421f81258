"""YAML of site files: places, version 1.2, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml as pyyaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.sites.file import yaml
from gossamer.sites.file.yaml import InvalidYaml, Spot, decoded, read

LOADERS = [yaml.LOADER, yaml._slow_loader()]


def only(text: str, loader: Any = None) -> yaml.YamlDocument:
    (document,) = read(text, "a.yaml", loader)
    return document


@pytest.mark.parametrize("loader", LOADERS)
def test_every_key_and_value_has_its_place(loader: Any) -> None:
    found = only("site: bbs\nlayers:\n  list: {follow: [a.b, 'c']}\n", loader)
    assert found.data == {"site": "bbs", "layers": {"list": {"follow": ["a.b", "c"]}}}
    layers = found.spot.inside["layers"]
    assert (layers.key_line, layers.key_column, layers.line, layers.column) == (2, 1, 3, 3)
    follow = layers.inside["list"].inside["follow"]
    assert (follow.key_line, follow.key_column, follow.line, follow.column) == (3, 10, 3, 18)
    assert (follow.inside[1].line, follow.inside[1].column) == (3, 24)
    assert found.spot.find(("layers", "list", "nothing"))[:2] == (layers.inside["list"], False)
    assert found.spot.find(("layers", 0, "list", "follow", 1)) == (
        follow.inside[1],
        True,
        ("layers", "list", "follow", 1),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("1e6", 1e6),
        ("1.5e-3", 0.0015),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("+.5", 0.5),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("null", None),
        (".inf", math.inf),
        ("-", [None]),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("=", "="),
        ("-x", "-x"),
        ("1.2.3", "1.2.3"),
    ],
)
@pytest.mark.parametrize("loader", LOADERS)
def test_scalars_are_those_of_version_1_2(text: str, value: Any, loader: Any) -> None:
    document = only(f"a: {text}" if text != "-" else "a:\n -", loader)
    found = document.data["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_texts_as_they_are_written() -> None:
    assert only("map: {1: one, yes: two, 1.50: three}").data == {"map": {"1": "one", "yes": "two", "1.50": "three"}}


def test_a_key_that_stands_twice_is_told_with_both_places_and_the_first_counts() -> None:
    found = only("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n")
    assert found.data == {"a": 1, "b": {"c": 1, "d": 2}}
    assert [str(problem) for problem in found.problems] == [
        "a.yaml:5:3: c stands here again; it was already given in line 3, column 3 (keep one of the two)",
        "a.yaml:6:1: a stands here again; it was already given in line 1, column 1 (keep one of the two)",
    ]


def test_anchors_and_merge_keys_point_to_where_they_were_written() -> None:
    found = only("base: &base {x: 1, y: 2}\nmore: &more {z: 4}\nuse:\n  <<: [*base, *more]\n  y: 3\n")
    assert found.data["use"] == {"y": 3, "x": 1, "z": 4}
    use = found.spot.inside["use"]
    assert use.inside["x"].line == 1
    assert use.inside["y"].line == 5


def test_a_merge_key_of_something_else_is_told() -> None:
    (problem,) = only("a:\n  <<: 5\n").problems
    assert (problem.line, problem.column) == (2, 3)
    assert "takes a mapping" in problem.message


def test_tags_are_told() -> None:
    found = only("a: !!python/object:os.system x\nb: !own {c: 1}\n")
    assert [(problem.line, problem.message) for problem in found.problems] == [
        (1, "the tag !!python/object:os.system means nothing in a site file"),
        (2, "the tag !own means nothing in a site file"),
    ]


def test_a_key_that_is_no_text_is_told() -> None:
    (problem,) = only("a: 1\n? [x, y]\n: 2\n").problems
    assert (problem.line, problem.column, problem.message) == (2, 3, "a key must be a text")


def test_several_documents_are_read_one_by_one() -> None:
    found = list(read("a: 1\n---\nb: 2\n", "a.yaml"))
    assert [document.data for document in found] == [{"a": 1}, {"b": 2}]
    assert found[1].spot.line == 3


def test_aliases_may_not_unfold_to_a_bomb() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(InvalidYaml, match="unfold to more than 100,000 values"):
        only("\n".join(lines))


def test_a_few_aliases_of_a_long_list_are_no_bomb_but_many_are() -> None:
    assert len(only(f"a: &a [{', '.join(['x'] * 1000)}]\nb: [{', '.join(['*a'] * 50)}]").data["b"]) == 50
    with pytest.raises(InvalidYaml, match="unfold"):
        only(f"a: &a [{', '.join(['x'] * 1000)}]\nb: [{', '.join(['*a'] * 200)}]")


def test_an_anchor_that_contains_itself_is_refused() -> None:
    with pytest.raises(InvalidYaml, match="an anchor contains itself"):
        only("a: &a [1, *a]")


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", ["[" * 2000, "- " * 2000 + "x", "[" * 100 + "]" * 100])
def test_deep_nesting_is_a_problem_and_no_crash(text: str, loader: Any) -> None:
    with pytest.raises(InvalidYaml):
        only(text, loader)


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("a:\n\tb: 1\n", 2, "tabs"),
        ("a: b: c\n", 1, "quotes"),
        ("a: [1, 2\nb: 3\n", 2, "brackets"),
        ("a: *nobody\n", 1, "anchor"),
        ("b: 1\na: 'x\n\n", 2, "close it"),
        ('a: "x\nb: "y"\n', 2, "the quote that began in line 1, column 4 ends only before this place"),
        ("a: 'it's'\n", 1, "is written ''"),
        ('a: "\\d"\n', 1, "single quotes"),
        ("b: 1\na: {css: #x}\nc: 1\n", 2, "a # after a space begins a comment"),
        ("a: @x\n", 1, "quotes"),
        ("a: \x00\n", 1, ""),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int, hint: str) -> None:
    with pytest.raises(InvalidYaml) as caught:
        list(read(text, "a.yaml"))
    problem = caught.value.problem
    assert problem.message.startswith("this is not YAML: ")
    assert problem.line == line
    assert hint in problem.hint


def test_a_number_of_too_many_digits_is_a_problem() -> None:
    with pytest.raises(InvalidYaml, match="too many digits"):
        only("a: " + "9" * 5000)


def test_a_file_must_be_utf_8() -> None:
    assert decoded("a: é".encode("utf-8-sig"), "a.yaml") == "a: é"
    with pytest.raises(InvalidYaml, match=r"a\.yaml:2:4: byte 0xe9 is not UTF-8"):
        decoded(b"a: 1\nb: \xe9", "a.yaml")


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def spots(spot: Spot, data: Any) -> list[tuple[Spot, Any]]:
    found = [(spot, data)]
    if isinstance(data, dict):
        found += [pair for key, value in data.items() for pair in spots(spot.inside[key], value)]
    if isinstance(data, list):
        found += [pair for place, value in enumerate(data) for pair in spots(spot.inside[place], value)]
    return found


@settings(max_examples=150, deadline=None)
@given(values, st.booleans())
def test_what_pyyaml_writes_is_read_back_and_every_value_stands_where_its_spot_says(data: Any, flow: bool) -> None:
    text = pyyaml.safe_dump({"top": data}, default_flow_style=flow, allow_unicode=True, width=60)
    lines = text.splitlines()
    for loader in LOADERS:
        found = only(text, loader)
        assert found.data == {"top": data}
        for spot, value in spots(found.spot, found.data):
            if isinstance(value, bool):
                assert lines[spot.line - 1][spot.column - 1 :].startswith(str(value).lower())
            elif isinstance(value, int):
                assert lines[spot.line - 1][spot.column - 1 :].startswith(str(value))
