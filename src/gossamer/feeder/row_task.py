"""The task of a row: which columns become what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any
from urllib.parse import quote

from gossamer.errors import PolicyError
from gossamer.model.plan.task_row import plain, task_of

NOT_HERE = ("filter", "dont_filter", "report")
"""The primary key prevents repeats, not what was seen; and the report is the feeder's own."""


class RowTask:
    """Makes tasks from rows. `members` has a column for each member of a task (`url`, `meta.section`, `pass.id`); `form` is the URL with
    columns in braces, where no column has it."""

    def __init__(self, members: Mapping[str, str], form: str = "") -> None:
        self._members, self._form = dict(members), form
        if "url" in self._members and form:
            raise PolicyError("A task has one URL: name a column for it, or give its form.")
        if "url" not in self._members and not form:
            self._members = {"url": "url", **self._members}
        wrong = sorted({name.partition(".")[0] for name in self._members}.intersection(NOT_HERE))
        if wrong:
            raise PolicyError(
                f"A task of a table has no {' and no '.join(wrong)}: the primary key says what is done once."
            )
        try:
            self._parts = [(text, name) for text, name, *_ in Formatter().parse(form)]
        except ValueError as error:
            raise PolicyError(f"The URL {form!r} cannot be used: {error}.") from None

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are needed."""
        return [*self._members.values(), *(name for _, name in self._parts if name)]

    def task(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The task of a row, without its report; ValueError says why there is none."""
        task: dict[str, Any] = {}
        if self._form:
            task["url"] = "".join(text + (_quoted(row, name) if name else "") for text, name in self._parts)
        task |= task_of({member: row[column] for member, column in self._members.items()})
        url = task.get("url")
        if not isinstance(url, str) or not url.strip():
            raise ValueError("its URL is empty")
        return task


def _quoted(row: Mapping[str, Any], name: str) -> str:
    value = plain(row[name])
    if value is None:
        raise ValueError(f"its {name} is NULL")
    return quote(str(value), safe="")
