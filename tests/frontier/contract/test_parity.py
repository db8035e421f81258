"""The contract and its clients have the same verbs with the same parameters."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import DERIVED, ValkeyFrontier

VERBS = sorted(
    name for name, member in vars(Frontier).items() if inspect.isfunction(member) and not name.startswith("_")
)


def shape(verb: Any) -> list[tuple[str, Any, Any, Any]]:
    parameters = inspect.signature(verb).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in parameters]


def answer(method: Any) -> str:
    """What a method answers: for a derived one, what its verb comes to."""
    told: str = inspect.signature(method).return_annotation
    verb = re.fullmatch(r"Verb\[(.*)\]", told)
    return verb[1] if verb else told


def test_the_contract_has_verbs() -> None:
    assert {"exchange", "add", "renew", "release", "drained", "scan"} <= set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_the_same_parameters_everywhere(name: str) -> None:
    assert shape(getattr(ValkeyFrontier, name)) == shape(getattr(Frontier, name))


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_answers_the_same_everywhere(name: str) -> None:
    assert answer(getattr(ValkeyFrontier, name)) == inspect.signature(getattr(Frontier, name)).return_annotation


def test_the_async_client_has_every_verb_of_one_step() -> None:
    assert set(VERBS) - set(DERIVED) == {"drop_lane", "drop_group", "read_items"}
    assert set(DERIVED) <= set(VERBS)


def test_the_blocking_client_offers_no_other_verbs() -> None:
    methods = {name for name, member in vars(ValkeyFrontier).items() if inspect.isfunction(member)}
    assert {name for name in methods if not name.startswith("_")} - {"close"} == set(VERBS)
