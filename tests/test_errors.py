"""The error tree: what a caller may rely on for every class in it."""

from __future__ import annotations

import inspect

import pytest

from gossamer import errors
from gossamer.cli.exit_codes import BUG, EXIT_CODES, OK
from gossamer.errors import GossamerError

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_the_one_root(error: type[Exception]) -> None:
    assert issubclass(error, GossamerError)


@pytest.mark.parametrize("error", CLASSES)
def test_without_a_message_the_docstring_speaks_on_one_line(error: type[GossamerError]) -> None:
    assert error.__dict__["__doc__"], "each class states its own fact"
    message = str(error())
    assert message == " ".join(message.split())
    assert message.endswith(".")


@pytest.mark.parametrize("error", CLASSES)
def test_a_message_given_replaces_the_docstring(error: type[GossamerError]) -> None:
    assert str(error("lane news of group forum")) == "lane news of group forum"


@pytest.mark.parametrize("error", CLASSES)
def test_every_exit_code_is_in_the_table(error: type[GossamerError]) -> None:
    assert error.exit_code in EXIT_CODES.keys() - {OK, BUG}
