"""Why a page or a task became a dead letter: the words that both engines share. docs/reference/engine.md lists them all."""

from __future__ import annotations

BAD_TASK = "bad_task"
GARBAGE = "garbage"
"""What is stored is no request."""
OVERDUE = "overdue"
"""It was worked on for longer than GOSSAMER_RENEW_MAX_SECONDS."""
PIPELINE = "pipeline"
POISON = "poison"
"""Its lease ran out too often."""
START_FAILED = "start_failed"
UNSERIALIZABLE = "unserializable"
"""Something that it yielded cannot be stored."""


def of_status(status: int) -> str:
    return f"http_{status}"
