"""Seeds: ranges, parameters, and what only looks like them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.seeds import HOSTS_MAX, count, hosts_of, unfold

NONE = Parameters()


def urls(text: str, params: Parameters = NONE) -> list[str]:
    return [one.url for one in unfold(text, params)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a/[1-3]", ["http://a/1", "http://a/2", "http://a/3"]),
        ("http://a/[1-10:4]", ["http://a/1", "http://a/5", "http://a/9"]),
        ("http://a/[08-11]", ["http://a/08", "http://a/09", "http://a/10", "http://a/11"]),
        ("http://a/[3-1]", ["http://a/3", "http://a/2", "http://a/1"]),
        ("http://a/[10-1:4]", ["http://a/10", "http://a/6", "http://a/2"]),
        ("http://a/[11-08]", ["http://a/11", "http://a/10", "http://a/09", "http://a/08"]),
        ("http://a/[0-1]/[5-6]", ["http://a/0/5", "http://a/0/6", "http://a/1/5", "http://a/1/6"]),
        ("http://a/[7-7]", ["http://a/7"]),
        ("http://[::1]:80/[1-2]", ["http://[::1]:80/1", "http://[::1]:80/2"]),
        ("http://a/?a[]=1&b[x]=2&c[1]=3", ["http://a/?a[]=1&b[x]=2&c[1]=3"]),
        ("http://a/[a-z]/[1-]/[-1]/[1-2:]", ["http://a/[a-z]/[1-]/[-1]/[1-2:]"]),
        ("http://a/%5B1-3%5D", ["http://a/%5B1-3%5D"]),
        ("http://a/{{x}}", ["http://a/{x}"]),
    ],
)
def test_ranges_are_unfolded_and_other_brackets_stay(text: str, expected: list[str]) -> None:
    assert urls(text) == expected
    assert count(text, NONE) == len(expected)


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[1-3:0\] has a step of 0"):
        urls("http://a/[1-3:0]")


def test_parameters_turn_slowest_and_the_same_name_has_one_value() -> None:
    params = parameters({"f": ["x", "y"], "g": ["only"]})
    assert urls("http://{f}.a/{f}/{g}/[1-2]", params) == [
        "http://x.a/x/only/1",
        "http://x.a/x/only/2",
        "http://y.a/y/only/1",
        "http://y.a/y/only/2",
    ]
    assert count("http://{f}.a/{f}/[1-2]", params) == 4
    rows = parameters([{"f": "x", "g": 1}, {"f": "y", "g": 2}])
    assert urls("http://{f}/{g}", rows) == ["http://x/1", "http://y/2"]
    assert next(unfold("http://{f}/", rows)).values == {"f": "x", "g": 1}


def test_seeds_are_counted_and_begun_without_making_them() -> None:
    text = "http://a/[1-999999999999]/[1-999999999999]"
    assert count(text, NONE) == 999999999999**2
    assert [one.url for one in itertools.islice(unfold(text, NONE), 2)] == ["http://a/1/1", "http://a/1/2"]


numbers = st.integers(0, 500)


@given(numbers, numbers, st.integers(1, 60), st.booleans(), st.sampled_from(["", "/x"]))
def test_a_range_has_both_ends_in_order_and_as_many_as_are_counted(
    first: int, last: int, step: int, padded: bool, tail: str
) -> None:
    width = 4 if padded else 1
    text = f"http://a/[{first:0{width}d}-{last:0{width}d}:{step}]{tail}"
    found = urls(text)
    assert len(found) == count(text, NONE)
    values = [int(url.removesuffix(tail).rpartition("/")[2]) for url in found]
    assert values[0] == first
    assert all(abs(one - other) == step for one, other in itertools.pairwise(values))
    assert values == sorted(values, reverse=last < first)
    assert min(first, last) <= min(values)
    assert max(values) <= max(first, last)
    assert abs(last - values[-1]) < step
    if padded:
        assert {len(url) for url in found} == {len(f"http://a/0000{tail}")}


def test_the_hosts_of_seeds_are_known_without_unfolding_their_paths() -> None:
    params = parameters({"f": ["x", "y"], "u": ["http://c.example:8080/deep"]})
    texts = ["http://{f}.example/[1-999999999999]", "https://s[1-2].example:443?q", "{u}/[1-5]", "http://[::1]:8080/x"]
    expected = frozenset({"x.example", "y.example", "s1.example", "s2.example", "c.example:8080", "[::1]:8080"})
    assert hosts_of(iter(texts), params) == expected
    assert hosts_of(iter([f"http://h[1-{HOSTS_MAX + 1}].example/"]), NONE) is None
    assert hosts_of(iter(["http://[bad/"]), NONE) == frozenset()
