"""A seen memory on its own, without queues: for a dupefilter in a plain Scrapy project, or any other use.

The policies are those of lanes (docs/explanation/seen.md). One call per batch, whatever its size up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from gossamer.closeable import Closeable
from gossamer.errors import InvalidRequest
from gossamer.frontier.call import function_call, text
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.tables import seen_table
from gossamer.frontier.verbs.work.batch import entry_of
from gossamer.model import SeenPolicy, Token
from gossamer.settings import Settings, load

CALL_FINGERPRINTS = 1000


class ValkeyMemory(Closeable):
    """What one name has seen, shared by all who open it under the same policy, and kept over restarts."""

    def __init__(self, function_client: FunctionClient, name: str, policy: SeenPolicy) -> None:
        self._function_client, self._base, self._policy = function_client, keys.seen_base(name), seen_table(policy)
        self._token = Token.fresh()

    @classmethod
    def open(cls, name: str, policy: SeenPolicy, settings: Settings | None = None) -> Self:
        return cls(FunctionClient.connect(settings or load()), name, policy)

    def mark(self, fingerprints: Sequence[int]) -> list[bool]:
        """Mark fingerprints as seen. Return which of them are new."""
        return self._each("mark", fingerprints)

    def known(self, fingerprints: Sequence[int]) -> list[bool]:
        return self._each("probe", fingerprints)

    def forget(self, fingerprints: Sequence[int]) -> list[bool]:
        """Remove fingerprints; False: it was not there."""
        return self._each("forget", fingerprints)

    def count(self) -> int:
        return int(self._ask("count", []))

    def bytes_used(self) -> int:
        """From a sample of its parts."""
        return int(self._ask("bytes", []))

    def clear(self) -> None:
        """Forget everything, in bounded steps."""
        while text(self._ask("purge", [])) != "1":
            pass

    def server_process(self) -> str:
        """Which process serves it: another one may have lost what was marked last."""
        info = self._function_client.connection.execute("INFO", "server", key=self._base, final=True).decode()
        return next((line for line in info.splitlines() if line.startswith("run_id:")), "")

    def close(self) -> None:
        self._function_client.close()

    def _each(self, action: str, fingerprints: Sequence[int]) -> list[bool]:
        for value in fingerprints:
            if type(value) is not int or not 0 <= value < 2**64:
                raise InvalidRequest(f"fingerprint {value!r} is not a whole number from 0 to 2**64-1.")
        answers: list[bool] = []
        for first in range(0, len(fingerprints), CALL_FINGERPRINTS):
            entries = [entry_of(value) for value in fingerprints[first : first + CALL_FINGERPRINTS]]
            answers += [letter == "y" for letter in text(self._ask(action, entries))]
        return answers

    def _ask(self, action: str, entries: list[str]) -> Any:
        self._token = self._token.next()
        header = {
            "i": self._token.incarnation, "s": self._token.sequence, "policy": self._policy, "fps": entries, "action": action,
        }  # fmt: skip
        return self._function_client.ask([function_call("mark", self._base, header)])[0]
