"""Whether a server can carry a crawl: facts gathered, and what each means. Changes nothing that lasts and makes no crawl.

INFO, CONFIG GET, TIME and CLUSTER INFO are sent as they are: they ask the servers about themselves, which no verb of a crawl does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from gossamer.errors import FrontierError, GossamerError, PermissionDenied, UnknownCrawl
from gossamer.frontier.connection import Connection, acl, connect
from gossamer.frontier.inspection import partition_owner, seconds_ahead
from gossamer.frontier.server import keys, library
from gossamer.frontier.server.info import ServerInfo, size, version_numbers
from gossamer.frontier.valkey import check_data, found_crawl
from gossamer.settings import BY_NAME, SETTINGS, Settings

INTSET_ENTRIES = 512
CLOCK_SECONDS = 2.0
WEBHOOK = "GOSSAMER_ALERT_WEBHOOK"


class CheckState(Enum):
    """GOOD. DOUBTFUL: works, but somebody should know. BAD: a guarantee does not hold, or nothing works."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


GOOD, DOUBTFUL, BAD = CheckState


class Check(NamedTuple):
    """One thing looked at: what was found and, unless all is well, what to do."""

    name: str
    state: CheckState
    found: str
    remedy: str = ""


def examine(settings: Settings) -> Iterator[Check]:
    """Look at one thing after the other; what cannot be looked at because of an earlier failure is left out."""
    yield from settings_checks(settings)
    try:
        check_data(settings, settings["GOSSAMER_CRAWL"])
    except UnknownCrawl as error:
        # The embedded server would have nothing to tell, and looking makes nothing.
        said, _, remedy = str(error).partition(". ")
        yield Check("connection", DOUBTFUL, f"the embedded server does not run: {said}", remedy)
        return
    try:
        connection = connect(settings)
    except GossamerError as error:
        said, _, remedy = str(error).rstrip(".").rpartition(";" if ";" in str(error) else ".")
        yield Check("connection", BAD, said or remedy, remedy.strip() if said else "")
        return
    with connection:
        yield Check("connection", GOOD, connection.address.safe)
        looks: Sequence[Callable[[Connection, Settings], Iterator[Check]]] = (
            server_checks,
            cluster_checks,
            persistence_checks,
            intset_check,
            clock_check,
            time_check,
            function_checks,
            right_checks,
            crawl_checks,
        )
        for look in looks:
            try:
                yield from look(connection, settings)
            except PermissionDenied as error:
                yield Check(
                    look.__name__.split("_")[0],
                    DOUBTFUL,
                    f"cannot be looked at: {error}",
                    "grant the right, or look with another user",
                )
            except FrontierError as error:
                yield Check(look.__name__.split("_")[0], BAD, str(error))  # fmt: skip


def settings_checks(settings: Settings) -> Iterator[Check]:
    if settings[WEBHOOK]:
        yield Check(
            "alerts", GOOD, f"alerts go to {BY_NAME[WEBHOOK].shown(settings[WEBHOOK])}; `gossamer alert test` tries it"
        )
    lease, send, call = (settings[f"GOSSAMER_{name}_SECONDS"] for name in ("LEASE", "SEND", "CALL"))
    if send >= lease:
        yield Check("settings", BAD, f"GOSSAMER_SEND_SECONDS ({send:g}) is not below GOSSAMER_LEASE_SECONDS ({lease:g})",
                    "a lease must outlive its send window; lower the one or raise the other")  # fmt: skip
    elif call >= lease:
        yield Check("settings", DOUBTFUL, f"GOSSAMER_CALL_SECONDS ({call:g}) is not below GOSSAMER_LEASE_SECONDS ({lease:g})",
                    "a call that hangs may cost leases; lower the one or raise the other")  # fmt: skip
    else:
        changed = [s.name for s in SETTINGS if settings.source(s.name) != "default"]
        yield Check("settings", GOOD, f"given: {', '.join(changed)}" if changed else "all at their defaults")


def server_checks(connection: Connection, _: Settings) -> Iterator[Check]:
    for info in connection.server_infos():
        yield Check(f"server {info.node}", GOOD, f"{info.kind} {info.version}, {info.mode}")
        if info.role != "master":
            yield Check(
                "role", BAD, f"{info.node} is a replica", "point GOSSAMER_URL at the primary, or use redis+sentinel://"
            )
        else:
            yield Check("role", GOOD, "primary")
        if info.loading:
            yield Check("loading", DOUBTFUL, f"{info.node} is loading its data", "wait; calls are repeated meanwhile")
        yield from memory_checks(info, embedded=connection.address.kind == "embedded")


def memory_checks(info: ServerInfo, *, embedded: bool = False) -> Iterator[Check]:
    policy = info.memory_policy or "unknown"
    if policy.startswith("allkeys"):
        yield Check("eviction", BAD, f"maxmemory-policy {policy}: the server drops parts of the crawl when memory is short",
                    "CONFIG SET maxmemory-policy noeviction, and in its configuration file")  # fmt: skip
    elif policy.startswith("volatile"):
        yield Check("eviction", DOUBTFUL, f"maxmemory-policy {policy}: answers kept for repeated calls may be dropped",
                    "CONFIG SET maxmemory-policy noeviction, and in its configuration file")  # fmt: skip
    else:
        yield Check("eviction", GOOD if policy == "noeviction" else DOUBTFUL, f"maxmemory-policy {policy}",
                    "" if policy == "noeviction" else "see to it that it is noeviction")  # fmt: skip
    used = size(info.memory_used)
    if embedded and not info.memory_max:
        yield Check(
            "memory", GOOD, f"{used} used; the embedded server may take what the machine has (GOSSAMER_SERVER_MEMORY)"
        )
        return
    if not info.memory_max:
        yield Check("memory", DOUBTFUL, f"{used} used, no maxmemory: the system may kill the server when memory is out",
                    "set maxmemory to what the machine can spare; near it producers are refused and nothing is lost")  # fmt: skip
        return
    share = info.memory_used / info.memory_max
    said = f"{used} of {size(info.memory_max)} used ({share:.0%})"
    if share >= 0.95:
        yield Check(
            "memory",
            BAD,
            f"{said}: producers are refused, few requests are leased",
            f"{info.more_memory}, or let workers crawl down what is queued",
        )
    elif share >= 0.8:
        yield Check(
            "memory",
            DOUBTFUL,
            said,
            f"{info.more_memory} before 95 % are used: from there on leasing slows down and producers are refused",
        )
    else:
        yield Check("memory", GOOD, said)


def cluster_checks(connection: Connection, settings: Settings) -> Iterator[Check]:
    infos = connection.server_infos()
    if not infos[0].cluster_size:
        return
    states = {_field(answer, "cluster_state") for answer in connection.execute_everywhere("CLUSTER", "INFO").values()}
    if states != {"ok"}:
        yield Check("cluster", BAD, "part of its slots is not served", "check its nodes: CLUSTER INFO, CLUSTER SLOTS")
    else:
        yield Check("cluster", GOOD, f"{len(infos)} primaries, every slot served")
    crawl = settings["GOSSAMER_CRAWL"]
    try:
        _, partitions = found_crawl(connection, crawl)
    except UnknownCrawl:
        partitions = settings["GOSSAMER_PARTITIONS"]
    homes = {partition_owner(connection, crawl, p) for p in range(partitions)}
    said = f"{partitions} partitions of crawl {crawl} on {len(homes)} of {len(infos)} primaries"
    if len(homes) < len(infos):
        yield Check(
            "partitions", DOUBTFUL, said, f"a new crawl with GOSSAMER_PARTITIONS={4 * len(infos)} uses them all"
        )
    else:
        yield Check("partitions", GOOD, said)
    if all(info.kind == "valkey" and version_numbers(info.version) >= (9, 0) for info in infos):
        yield Check("resharding", GOOD, "slots may move under a running crawl (CLUSTER MIGRATESLOTS moves them whole)")
    else:
        yield Check("resharding", DOUBTFUL, "this server moves slots key by key: calls to a partition wait while its slot moves",
                    "pause the crawl before resharding and move its slots one after the other, or use Valkey 9 or newer")  # fmt: skip


def persistence_checks(connection: Connection, _: Settings) -> Iterator[Check]:
    texts = connection.execute_everywhere("INFO", "persistence")
    for info in connection.server_infos():
        text = texts.get(info.node, b"")
        if _field(text, "aof_last_write_status") == "err" or _field(text, "rdb_last_bgsave_status") == "err":
            yield Check(
                "persistence", BAD, f"{info.node} cannot write to its disk", "free space there, and read its log"
            )
        elif not info.aof:
            yield Check("persistence", BAD, f"{info.node} keeps no append-only log: a restart loses the crawl",
                        "CONFIG SET appendonly yes, and in its configuration file")  # fmt: skip
        elif info.fsync == "no":
            yield Check("persistence", DOUBTFUL, "append-only log, written when the system likes",
                        "CONFIG SET appendfsync everysec (or always)")  # fmt: skip
        elif info.fsync is None:
            yield Check("persistence", DOUBTFUL, "append-only log; how often it is written cannot be read (CONFIG GET)",
                        "see to it that appendfsync is everysec or always")  # fmt: skip
        else:
            promise = (
                "every acknowledged call is kept"
                if info.fsync == "always"
                else "a power cut, or a killed server while its disk is slow, takes back a second or two"
            )
            yield Check("persistence", GOOD, f"append-only log, fsync {info.fsync}: {promise}")


def intset_check(connection: Connection, _: Settings) -> Iterator[Check]:
    name = "set-max-intset-entries"
    try:
        answers = connection.execute_everywhere("CONFIG", "GET", name)
    except PermissionDenied:
        yield Check(
            "intset limit",
            DOUBTFUL,
            f"{name} cannot be read (CONFIG GET)",
            f"see to it that it is {INTSET_ENTRIES} or more",
        )
        return
    smallest = min((int(answer[1]) for answer in answers.values() if len(answer) == 2), default=0)
    if smallest < INTSET_ENTRIES:
        yield Check("intset limit", DOUBTFUL, f"{name} is {smallest}: exact memories take several times their 8 bytes per URL",
                    f"CONFIG SET {name} {INTSET_ENTRIES}, and in its configuration file")  # fmt: skip
    else:
        yield Check("intset limit", GOOD, f"{name} {smallest}")


def clock_check(connection: Connection, _: Settings) -> Iterator[Check]:
    before = time.time()
    answers = connection.execute_everywhere("TIME")
    here = (before + time.time()) / 2
    off = max((int(t[0]) + int(t[1]) / 1e6 - here for t in answers.values()), key=abs)
    if abs(off) > CLOCK_SECONDS:
        yield Check("clock", DOUBTFUL, f"the server's clock is {abs(off):,.1f} s {'ahead' if off > 0 else 'behind'}",
                    "only its time counts for the crawl; set it (NTP) before the crawl begins, not while it runs")  # fmt: skip
    else:
        yield Check("clock", GOOD, f"{abs(off) * 1000:.0f} ms apart")


def time_check(connection: Connection, settings: Settings) -> Iterator[Check]:
    """Whether the crawl's time, which never goes back, is that of its servers."""
    crawl = keys.crawl_name(settings["GOSSAMER_CRAWL"])
    try:
        _, partitions = found_crawl(connection, crawl)
    except UnknownCrawl:
        return
    ahead = max(seconds_ahead(connection, crawl, p) for p in range(partitions))
    if ahead > CLOCK_SECONDS:
        yield Check("time", BAD, f"the crawl's time is {ahead:,.1f} s ahead of its server's clock, which was ahead and was set back",
                    "time never goes back in a crawl: keep the clock right (NTP, slewed, never set back by hand) and see docs/how-to/check-a-server.md")  # fmt: skip
    else:
        yield Check("time", GOOD, "the crawl's time is that of its servers")


def function_checks(connection: Connection, _: Settings) -> Iterator[Check]:
    ours = library.revision_of(library.name_of(library.library()))
    assert ours is not None
    for node, found in connection.function_list(library.PATTERN).items():
        theirs = max((r for r in (library.revision_of(each.name) for each in found) if r), default=None)
        if theirs is None:
            yield Check("functions", GOOD, f"not loaded at {node}; the first worker loads them")
        elif theirs == ours:
            yield Check("functions", GOOD, f"revision {ours.number} at {node}")
        elif theirs > ours:
            what = "newer than" if theirs.number > ours.number else "another text than"
            yield Check(
                "functions",
                GOOD,
                f"revision {theirs.number} at {node}, {what} this Gossamer's {ours.number}; it is kept",
            )
        else:
            yield Check(
                "functions", GOOD, f"revision {theirs.number} at {node}; the next worker loads ours ({ours.number})"
            )


def right_checks(connection: Connection, settings: Settings) -> Iterator[Check]:
    needed, loading, optional = acl.missing(connection, settings["GOSSAMER_CRAWL"])
    found = connection.function_list(library.PATTERN)
    unloaded = loading and any(not any(library.revision_of(each.name) for each in here) for here in found.values())
    if needed or unloaded:
        bad = [*needed, *(loading if unloaded else [])]
        yield Check("rights", BAD, f"this user may not: {' '.join(bad)}", f"ACL SETUSER name {acl.grant(bad)}")
    elif loading:
        yield Check("rights", DOUBTFUL, f"workers can work; this user may not load newer functions: {' '.join(loading)}",
                    f"call Gossamer once as a user who may after every upgrade, or: ACL SETUSER name {acl.grant(loading)}")  # fmt: skip
    elif optional:
        yield Check("rights", DOUBTFUL, f"workers can work; this user may not: {' '.join(optional)}",
                    f"for doctor, export, and to know at once that a worker is gone: ACL SETUSER name {acl.grant(optional)}")  # fmt: skip
    else:
        yield Check("rights", GOOD, "this user has all rights that are needed")


def crawl_checks(connection: Connection, settings: Settings) -> Iterator[Check]:
    crawl, wanted = settings["GOSSAMER_CRAWL"], settings["GOSSAMER_PARTITIONS"]
    try:
        number, partitions = found_crawl(connection, keys.crawl_name(crawl))
    except UnknownCrawl:
        yield Check("crawl", GOOD, f"{crawl} does not exist yet; the first worker makes it")
        return
    if number > library.SCHEMA:
        yield Check(
            "crawl", BAD, f"{crawl} has schema {number}, this Gossamer writes {library.SCHEMA}", "upgrade Gossamer here"
        )
    elif number < library.SCHEMA:
        yield Check("crawl", BAD, f"{crawl} has schema {number}, this Gossamer writes {library.SCHEMA}",
                    "export it with the older version and import it here")  # fmt: skip
    elif wanted != partitions and settings.source("GOSSAMER_PARTITIONS") != "default":
        yield Check("crawl", DOUBTFUL, f"{crawl} has {partitions} partitions, GOSSAMER_PARTITIONS says {wanted}",
                    "a crawl keeps its number; export it and import it into a new one to change that")  # fmt: skip
    else:
        yield Check("crawl", GOOD, f"{crawl}, schema {number}, {partitions} partition{'s' if partitions > 1 else ''}")


def _field(text: Any, name: str) -> str:
    for line in bytes(text).decode(errors="replace").splitlines():
        if line.startswith(name + ":"):
            return line.partition(":")[2].strip()
    return ""
