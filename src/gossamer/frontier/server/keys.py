"""Every key name, made here and nowhere else.

A partition's keys share the hash tag `{crawl/partition}` and so lie in one slot. The server-side functions get the
base key as their only declared key, and the suffixes as the table `K`, which `lua_table` writes.
"""

from __future__ import annotations

import re
import zlib

from gossamer.errors import PolicyError

CRAWL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\Z")

SUFFIXES: dict[str, str] = {
    "meta": ":m",  # hash: time, numbers, pause, policy stamp
    "counts": ":n",  # hash: what is queued, delayed, leased, done … per lane, group and worker
    "lane_names": ":ln",  # hash: full lane name -> lane id
    "lane_policy": ":lp",  # hash: lane id -> policy
    "group_policy": ":gp",  # hash: group -> policy
    "group_lanes": ":gl:",  # set per group: lane ids
    "replacing": ":lr",  # sorted set: id of a lane that is emptied for the next round, by when it opens again without one
    "dropped": ":gd",  # sorted set: births of groups that were dropped, and something for each lane, by time
    "group_held": ":gh",  # hash: group -> reason it is held for now
    "shut": ":sd:",  # hash per stage: group -> why a lane of it may not serve
    "shares": ":sh:",  # hash per group: passes of its lanes and of itself, virtual times of its tiers
    "virtual": ":vt",  # hash: stage -> virtual time of its groups
    "turns": ":ag:",  # sorted set per stage: groups with active lanes by pass
    "active": ":a:",  # sorted set per stage, group and tier: lane id by pass
    "tiers": ":at:",  # sorted set per stage and group: tiers with active lanes
    "priorities": ":p:",  # sorted set per lane: priorities with work
    "ring": ":r:",  # list per lane and priority: hosts taking turns
    "queue": ":q:",  # list per lane, priority and host: records
    "front": ":f:",  # list per lane, priority and host: records that come back
    "delayed": ":d",  # sorted set: request by due time
    "hosts": ":h",  # hash: host -> record
    "host_policy": ":hp",  # hash: "" -> default host policy
    "wake": ":w",  # sorted set: parked host by when to look again
    "parked": ":pk:",  # sorted set per host: stages of groups that wait for it, by turn
    "own": ":ho",  # hash: group|host -> requests in flight of a group that is stricter than the host, p: it waits for them
    "hungry": ":hu:",  # sorted set per pool (stage, group, lane): incarnations that got less than they asked for, by time
    "waiting": ":o:",  # sorted set per lane and host: priorities with work of a parked host
    "leases": ":l",  # hash: id -> lease
    "deadlines": ":ld",  # sorted set: id by deadline
    "marks": ":lm",  # hash: id -> 1 (sent) or 2 (response arrived), then the nonce it was said for
    "suspects": ":x",  # list: requests to be tried alone
    "alone": ":xa",  # hash: incarnation -> id of the request it tries alone
    "dead": ":dr",  # hash: id -> dead letter
    "dead_order": ":dz:",  # sorted set per group: dead letter by time
    "items": ":i:",  # stream per group
    "consumers": ":ic:",  # hash per group: consumer -> last kept id
    "counters": ":c:",  # hash per group: counters of users
    "workers": ":wk",  # hash: incarnation -> what it told of itself
    "worker_seen": ":ws",  # sorted set: incarnation by last call
    "worker_settled": ":wn",  # hash: incarnation -> leases that it has settled
    "draining": ":wd",  # set: incarnations asked to drain
    "answers": ":an:",  # string per caller: last answer
    "keyed": ":k:",  # sorted set per group: keys of unfiltered adds by time
    "outbox": ":ob:",  # hash per entry: parcels that settled pages owe elsewhere
    "outbox_due": ":od",  # sorted set: entry of the outbox by when another worker looks after it
    "seen": ":s",  # per memory: a hash and its buckets
    "seen_names": ":sn",  # hash: group|policy -> number of the memory
    "seen_policy": ":sp",  # hash: number -> policy
    "page_texts": ":tx",  # hash per memory, and per generation of one: fingerprint -> digests of the texts it was fetched and is queued for
    "newer": ":tn:",  # hash per group: fingerprint -> requests with a newer text than the one that is under way
    "purge": ":sx",  # list: memories to unlink
    "recorded": ":pr",  # hash: id of a lane that keeps page records -> number of its records
    "pages": ":pg:",  # hash per number: fingerprint -> page record
    "page_due": ":pd:",  # sorted set per number: fingerprint by when the page is due
    "feeds": ":pf",  # sorted set: lane id by when the first of its pages may be due
    "cycles": ":cy",  # list: the last cycles of planners
    "alerts": ":al",  # hash: what the leader of the planners keeps of alerts
    "rounds": ":rn",  # hash: group -> round
    "starts": ":st",  # hash: group -> start lease
    "ends": ":re",  # hash: group -> lease of what comes after a round
    "round_base": ":rb",  # hash: group -> what was counted when its round began
    "round_log": ":rl:",  # sorted set per group: round by its number
    "daily": ":dy:",  # hash per group: what it brought on each day
    "coverage": ":cg:",  # hash per group: round|field|what -> how many values it had
    "documents": ":dc",  # hash: kind|name -> newest version of a document, without its text
    "document": ":dv:",  # hash per document: version -> text, h and version -> what is known of it
    "sessions": ":cv",  # hash: group -> version of the cookies that its workers share
    "jars_began": ":cb",  # hash: group -> version with which the cookies of its round began
    "jar": ":cj:",  # sorted set per group: cookie by the version that it changed with
    "cookies": ":ck:",  # hash per group: cookie -> its value
    "versions": ":pv:",  # hash per group: page -> its version that was read last; "": the change counters of all partitions then
    "version_order": ":pz:",  # sorted set per group: page by when its version was noted
    "journal": ":j",  # list: what was queued while a snapshot runs
    "snapshots": ":js",  # sorted set: snapshot by when it is given up
    "restored": ":jr",  # hash: snapshot -> line up to which it was restored here; on partition 0 also whose state came with which one
}


def crawl_name(name: str) -> str:
    """A usable crawl name, or PolicyError."""
    if not CRAWL.match(name):
        raise PolicyError(
            f"crawl {name!r}: use letters, digits, and _ . : - (at most 100, starting with a letter or digit)."
        )
    return name


def crawl_prefix(crawl: str) -> str:
    """What every key of a crawl begins with; a partition's number and the closing brace follow."""
    return f"gossamer:{{{crawl}/"


def base(crawl: str, partition: int) -> str:
    return f"{crawl_prefix(crawl)}{partition}}}"


def meta(crawl: str) -> str:
    """What says that a crawl exists, of which schema and with how many partitions."""
    return base(crawl, 0) + SUFFIXES["meta"]


def partition_meta(crawl: str, partition: int) -> str:
    """What a partition knows of itself."""
    return base(crawl, partition) + SUFFIXES["meta"]


def default_host(crawl: str) -> str:
    """Where the crawl's default host policy is kept, under the field ""."""
    return base(crawl, 0) + SUFFIXES["host_policy"]


def restored(crawl: str) -> str:
    """What was restored into a crawl, and of which crawls."""
    return base(crawl, 0) + SUFFIXES["restored"]


def seen_base(name: str) -> str:
    """Of a memory that stands alone, without a crawl."""
    return f"gossamer:seen:{{{crawl_name(name)}}}"


def queue_pattern(crawl: str, partition: int, kind: str) -> str:
    """For SCAN over the queue (`queue`) or returned (`front`) lists of a partition."""
    return escape(base(crawl, partition) + SUFFIXES[kind]) + "*"


def queue_place(crawl: str, partition: int, key: str) -> str:
    """`q:lane:priority:host` or `f:…` of a list's key."""
    return key[len(base(crawl, partition)) + 1 :]


def items(crawl: str, partition: int, group: str) -> str:
    return base(crawl, partition) + SUFFIXES["items"] + group


def consumers(crawl: str, partition: int, group: str) -> str:
    """How far each consumer has stored a group's items."""
    return base(crawl, partition) + SUFFIXES["consumers"] + group


def task_keys(source: str) -> list[str]:
    """The producer's key and the book beside it, in the same slot; PolicyError if there is no such book."""
    if not source:
        raise PolicyError("tasks: a key has no name. Name the list, set or sorted set that tasks are pushed to.")
    # Colons come in pairs, so that no name ends as the keys beside its book do.
    book = f"gossamer:tasks:{{{_tag(source, 'tasks')}}}:{source.replace(':', '::')}"
    return [source, book, book + ":d", book + ":a"]


def task_reports(source: str, table: str) -> str:
    """How the lists begin, in the slot of a producer's key, to which the ends of a table's tasks are reported: one for each database."""
    tag = _tag(source, "tasks")
    return f"{source}:ended:{table}" if tag != source else f"{{{source}}}:ended:{table}"


def task_database(reports: str) -> str:
    """Beside the lists of reports: which database has the table that feeds the key."""
    return f"{reports}:database"


def list_keys(name: str) -> list[str]:
    """A list that pages push to and the book beside it, in the same slot; PolicyError if there is no such book."""
    return [name, f"gossamer:lists:{{{_tag(name, 'push')}}}:{name}"]


def _tag(name: str, purpose: str) -> str:
    """The hash tag that puts another key into the slot of this one."""
    opened = name.find("{")
    closed = name.find("}", opened + 1)
    if 0 <= opened < closed - 1:  # as a cluster finds hash tags: between the first { and the first } after it
        return name[opened + 1 : closed]
    if "}" in name:
        raise PolicyError(
            f"{purpose}: key {name!r} has braces that are no hash tag. Name it without braces, or with something in them."
        )
    return name


def partition_of(host: str, partitions: int) -> int:
    """Where a host's requests live; stable for the life of a crawl."""
    return zlib.crc32(host.encode("utf-8", "replace")) % partitions if partitions > 1 else 0


def home_of(group: str, partitions: int) -> int:
    """The partition that keeps a group's start."""
    return partition_of("group\0" + group, partitions)


def lua_table() -> str:
    fields = ", ".join(f"{name} = '{suffix}'" for name, suffix in SUFFIXES.items())
    return f"local K = {{{fields}}}\n"


def escape(text: str) -> str:
    """A text in which no character means anything to the server's patterns."""
    return re.sub(r"([\[\]*?\\^])", r"\\\1", text)
