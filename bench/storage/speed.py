"""How fast: the same four pieces of work on both sides, by turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

from bench.storage.clients import Clients, Piece, perform, prepare
from bench.storage.measure import Cost, Progress, cost, middle
from bench.storage.peers import PEERS, Peer
from bench.storage.workload import Site

from gossamer.testing.servers import Server

WORK = ("new", "duplicates", "page", "lease")
THEIRS = "scrapy-redis"
Run = Callable[[Piece], Cost]


class Contender(NamedTuple):
    """A side, the requests per exchange it asks for, and how many requests it is given in a round: enough for the
    clock, so more for the faster one."""

    name: str
    batch: int
    requests: int

    @property
    def label(self) -> str:
        return self.name if self.name == THEIRS else f"{self.name}, {self.batch} per exchange"


class Row(NamedTuple):
    """One figure of the table. Compared with scrapy-redis in the same round: `faster` on
    the clock, `lighter` in processor time of client and server together, `server_share` in that of the server."""

    clients: int
    site: str
    work: str
    contender: str
    rate: float
    client_us: float
    server_us: float
    faster: float
    lighter: float
    server_share: float


def contenders(theirs: int, ours: int) -> list[Contender]:
    theirs_name, plain, telling, fingerprint, requests = PEERS
    return [
        Contender(theirs_name, 1, theirs),
        Contender(plain, 64, ours),
        Contender(plain, 16, ours),
        Contender(telling, 64, ours),
        Contender(fingerprint, 64, ours // 2),
        Contender(requests, 64, ours // 2),
    ]


def one_round(contender: Contender, run: Run) -> dict[str, Cost]:
    """All the work once, on an empty server: add, add again, crawl pages, lease what is left."""
    number, pages = contender.requests, contender.requests // 12
    costs = {}
    for what in WORK:
        amount = {"page": pages, "lease": number // 2}.get(what, number)
        costs[what] = run(Piece(what, amount, known=number))
    return costs


def compare(
    server: Server, entrants: list[Contender], site: Site, rounds: int, clients: Clients | None, progress: Progress
) -> list[dict[str, dict[str, Cost]]]:
    """Rounds of all contenders by turns: cost by label and work."""
    results = []
    for number in range(rounds):
        by_label = {}
        for contender in entrants:
            progress.step(f"speed, {site.hosts:,} hosts, round {number + 1} of {rounds}: {contender.label}")
            server.call("FLUSHALL")
            if clients:
                clients.connect(contender.name, server.url, contender.batch)
                by_label[contender.label] = one_round(contender, partial(clients.cost, server, site))
                clients.disconnect()
            else:
                peer: Peer = PEERS[contender.name](server.url, contender.batch)
                by_label[contender.label] = one_round(contender, partial(_alone, server, site, peer))
                peer.close()
        results.append(by_label)
    return results


def _alone(server: Server, site: Site, peer: Peer, piece: Piece) -> Cost:
    prepared = prepare(peer, site, piece)
    return cost(server, piece.number, partial(perform, peer, piece, prepared))


def rows(results: list[dict[str, dict[str, Cost]]], clients: int, site: str) -> list[Row]:
    """Medians over the rounds; ratios are medians of the rounds' own ratios."""
    table = []
    for work in WORK:
        for label in results[0]:
            mid = middle([result[label][work] for result in results])
            pairs = [(result[THEIRS][work], result[label][work]) for result in results]
            table.append(
                Row(
                    clients, site, work, label, mid.rate, mid.client_us, mid.server_us,
                    median(ours.rate / theirs.rate for theirs, ours in pairs),
                    median(theirs.cpu_us / ours.cpu_us for theirs, ours in pairs),
                    median(ours.server_us / theirs.server_us for theirs, ours in pairs),
                )
            )  # fmt: skip
    return table
