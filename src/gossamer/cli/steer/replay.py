"""Dead letters queued again as they were asked for at first: what Scrapy's retries have left in a request is forgiven, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from gossamer.errors import DecodingError, EncodingError
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, DeadLetter, Request
from gossamer.model.request import AddKey

RETRIES = "retry_times"
ADJUSTED = "priority_adjust"


class Replay:
    """`adjust` is what each retry adds to a priority, unless the request says it: the setting RETRY_PRIORITY_ADJUST."""

    def __init__(self, frontier: ValkeyFrontier, adjust: int) -> None:
        self._frontier, self._adjust = frontier, adjust

    def __call__(self, partition: int, numbers: Sequence[int]) -> int:
        """How many of these letters are queued now; in their order."""
        done = 0
        for retried, found in groupby(self._found(partition, numbers), lambda pair: pair[1] is not None):
            pairs = list(found)
            ids = [letter.id for letter, _ in pairs]
            done += self._again(partition, pairs) if retried else self._frontier.replay(partition, ids)
        return done

    def _found(self, partition: int, numbers: Sequence[int]) -> Iterator[tuple[DeadLetter, Request | None]]:
        # Some may be gone: another client was faster.
        while numbers and (letters := self._frontier.read_dead(partition, numbers)):
            numbers = numbers[numbers.index(letters[-1].id) + 1 :]
            for letter in letters:
                yield letter, forgiven(letter, self._adjust)

    def _again(self, partition: int, pairs: Sequence[tuple[DeadLetter, Request | None]]) -> int:
        """Queued under a name of their own, which makes a repeat harmless, then let go."""
        requests = [request for _, request in pairs if request is not None]
        names = [AddKey(f"replay {letter.partition}.{letter.id} {letter.at}") for letter, _ in pairs]
        outcomes, _, _ = self._frontier.add(requests, bound=False, key=names)
        kept = (AddOutcome.ADDED, AddOutcome.DUPLICATE)
        queued = [letter.id for (letter, _), outcome in zip(pairs, outcomes, strict=True) if outcome in kept]
        return self._frontier.drop_dead(partition, queued) if queued else 0


def forgiven(letter: DeadLetter, adjust: int) -> Request | None:
    """The request before Scrapy retried it: without its count, and with its priority; None: it was not retried."""
    try:
        fields = codec.decode_request(letter.payload)
    except (DecodingError, EncodingError):
        return None
    meta = fields.get("meta")
    retries = meta.get(RETRIES) if isinstance(meta, dict) else None
    if not letter.lane or not isinstance(meta, dict) or not isinstance(retries, int):
        return None
    each = meta.get(ADJUSTED, adjust)
    fields["meta"] = {name: value for name, value in meta.items() if name != RETRIES}
    priority = letter.priority - retries * (each if isinstance(each, int) else adjust)
    # Unfiltered: its place in the memory of what was seen stays.
    return Request(
        letter.fingerprint, letter.host, letter.lane, codec.encode_request(fields), priority, dont_filter=True
    )
