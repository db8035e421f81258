"""The seen memory of one spider, for plain Scrapy: its policy, its name on the server, and how an older one is taken over.

Knows nothing of Scrapy but the file `requests.seen` that it keeps in a JOBDIR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import BinaryIO, NamedTuple

from gossamer.errors import PolicyError, SettingError, SnapshotError
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.model import SeenKind, SeenPolicy
from gossamer.settings import DEFAULT, Settings, load

BATCH = 1000

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+\Z")
_LONGEST_NAME = 100
_HEX = b"0123456789abcdefABCDEF"
_DIGITS = 40  # of a whole digest, which may lack its line end
_LONGEST_LINE = 10_000


def number_of(digest: bytes) -> int:
    """The number of a request with this digest of Scrapy's default fingerprinter."""
    return int.from_bytes(digest[:8])


def number_of_custom(fingerprint: bytes) -> int:
    """The number of a request with this fingerprint of the project's own fingerprinter."""
    return int.from_bytes(blake2b(fingerprint, digest_size=8).digest())


def policy_of(settings: Settings, kind: SeenKind | None = None) -> SeenPolicy:
    """What the settings say, of the given kind instead of GOSSAMER_SEEN_KIND; SettingError where they say nothing usable."""
    if settings["GOSSAMER_SEEN_SCOPE"] != "forever" and settings.source("GOSSAMER_SEEN_SCOPE") != DEFAULT:
        raise SettingError(
            "GOSSAMER_SEEN_SCOPE: rounds need the scheduler of Gossamer. A seen filter beside Scrapy's own scheduler remembers "
            "over all runs: leave the setting out, or choose rolling or hits to see pages again."
        )
    if settings["GOSSAMER_SEEN_WINDOW_ROUNDS"]:
        raise SettingError(
            "GOSSAMER_SEEN_WINDOW_ROUNDS: rounds need the scheduler of Gossamer. Beside Scrapy's own scheduler, set "
            "GOSSAMER_SEEN_WINDOW_SECONDS or GOSSAMER_SEEN_WINDOW_COUNT."
        )
    kind = kind or SeenKind(settings["GOSSAMER_SEEN_KIND"])
    windowed = kind in (SeenKind.ROLLING, SeenKind.HITS)
    window = settings["GOSSAMER_SEEN_WINDOW_SECONDS"] if windowed else 0.0
    count = settings["GOSSAMER_SEEN_WINDOW_COUNT"] if windowed else 0
    if windowed and (window > 0) == (count > 0):
        raise SettingError(
            f"{kind.value}: set either GOSSAMER_SEEN_WINDOW_SECONDS or GOSSAMER_SEEN_WINDOW_COUNT, "
            "which say how long, or how many of the last pages, are remembered."
        )
    try:
        return SeenPolicy(
            kind,
            capacity=settings["GOSSAMER_SEEN_CAPACITY"],
            error=settings["GOSSAMER_SEEN_ERROR_RATE"],
            window=window,
            window_count=count,
        )
    except PolicyError as error:
        raise SettingError(f"The settings GOSSAMER_SEEN_… cannot be used: {error}") from None


def memory_name(crawl: str, spider: str, policy: SeenPolicy) -> str:
    """The name of a spider's memory: its own per crawl, spider and kind, whatever characters the spider's name has.

    A window may change and the memory stays; a bloom filter of another size is another memory.
    """
    kind = policy.kind.value
    if policy.kind is SeenKind.BLOOM:
        kind += f"-{policy.capacity}-{policy.error:g}"
    # No colon in the last two parts: no other crawl, spider and kind give the same name.
    name = f"{crawl}:{spider}:{kind}"
    if _PLAIN.match(spider) and len(name) <= _LONGEST_NAME:
        return name
    digest = blake2b(f"{crawl}\0{spider}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"spider::{digest}:{kind}"


def open_memory(spider: str, settings: Settings | None = None, kind: SeenKind | None = None) -> ValkeyMemory:
    """What a spider has seen, as the seen filter keeps it: to be counted, cleared, or added to. Close it after use."""
    settings = settings or load()
    policy = policy_of(settings, kind)
    return ValkeyMemory.open(memory_name(settings["GOSSAMER_CRAWL"], spider, policy), policy, settings)


class RequestsSeen:
    """The fingerprints in a `requests.seen`, one after the other, whichever Scrapy wrote it.

    Older versions (2.17) write a line of hexadecimal digits each; newer ones (2.19) two bytes of length and then the bytes; and
    a JOBDIR that outlived the upgrade has first the one and then the other. `cut` says that the last one was incomplete (Scrapy
    was killed as it wrote) and left out; `read` counts bytes.
    """

    def __init__(self, stream: BinaryIO, name: str = "requests.seen") -> None:
        self._stream, self._name = stream, name
        self.number = 0
        self.read = 0
        self.cut = False

    def __iter__(self) -> Iterator[bytes]:
        while first := self._stream.read(1):
            fingerprint = self._line(first) if first in _HEX else self._sized(first)
            if fingerprint is None:
                self.cut = True
                return
            self.number += 1
            yield fingerprint

    def _line(self, first: bytes) -> bytes | None:
        line = first + self._stream.readline(_LONGEST_LINE)
        self.read += len(line)
        digits = line.rstrip(b"\r\n")
        complete = line.endswith(b"\n") or len(digits) == _DIGITS
        if digits.strip(_HEX) or len(line) > _LONGEST_LINE or (complete and len(digits) % 2):
            raise self._unreadable()
        return bytes.fromhex(digits.decode()) if complete else None

    def _sized(self, first: bytes) -> bytes | None:
        head = first + self._stream.read(1)
        size = int.from_bytes(head)
        fingerprint = self._stream.read(size)
        self.read += len(head) + len(fingerprint)
        if len(head) == 2 and len(fingerprint) == size:
            return fingerprint
        if self.number == 0:
            raise self._unreadable()
        return None

    def _unreadable(self) -> SnapshotError:
        return SnapshotError(
            f"{self._name}: fingerprint {self.number + 1} cannot be read. Give the requests.seen of a Scrapy JOBDIR."
        )


class ImportCounts(NamedTuple):
    """How many fingerprints were `new` to the memory and how many `known`; `cut`: the last one was incomplete."""

    new: int
    known: int
    cut: bool


def import_requests_seen(
    source: RequestsSeen, memory: ValkeyMemory, custom: bool = False, heard: Callable[[int], None] = lambda _: None
) -> ImportCounts:
    """Remember all that a `requests.seen` holds. May be repeated: what is known already stays so. SnapshotError if the server was restarted or
    replaced meanwhile: it may have lost some.

    `custom`: the fingerprints are those of the project's own REQUEST_FINGERPRINTER_CLASS. `heard` is told how many bytes
    were read.
    """
    number = number_of_custom if custom else number_of
    new = done = 0
    batch: list[int] = []
    process = memory.server_process()
    for fingerprint in source:
        batch.append(number(fingerprint))
        if len(batch) == BATCH:
            new, done, batch = new + sum(memory.mark(batch)), done + BATCH, []
            heard(source.read)
    new, done = new + sum(memory.mark(batch)), done + len(batch)
    heard(source.read)
    if memory.server_process() != process:
        raise SnapshotError(
            "The server was restarted or replaced meanwhile, and may have lost fingerprints. Import again: what is known stays known."
        )
    return ImportCounts(new, done - new, source.cut)
