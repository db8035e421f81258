"""Tasks of a producer's key: leased, and settled. Generators without I/O."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gossamer.frontier.call import Verb, function_call, own, read
from gossamer.frontier.server import keys
from gossamer.model import Task, Token

CALL_TASKS = 1000


class TaskVerbs:
    """Builds and reads the calls of task intakes. A key is no crawl's own: whoever names it takes from it."""

    def __init__(self, lease_ms: int, strikes: int) -> None:
        self._lease_ms, self._strikes = lease_ms, strikes

    def lease_tasks(self, token: Token, source: str, want: int) -> Verb[list[Task]]:
        nonce = secrets.token_hex(8)
        want = max(0, min(want, CALL_TASKS))
        header = {
            "i": own(token.incarnation), "s": token.sequence, "n": nonce, "lease": self._lease_ms, "want": want,
            "strikes": self._strikes,
        }  # fmt: skip
        [reply] = yield [function_call("lease_tasks", keys.task_keys(source), header)]
        heads, nonce = read(reply[0])
        return [
            Task(source, number, nonce, data, attempt, taken, state == 2)
            for (number, attempt, taken, state), data in zip(heads, reply[1:], strict=True)
        ]

    def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> Verb[list[bool]]:
        header = {
            "i": token.incarnation,
            "done": _tasks(done),
            "release": _tasks(release),
            "renew": _tasks(renew),
            "lease": self._lease_ms,
        }
        [reply] = yield [function_call("settle_tasks", keys.task_keys(source), header)]
        return [letter == "s" for letter in read(reply)[0]]


def _tasks(tasks: Sequence[Task]) -> list[list[str]]:
    return [[str(task.id), task.nonce] for task in tasks]
