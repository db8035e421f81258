"""Texts with {names}."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.sites.file.params import Parameters, fill_all, filled, names_in, parameters


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{a}/{b}", "1/x"),
        ("{a}{unknown}", "1{unknown}"),
        (r"\d{2}-\d{1,3}-{a}", r"\d{2}-\d{1,3}-1"),
        ("{{a}}", "{a}"),
        ("{{{a}}}", "{{a}}"),
        ('{"a":{"b":{a}}}', '{"a":{"b":1}}'),
        ("{ a }", "{ a }"),
        ("{}", "{}"),
        ("}}{{", "}}{{"),
        ("{on}{none}", "true"),
        ("${a}${b}{a}", "${a}${b}1"),
    ],
)
def test_names_are_filled_and_other_braces_stay(text: str, result: str) -> None:
    assert filled(text, {"a": 1, "b": "x", "on": True, "none": None}) == result


def test_names_of_a_text_are_found_once_each() -> None:
    assert names_in("{a}{b}{a}{{c}}{1}{d-e}") == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "result"),
    [
        ({"css": "{x}", "regex": r"\w{3}{{x}}"}, {"css": "{v}", "regex": r"\w{3}{x}"}),
        ({"url": "{x}{{x}}{y}"}, {"url": "{{v}}{{x}}{y}"}),
        ({"headers": {"{x}": "{x}"}}, {"headers": {"{v}": "{{v}}"}}),
        (["{on}", "{list}", "{n}", "a{on}"], [True, [1, 2], "5", "atrue"]),
        ({"follow": {"url": "{{y}}"}}, {"follow": {"url": "{{y}}"}}),
    ],
)
def test_all_texts_of_a_site_are_filled_once(data: Any, result: Any) -> None:
    values = {"x": "{v}", "on": True, "list": [1, 2], "n": 5}
    assert fill_all(data, values) == result


def test_lists_are_combined_and_counted_without_combining() -> None:
    params = parameters({"a": [1, 2], "b": ["x", "y", "z"], "c": "one"})
    assert params.count(["a", "b", "nobody"]) == 6
    assert list(params.combinations(["b"])) == [{"b": "x"}, {"b": "y"}, {"b": "z"}]
    assert list(params.combinations([])) == [{}]
    assert params.single() == {"c": "one"}


def test_rows_belong_together() -> None:
    params = parameters([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert params.count(["a"]) == 2
    assert params.count(["c"]) == 1
    assert list(params.combinations(["a"])) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert params.single() == {}
    assert parameters([{"a": 1}]).single() == {"a": 1}
    assert Parameters().names == ()
