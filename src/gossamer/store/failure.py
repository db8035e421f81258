"""What an error of a database means for a writer."""

from __future__ import annotations

import enum


class StoreFailure(enum.Enum):
    """UNAVAILABLE: cannot be reached or cannot write now; wait. AGAIN: a conflict with another writer; the same transaction may succeed at
    once. CHANGED: a table or column is missing; prepare again. REFUSED: this row cannot be stored."""

    UNAVAILABLE = "unavailable"
    AGAIN = "again"
    CHANGED = "changed"
    REFUSED = "refused"


def first_line(error: BaseException | None) -> str:
    """What the database said, in one line."""
    if error is not None and len(error.args) > 1 and isinstance(error.args[0], int):
        return f"{' '.join(str(error.args[1]).split())} ({error.args[0]})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
