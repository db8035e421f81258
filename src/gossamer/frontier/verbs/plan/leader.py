"""Who leads the planners of a crawl. Generators without I/O.

Partition 0 gives the lead, for a few seconds at a time. A leader tells every partition of its term before it does anything: from then on
they refuse what former leaders ask for. Each partition also knows until when there is a leader.
"""

from __future__ import annotations

from typing import Any

from gossamer.errors import PolicyError
from gossamer.frontier.call import Verb, function_call, own, read
from gossamer.frontier.server import keys
from gossamer.model import Leader, Token

TRIES = 5
"""A partition that went back makes one more try necessary; even if all go back at once, fewer than five are."""
WORDS = 200


class LeaderVerbs:
    """Builds and reads the calls about the leader of one crawl."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def lead(self, token: Token, name: str, seconds: float, term: int = 0) -> Verb[Leader]:
        if len(name) > WORDS:
            raise PolicyError(f"planner: the name has {len(name):,} characters; use at most {WORDS}.")
        if not seconds > 0:
            raise PolicyError(f"planner: the lead cannot last {seconds:g} s; ask for more than 0.")
        header = {"i": own(token.incarnation), "name": name, "lease": round(seconds * 1000)}
        least, action = 0, "keep" if term else "take"
        leader = _leader("busy", 0, "", 0, 0)
        for _ in range(TRIES):
            more = {"action": action, "term": term, "least": least}
            [reply] = yield [function_call("lead", self.bases[0], {**header, **more})]
            leader = _leader(*read(reply))
            if not leader.granted or len(self.bases) == 1:
                return leader
            least = yield from self._announce(header, leader)
            if least <= leader.term:
                return leader
            # Partition 0 has forgotten the terms that it gave last.
            action, term = "take", 0
        return leader._replace(granted=False)

    def _announce(self, header: dict[str, Any], leader: Leader) -> Verb[int]:
        """Tell the other partitions of the term. Return the latest that one of them knows."""
        told = {**header, "action": "hear", "term": leader.term, "least": 0}
        replies = yield [function_call("lead", base, told) for base in self.bases[1:]]
        return max(int(read(reply)[1]) for reply in replies)

    def resign(self, token: Token, term: int) -> Verb[bool]:
        header = {"i": token.incarnation, "name": "", "lease": 0, "action": "resign", "term": term, "least": 0}
        # Partition 0 last: the next leader reports it to the others.
        if others := self.bases[1:]:
            yield [function_call("lead", base, header) for base in others]
        [reply] = yield [function_call("lead", self.bases[0], header)]
        return bool(read(reply)[0] == "granted")


def _leader(state: str, term: int, name: str, until: int, now: int) -> Leader:
    return Leader(state == "granted", term, name, until / 1000, now / 1000)
