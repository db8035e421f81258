"""JMESPath compiled into functions finds what the library finds."""

from __future__ import annotations

from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]
from tests.sites.extract.small_site import read

from gossamer.sites.extract.selector.jmespath import keys_of, search

NAME = st.sampled_from(["a", "b", "c", '"a-b"', '"x.y"', '""'])
PLACE = st.sampled_from(["[0]", "[1]", "[-1]", "[-2]", "[7]"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | st.sampled_from(["", "text", "[1]"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "a-b", "x.y", ""]), inner, max_size=4)
    ),
    max_leaves=30,
)


@st.composite
def plain(draw: st.DrawFn) -> str:
    text = draw(NAME | PLACE | st.just("@"))
    for _ in range(draw(st.integers(0, 5))):
        text += draw(NAME.map(".{}".format) | PLACE | st.sampled_from([" | @", " | [0]", " | a", " | b[1]"]))
    return text


def alike(one: Any, other: Any) -> bool:
    """The same values of the same types: 1 is not true."""
    return repr(one) == repr(other)


@given(plain(), DATA)
@settings(deadline=None, max_examples=300)
@example("a.b", {"a": [{"b": 1}]})
@example("a[0]", {"a": "text"})
@example("a[-3]", {"a": [1, 2]})
@example("@", None)
def test_the_same_values_as_by_the_library(expression: str, data: Any) -> None:
    ask = search(expression)
    assert ask.__qualname__.startswith(("_path", "_itself", "_index", "_chain"))
    assert alike(ask(data), jmespath.search(expression, data))


@given(
    st.sampled_from(
        [
            "a[*].b",
            "a[].b",
            "*.a",
            "a[1:]",
            "a[?b]",
            "a[?b == `1`].c",
            "length(a)",
            "a || b",
            "[a, b]",
            "{x: a}",
            "!a",
            "a[*].[b, c]",
            "a && b",
            "`1`",
            "a[::0]",
        ]
    ),
    DATA,
)
@settings(deadline=None)
def test_the_rest_is_the_librarys(expression: str, data: Any) -> None:
    try:
        wanted = jmespath.search(expression, data)
    except ValueError:
        with pytest.raises(JMESPathError):
            search(expression)(data)
    else:
        assert alike(search(expression)(data), wanted)


@pytest.mark.parametrize(
    ("expression", "keys"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        (' a . "b.c" ', ("a", "b.c")),
        ("a[0]", ()),
        ("a.*", ()),
        ("a | b", ()),
        ("@", ()),
        ("@.a", ()),
        ("a.[b]", ()),
        ("a.length(@)", ()),
    ],
)
def test_names_alone_are_known(expression: str, keys: tuple[str, ...]) -> None:
    assert keys_of(expression) == keys


@pytest.mark.parametrize("expression", ["", "a..b", "a[", "é", "a.é", "a b", "(" * 5000])
def test_what_is_no_expression_is_told_when_it_is_compiled(expression: str) -> None:
    with pytest.raises(ValueError, match="is not a JMESPath"):
        search(expression)
    with pytest.raises(ValueError, match="is not a JMESPath"):
        keys_of(expression)


@pytest.mark.parametrize(
    "expression",
    ["items[?n > `0`].n", "items[::0]", "avg(items[].f)", "avg(items[:1].f)", "items[?contains(s, `1`)]"],
)
def test_what_the_library_cannot_do_with_a_page_is_a_note(expression: str) -> None:
    page = '{"items": [{"n": "5", "s": "abc", "f": LARGE}, {"n": 3, "s": "x", "f": LARGE}], "ok": "yes"}'
    page = page.replace("LARGE", str(10**400))
    rules = f"format: json\nfields: {{a: {{jmespath: '{expression}', all: true}}, b: {{jmespath: '{expression}'}}, ok: {{jmespath: ok}}}}"
    reading = read(rules, page)
    assert reading.records[0].fields == {"a": None, "b": None, "ok": "yes"}
    assert [note.split(": ")[:2] for note in reading.notes] == [["a", "JMESPathError"], ["b", "JMESPathError"]]
