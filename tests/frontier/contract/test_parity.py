"""Contract, blocking client and async client have the same verbs with the same parameters."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier

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
    return verb[1] if verb else told.replace("AsyncIterator", "Iterator")


def test_the_contract_has_verbs() -> None:
    assert {"exchange", "add", "renew", "release", "drained", "scan"} <= set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_the_same_parameters_everywhere(name: str) -> None:
    contract = getattr(Frontier, name)
    for client in (ValkeyFrontier, AsyncValkeyFrontier):
        assert shape(getattr(client, name)) == shape(contract), client.__name__


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_answers_the_same_everywhere(name: str) -> None:
    expected = inspect.signature(getattr(Frontier, name)).return_annotation
    for client in (ValkeyFrontier, AsyncValkeyFrontier):
        assert answer(getattr(client, name)) == expected, client.__name__


@pytest.mark.parametrize("name", VERBS)
def test_the_async_client_never_blocks_in_a_verb(name: str) -> None:
    verb = getattr(AsyncValkeyFrontier, name)
    answered = inspect.signature(verb).return_annotation
    assert inspect.iscoroutinefunction(verb) or answered.startswith("AsyncIterator")


def test_the_clients_offer_no_other_verbs() -> None:
    blocking = {name for name, member in vars(ValkeyFrontier).items() if inspect.isfunction(member)}
    other = {name for name, member in vars(AsyncValkeyFrontier).items() if inspect.isfunction(member)}
    assert {name for name in blocking ^ other if not name.startswith("_")} == set()
    assert {name for name in blocking if not name.startswith("_")} - {"close"} == set(VERBS)
