"""What each finding means on gossamer.scrapy_redis, and what to do about it. As data: the reference page is made of it."""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.migrate.scrapy_redis.finding import FindingRule, FindingVerdict

_MOVES: Mapping[str, str] = {
    "import": "--write puts gossamer.scrapy_redis in its place.",
    "path": "--write puts gossamer.scrapy_redis in its place.",
    "setting": "It means the same.",
    "make-request": "It is called for every seed, which is leased until its requests are stored.",
    "server-use": "It is the same client, of the server that REDIS_URL or the like names.",
    "setup-redis": "It is called as before.",
    "fetch-data": "It is called as before.",
    "request-fingerprint": "The frontier identifies requests by it too.",
    "dupefilter": "Requests are identified as before.",
    "empty-scheduler": "It adds nothing, and is on the frontier as scrapy-redis's own is.",
    "unused-scheduler": "SCHEDULER names another class: it is not used.",
    "key-seeds": "Seeds are read from this key as before.",
    "key-items": "RedisPipeline fills this list as before, with each page's items once.",
    "key-stats": "RedisStatsCollector fills this hash as before.",
    "pickle": "The project's own code writes and reads it. Requests on the frontier are not pickles.",
    "own-queue": "It is used where SCHEDULER_QUEUE_CLASS names it: see there.",
    "own-stats": "It works on the same hash as before.",
    "item-in-meta": "It is stored by its class and its values, without pickle, as long as its class is of the project's "
    "own packages; GOSSAMER_OBJECT_MODULES names others.",
    "no-filter": "Nothing is filtered, as before.",
    "no-server": "The server is localhost:6379, as before.",
}

_DIFFERS: Mapping[str, str] = {
    "scheduler-parts": "On the frontier, both can be read, counted and cleared, and queue.push queues; queue.pop is refused, queue.clear "
    "while pages are in progress too, and df.request_seen marks nothing.",
    "idle-signal": "The signal comes when the whole group has nothing to do, and every five seconds while it stays so; "
    "not when this worker alone has nothing.",
    "spider-idle": "It is called when the whole group has nothing to do, and every five seconds while it stays so; not "
    "when this worker alone has nothing.",
    "next-requests": "It is called at the start, when the spider is idle, and when this worker has nothing to do while the"
    " key has seeds; it may close the spider. Its seeds are popped and not leased: what a worker took and"
    " had not queued when it was killed is lost, as before. Where make_request_from_data is enough, "
    "override that.",
    "start": "It is run once in a round for the whole fleet, not once by every worker.",
    "start-requests": "It is run once in a round for the whole fleet, not once by every worker.",
    "loader-in-meta": "It is stored with its item and values but without its page: set loader.selector = response.selector "
    "before add_css and the like.",
    "key-seeds-read": "Workers take seeds as soon as they can, not only when they are idle: the key is empty sooner. "
    "Whether seeds are still in progress is shown by `gossamer status`.",
    "picklecompat": "It reads and writes plain data, and in queues objects of the project that are data; nothing that a pickle names is called.",
    "own-pipeline": "Items go to the list at once, not with their page: a page that is done again brings them again.",
    "feeds": "On the frontier, all workers together write a local file from the item stream: every item of the round once. -O starts it again with "
    "each round. Before, each worker wrote by itself.",
    "flush-on-start": "It drops the whole group with its dead letters and counters, and only if no other worker is there.",
}

_DECIDE: Mapping[str, str] = {
    "feeds-apart": "Workers on the frontier write local files together, and refuse to start with other storages, batches and postprocessing. "
    'Write a local file; or set GOSSAMER_FEEDS = "worker", by which each worker writes what it scrapes itself, and put %(worker)s into the name.',
    "scheduler-subclass": "It works as it did, on a queue as scrapy-redis has it: what a worker holds when it dies is lost. To "
    'be on the frontier, set SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler", and do elsewhere '
    "what it adds.",
    "request-seen": "It works as it did, on a queue as scrapy-redis has it: what a worker holds when it dies is lost. To "
    "be on the frontier, override request_fingerprint and log only, or leave DUPEFILTER_CLASS out and "
    "choose by GOSSAMER_SEEN_KIND.",
    "outside-dupefilter-class": "If the class decides itself what was seen, the project runs on a queue as scrapy-redis has it. To be"
    " on the frontier, leave DUPEFILTER_CLASS out and choose by GOSSAMER_SEEN_KIND.",
    "outside-scheduler": "This scheduler is neither scrapy-redis's nor made of it in this project: it takes no part in the "
    "crawl.",
    "own-queue-class": "It works as it did, on its own keys: what a worker holds when it dies is lost. To be on the "
    "frontier, take the setting out, and say the order by priorities, or by a lane for each kind of "
    "request.",
    "queue-key": "It works as it did, on a queue as scrapy-redis has it: what a worker holds when it dies is lost. To "
    "be on the frontier, take it out, name the crawl by GOSSAMER_CRAWL or GOSSAMER_GROUP, and give the "
    "key to `gossamer import scrapy-redis` after --queue-key.",
    "dupefilter-key": "It works as it did, on a queue as scrapy-redis has it: what a worker holds when it dies is lost. To "
    "be on the frontier, take it out, name the crawl by GOSSAMER_CRAWL or GOSSAMER_GROUP, and give the "
    "key to `gossamer import scrapy-redis` after --dupefilter-key.",
    "scheduler-from-settings": "Made from settings alone, it works on the keys of scrapy-redis, where a project on the frontier has "
    "nothing: ask `gossamer status --json`, and clear with `gossamer group drop`.",
    "unstorable-in-meta": "It cannot be stored: the request is refused when it is yielded, with this path, and its page becomes"
    " a dead letter. Send plain data, or the parts that the callback needs.",
    "object-in-meta": "Its class is made of a class of another package, or says itself how its objects are made or copied: then it is "
    "refused when it is yielded. Make it a dataclass or another class of its own, or send plain data.",
    "package-cluster": 'Take it out: set SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler" and GOSSAMER_URL = '
    '"redis+cluster://host:port", without REDIS_URL and the like.',
    "package-sentinel": 'Take it out: set SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler" and GOSSAMER_URL = '
    '"redis+sentinel://host:port/service", without REDIS_URL and the like.',
    "queue-class": "Take the setting out to be on the frontier, where nothing is lost when a worker dies. Keep it only "
    "while workers of scrapy-redis share the queue.",
    "lifo-queue-class": "Take the setting out to be on the frontier, and set SCHEDULER_MEMORY_QUEUE = "
    '"scrapy.squeues.LifoMemoryQueue" to keep last in, first out.',
    "outside-stats-class": "This collector is not scrapy-redis's: it counts for one worker alone.",
    "timestamp-key": "Only Scrapy's own scheduler uses this key. Take it out.",
    "serializer": "The frontier stores requests in its own form, and a warning says that this is not used. Take it out unless the queue is shared.",
    "dynamic-settings": "Only the run knows these settings. Look at what makes them for names of the reference.",
    "dynamic-value": "Only the run knows this value. If it can be a path of scrapy_redis, change it where it comes from.",
    "hidden-path": "Replace scrapy_redis by gossamer.scrapy_redis by hand.",
    "rebound": "Replace scrapy_redis by gossamer.scrapy_redis by hand, where the import is meant.",
    "bare-name": "Replace it by gossamer.scrapy_redis by hand, if it means the package.",
    "copied-package": "Compare it with scrapy-redis 0.9.1 for changes of your own, then delete it and import "
    "gossamer.scrapy_redis.",
    "text-path": "Replace scrapy_redis by gossamer.scrapy_redis by hand: only Python files are written.",
    "requirement": "Add gossamer. Take this out when no worker of scrapy-redis is left.",
    "package-bloom": 'Take it out: SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler" with GOSSAMER_SEEN_KIND = '
    '"bloom", GOSSAMER_SEEN_CAPACITY and GOSSAMER_SEEN_ERROR_RATE. Its filter cannot be moved: pages it '
    "knew are fetched again.",
    "package-other": "It builds on scrapy-redis and brings that along. Find out what it adds, and take it out.",
    "key-queue-read": "On the frontier the key stays empty: `gossamer status --json`, or `gossamer lane list`, counts what is queued. On a queue as "
    "scrapy-redis has it, it works as it did.",
    "key-queue-clear": "On the frontier, `gossamer lane drop GROUP.main` drops what is queued, `gossamer group drop GROUP` all. On a queue as "
    "scrapy-redis has it, it works as it did.",
    "key-queue-write": "Workers on the frontier do not read this key: push a seed into the spider's key, or `gossamer task push`. On a queue as "
    "scrapy-redis has it, it works as it did.",
    "key-seen-read": "On the frontier, `gossamer seen stats` counts what was seen. On a queue as scrapy-redis has it, it works as it did.",
    "key-seen-clear": "On the frontier, `gossamer seen clear GROUP` forgets what was seen; `gossamer round new GROUP --forget` also runs the start "
    "again. On a queue as scrapy-redis has it, it works as it did.",
    "key-seen-write": "On the frontier, `gossamer seen forget GROUP.main URL` makes one page new again. On a queue as scrapy-redis has it, it works as "
    "it did.",
    "flush-server": "It would take the frontier along with everything else: `gossamer group drop GROUP` drops one "
    "spider's.",
    "python-2": "Port it to Python 3 first: neither Scrapy nor Gossamer runs on Python 2.",
    "unreadable": "Correct it, then scan again: nothing in this file was looked at or will be written.",
    "unwritten": "Replace scrapy_redis by gossamer.scrapy_redis by hand, or when the file can be parsed.",
}

RULES: Mapping[str, FindingRule] = {
    code: FindingRule(verdict, remedy)
    for verdict, rules in (
        (FindingVerdict.MOVES, _MOVES),
        (FindingVerdict.DIFFERS, _DIFFERS),
        (FindingVerdict.DECIDE, _DECIDE),
    )
    for code, remedy in rules.items()
}
"""By code. Every code that the scanner can give stands here."""
