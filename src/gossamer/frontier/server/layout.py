"""Records that Python and Lua share by position, declared here once.

A record travels and is stored as a plain list: MessagePack packs nothing faster. The Lua files name its fields (`v[LEASE.host]`), and
`library` puts numbers in place of the names, so that they cost the server nothing. Python takes positions from here, too.
"""

from __future__ import annotations

import re


class RecordLayout:
    """The fields of a list, in order."""

    def __init__(self, fields: str) -> None:
        self.fields = tuple(fields.split())

    def at(self, field: str) -> int:
        """The position of a field, counted from 0 as Python does."""
        return self.fields.index(field)

    def of(self, *values: object) -> list[object]:
        """A list with a value for every field."""
        if len(values) != len(self.fields):
            raise ValueError(f"{len(values)} values for the {len(self.fields)} fields {', '.join(self.fields)}.")
        return list(values)


LEASE = RecordLayout("lane_id host priority attempts strikes incarnation nonce alone record losses counted_by")
"""What is stored of a lease. A permit has lane "". `losses` and `counted_by` are missing where they are 0 and ""."""
HELD = RecordLayout("id nonce")
"""A lease or a task, named by the worker that holds it."""
SENT = RecordLayout("id nonce age")
"""A lease whose request was sent, or that is given back, and for how many ms its host has been waiting since."""
FETCHED = RecordLayout("id nonce feedback")
"""A lease whose response arrived."""
FEEDBACK = RecordLayout("verdict latency retry_after")
"""How the host answered."""
SETTLEMENT = RecordLayout(
    "id nonce ending delay priority reason detail feedback first_item items group pushed lists kept"
)
"""How a lease ends, with what its page brought. Only the first two for a page that is done and brought nothing."""
BATCH = RecordLayout("lane host priority delay entries lengths pages")
"""Requests for one place in the queue."""
COUNTER = RecordLayout("group name value op")
"""One change of a counter of users."""
SUSPECT = RecordLayout("id lease")
"""A request that may have killed its workers."""
QUEUED = RecordLayout("lane host priority record due")
"""A delayed request, or one in the journal of a snapshot."""
DEAD = RecordLayout("group lane host priority attempts strikes reason detail at id record")
"""What is stored of a dead letter."""
TASK = RecordLayout("data incarnation nonce attempts first_nonce deaths state")
"""What is stored of a leased task."""
RIGHT = RecordLayout("round state incarnation deadline")
"""Who may run a start, or end a round."""
ANSWER = RecordLayout("sequence settled children added ids nonce open paused room ready_in now paced")
"""What is kept of an exchange, to answer it again."""
ENTRY = RecordLayout("line kind")
"""A line of a snapshot on its way back, of any kind; the others say what follows for each kind."""
ENTRY_REQUEST = RecordLayout("line kind state lane host priority due filtered fingerprint attempts strikes")
ENTRY_PAGE = RecordLayout(
    "line kind lane host priority state first last since due interval version status changes misses signature trail"
)
ENTRY_DEAD = RecordLayout("line kind group lane host priority attempts strikes reason detail at")
ENTRY_MEMORY = RecordLayout("line kind name policy")
ENTRY_SEEN = RecordLayout("line kind name fingerprints began behind")
ENTRY_PAGE_TEXTS = RecordLayout("line kind lane")
ENTRY_FORGOTTEN = RecordLayout("line kind name fingerprints")
ENTRY_LAYERS = RecordLayout("line kind name state")
ENTRY_BITS = RecordLayout("line kind name layer segment offset")
ENTRY_COUNTS = RecordLayout("line kind fields lane")
ENTRY_COUNTERS = RecordLayout("line kind group fields")
ENTRY_ROUND = RecordLayout("line kind group round start home")
ENTRY_LOGGED = RecordLayout("line kind group round fields")
ENTRY_STANDING = RecordLayout("line kind group round counts")
ENTRY_DAILY = RecordLayout("line kind group day counts")
ENTRY_DOCUMENT = RecordLayout("line kind document version at who note digest deleted keep")
ENTRY_ITEM = RecordLayout("line kind group position")
ENTRY_CONSUMER = RecordLayout("line kind group name position")

RECORDS = {name: value for name, value in globals().items() if isinstance(value, RecordLayout)}
_NAMED = re.compile(rf"\b({'|'.join(RECORDS)})\.(\w+)")


def numbered(text: str) -> str:
    """Lua text with the positions of fields, counted from 1 as Lua does, in place of their names."""

    def number(named: re.Match[str]) -> str:
        record, field = named.groups()
        if field not in RECORDS[record].fields:
            raise ValueError(f"{record} has no field {field!r}; it has {', '.join(RECORDS[record].fields)}.")
        return str(RECORDS[record].at(field) + 1)

    return _NAMED.sub(number, text)
