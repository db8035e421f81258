"""One of several processes that write to one database: `python -m tests.store.database.writing_process URL NUMBER GATE`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.store.tables import FORUM, PRICES, post, reply

from gossamer.store import Row, Store, Writer

PAGES = 160
"""Pages of each process; each has a row, two children and a price, and every tenth is shared by all."""
LAST = PAGES * 3 // 4
"""From this page on they wait for the second gate."""


def url_of(worker: int, page: int) -> str:
    return f"http://x/shared/{page}" if page % 10 == 0 else f"http://x/{worker}/{page}"


async def opened(gate: Path) -> None:
    while not gate.exists():
        await asyncio.sleep(0.02)


async def load(url: str, worker: int, gate: Path) -> None:
    """Write pages, sixteen at a time, each of them twice, as when a lease was lost; print each that was acknowledged. It begins when
    the file `gate` is there; the last pages wait for another, called `gate.last`, so that it is never through too soon."""
    writer = Writer(Store.open(url))
    await writer.prepare([*FORUM, PRICES])
    print("ready", flush=True)
    await opened(gate)
    room = asyncio.Semaphore(16)

    async def page(number: int) -> None:
        async with room:
            if number >= LAST:
                await opened(gate.with_suffix(".last"))
            where = url_of(worker, number)
            rows = [post(where, where, [reply("0"), reply("1")]), Row("prices", {"url": where, "price": number})]
            await writer.write(rows)
            print(f"done {number}", flush=True)
            await writer.write(rows)

    await asyncio.gather(*(page(number) for number in range(PAGES)))
    await writer.close()
    print("end", flush=True)


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
