"""The list of mutations fits the code and covers every guarantee. `make mutants` runs them; here nothing is broken."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripts import mutants
from scripts.mutants import CannotApply, Mutation, Run, Verdict

from gossamer.frontier.server import library as server_library
from gossamer.testing import contract

MUTATIONS = mutants.mutations()
EACH = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
LUA_NOISE = re.compile(r"--\[\[.*?\]\]|--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
OPENS = {"function", "if", "do", "repeat"}
CLOSES = {"end", "until"}


def mutated(mutation: Mutation) -> str:
    source = mutants.ROOT / mutants.PACKAGE / mutation.file
    return mutation.apply(source.read_text(encoding="utf-8"))


def blocks_left_open(code: str) -> dict[str, int]:
    """By how many each kind of bracket and block is opened more often than closed; a `do` belongs to its `for` or `while`."""
    code = LUA_NOISE.sub("''", code)
    words = Counter(re.findall(r"[A-Za-z_]\w*|[(){}\[\]]", code))
    return {
        "blocks": sum(words[word] for word in OPENS) - sum(words[word] for word in CLOSES),
        **{opening: words[opening] - words[closing] for opening, closing in ("()", "{}", "[]")},
    }


@EACH
def test_a_mutation_applies_and_leaves_whole_code(mutation: Mutation) -> None:
    code = mutated(mutation)
    path = Path(mutation.file)
    if path.suffix == ".py":
        compile(code, mutation.file, "exec")
        return
    library = server_library.changed_library({path.stem: code})
    assert library != server_library.library()
    assert set(blocks_left_open(code).values()) == {0}
    assert set(re.findall(r"^(?:verb|register)\('(\w+)'", library, re.MULTILINE)) == set(server_library.VERBS)


@EACH
def test_the_tests_of_a_mutation_exist(mutation: Mutation) -> None:
    assert mutation.tests
    for test in mutation.tests:
        path, *classes, name = test.node.split("::")
        if path == mutants.SUITE:
            function = getattr(getattr(contract, classes[0]), name)
            assert test.part in ("", *mutants.PLACES) or any(test.part in each for each in parameters(function)), (
                f"{name} has no {test.part}"
            )
        else:
            text = (mutants.ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"\bdef {name}\(", text), f"{path} has no {name}"
            assert all(f"class {each}:" in text for each in classes)


def parameters(function: Any) -> list[str]:
    """The ids, or else the values, that a test is run with."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    ids = [mark.kwargs.get("ids") for mark in marks]
    return [
        str(each)
        for mark, given in zip(marks, ids, strict=True)
        for each in (mark.args[1] if given is None or callable(given) else given)
    ]


def test_names_are_unique() -> None:
    assert [name for name, n in Counter(mutation.name for mutation in MUTATIONS).items() if n > 1] == []


def test_every_guarantee_has_at_least_two() -> None:
    per_topic = Counter(mutation.topic for mutation in MUTATIONS)
    assert set(per_topic) == set(mutants.TOPICS)
    assert {str(number) for number in range(1, 12)} <= set(per_topic)
    assert [topic for topic, n in per_topic.items() if n < 2] == []


def test_the_page_is_up_to_date_and_linked() -> None:
    assert mutants.PAGE.read_text(encoding="utf-8") == mutants.page(MUTATIONS), "run scripts/mutants.py --docs"
    index = mutants.PAGE.with_name("index.md").read_text(encoding="utf-8")
    assert "(mutations.md)" in index


@pytest.mark.parametrize("text", ["", "one one"])
def test_text_that_does_not_stand_exactly_once_is_refused(text: str) -> None:
    with pytest.raises(CannotApply, match=f"{text.count('one')} times"):
        Mutation("m", "1", "", "f", (("one", "two"),), ()).apply(text)


def test_only_a_failed_assertion_kills() -> None:
    mutation = MUTATIONS[0]
    passed = mutants.Ended("tests/t.py::a", "passed", "")
    broken = mutants.Ended("tests/t.py::b", "broken", "no server")
    failed = mutants.Ended("tests/t.py::C::c", "failed", "AssertionError")
    assert Verdict(mutation, Run((passed,), 1.0)).result == "SURVIVED"
    assert Verdict(mutation, Run((passed, broken), 1.0)).result.startswith("BAD MUTATION")
    assert Verdict(mutation, Run((failed,), 1.0, "imported from elsewhere")).killers == []
    assert Verdict(mutation, Run((passed, broken, failed), 1.0)).killers == ["C::c"]


def test_unbalanced_code_is_found() -> None:
    assert blocks_left_open("if a then b() end -- if (")["blocks"] == 0
    assert blocks_left_open("for _ in pairs(t) do f('end') ")["blocks"] == 1
    assert blocks_left_open("f(a")["("] == 1
