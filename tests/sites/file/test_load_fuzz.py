"""Whatever stands in a site file, what is wrong is a problem with a place, and never another error."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.errors import SiteError
from gossamer.sites.compile import compile_site
from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.load import survey_text

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
WHOLE: dict[str, Any] = {
    "site": "s-{p}",
    "params": {"p": ["x", "y"], "n": [1, 2]},
    "seeds": ["http://{p}.example/[1-3]/{n}", {"sitemap": "http://s.example/s.xml", "since": "1d"}, {"tasks": "t"}],
    "schedule": {"every": "10m", "jitter": 5},
    "limits": {"pages": 1e6, "depth": 3, "seeds": 100},
    "politeness": {"delay": "1s", "hosts": {"s.example": {"delay": 2}}},
    "seen": {"policy": "rolling", "window": "1d"},
    "identity": {"drop": ["utm_*"]},
    "request": {"headers": {"A": "${B}"}, "timeout": "5s", "proxy": "vip", "auth": ["a", "b"]},
    "proxies": {"vip": {"urls": ["http://p:1"]}},
    "database": "sqlite:///x",
    "layers": {
        "a": {
            "match": r"^/(?P<n>\d+)", "examples": ["http://{p}.example/1/1"], "follow": ["a.x", {"css": "b", "to": "b", "pass": ["t"]}],
            "fields": {
                "t": "h1", "u": {"xpath": "//b", "type": "int", "clean": ["strip", {"replace": ["a", "b"]}]},
                "r": {"each": ".r", "fields": {"z": {"regex": "(x)"}}},
            },
            "require": ["t", ["t", "u"]], "valid": {"status": [200], "contains": "x"},
        },
        "b": {"like": "a", "match": "^/b", "format": "json", "fields": {"t": None, "u": None, "r": None, "j": {"jmespath": "a.b"}},
              "follow": None, "require": None, "request": {"form": {"q": "{p}"}}},
    },
    "store": {"a": {"key": ["url"], "add": ["fetched_at"], "children": {"r": {"json": True}}}},
    "hooks": {"after_round": "m:f"},
}  # fmt: skip


def paths(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [above] if above else []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        found += paths(value, (*above, key))
    return found


PATHS = paths(WHOLE)
odd: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, 0, -1, 5, 1.5, 10**30, float("inf"), float("nan"), "", " ", "x", "{p}", "{nobody}", "{{p}}", "(", "[", "a[", "//", "::", "[1-9:0]",
        "[1-99999999]", "http://", "http://[::1", "${", "${}", "m:f", "a", "b", "\x00", "é", "none", "all", "yes", [], {}, [[]], [{}], {"x": {}}, ["a", "b"],
        {"css": "x"}, {"a": "b"}, "a.yaml", "99h", "*", "\n", "http://s.example/ x", "1e400", "t",
    ]
)  # fmt: skip


def put(data: Any, path: tuple[Any, ...], value: Any, key: str | None) -> None:
    # A copy: put into itself it would be no file, and changed by one example it would be another one in the next.
    value = copy.deepcopy(value)
    for part in path[:-1]:
        if not isinstance(data, dict | list) or (
            isinstance(data, list) and not (isinstance(part, int) and part < len(data))
        ):
            return
        data = data[part] if isinstance(data, list) else data.get(part)
    if isinstance(data, dict):
        if key is None:
            data[path[-1]] = value
        else:
            data[key] = data.pop(path[-1], value)
    elif isinstance(data, list) and isinstance(path[-1], int) and path[-1] < len(data):
        data[path[-1]] = value


names = st.none() | st.sampled_from(["", "x", "a b", "{p}", "_feed", "from", "source", "é", "a.b", "<<"])
changes = st.lists(st.tuples(st.sampled_from(PATHS), odd, names), min_size=1, max_size=3)


def test_the_whole_is_right() -> None:
    assert [str(problem) for problem in survey_text(to_yaml(WHOLE)).problems] == []


@pytest.mark.timeout(400)
@settings(max_examples=150 * FACTOR, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes)
def test_any_change_of_a_site_file_is_taken_or_told_of(changed: list[tuple[tuple[Any, ...], Any, str | None]]) -> None:
    data = copy.deepcopy(WHOLE)
    for path, value, key in changed:
        put(data, path, value, key)
    found = survey_text(to_yaml(data), "f.yaml")
    for problem in found.problems:
        assert problem.file == "f.yaml"
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        assert "\n" not in str(problem)
        assert "pydantic" not in str(problem).lower()
    if not any(problem.severity == "error" for problem in found.problems):
        for loaded in found.sites:
            compiled = compile_site(loaded.site, environment={"B": "b"})
            compiled.lanes(), compiled.group(), compiled.hosts(), compiled.tables(), next(compiled.seeds(), None)
            assert compiled.seed_count() <= max(loaded.site.limits.seeds, 0)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([path for path in PATHS if len(path) > 1]), st.integers(0, 3))
def test_a_value_that_contains_itself_is_told_of(path: tuple[Any, ...], up: int) -> None:
    data = copy.deepcopy(WHOLE)
    around: Any = data
    for part in path[: max(0, len(path) - 1 - up)]:
        around = around[part]
    inside: Any = data
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = around
    found = survey_text(yaml.safe_dump(data, sort_keys=False), "f.yaml")
    assert ["an anchor contains itself" in problem.message for problem in found.problems] == [True]
    assert all(problem.line >= 1 and problem.column >= 1 for problem in found.problems)
    with pytest.raises(SiteError, match="contains itself"):
        to_yaml(data)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@#,?\n\t 0.~<"), max_size=40) | st.text(max_size=20))
def test_any_text_is_read_or_told_of(text: str) -> None:
    found = survey_text(f"site: s\nlayers: {{a: {{}}}}\n{text}", "f.yaml")
    assert all(problem.line >= 1 for problem in found.problems)
