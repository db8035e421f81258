"""What each finding means on gossamer.scrapy_redis, and what to do about it. As data: the reference page is made of it."""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.migrate.scrapy_redis.finding import Rule, Verdict

_MOVES: Mapping[str, str] = {
    "import": "--write puts gossamer.scrapy_redis in its place.",
    "path": "--write puts gossamer.scrapy_redis in its place.",
    "setting": "It means the same.",
    "make-request": "It is called for every seed, which is leased until its requests are stored.",
    "server-use": "It is the same client, of the server that REDIS_URL or the like names.",
    "setup-redis": "It is called as before.",
    "fetch-data": "It is called as before.",
    "start": "It is called as before, once for the whole fleet and not once for every worker.",
    "start-requests": "It is called as before, once for the whole fleet and not once for every worker.",
    "request-fingerprint": "Requests are told apart by it on the frontier too.",
    "dupefilter": "Requests are told apart as before.",
    "scheduler-name": "A scheduler by another name.",
    "key-seeds": "Seeds are read from this key as before.",
    "key-items": "RedisPipeline fills this list as before, with each page's items once.",
    "key-stats": "RedisStatsCollector fills this hash as before.",
    "pickle": "The project's own code writes and reads it. What requests and queues hold is no pickle any more.",
    "own-queue": "It is used where SCHEDULER_QUEUE_CLASS names it: see there.",
    "own-stats": "It works on the same hash as before.",
}

_DIFFERS: Mapping[str, str] = {
    "idle-signal": "The signal comes when the whole group has nothing left, not whenever this worker has nothing.",
    "spider-idle": "It is called when the whole group has nothing left, not whenever this worker has nothing.",
    "next-requests": "Seeds are popped by this method and not leased: what a worker took and had not queued when it was killed is "
    "lost, as before. Override make_request_from_data instead where that is enough.",
    "key-seeds-read": "Workers take seeds as soon as they can, not only when they are idle: the key is empty sooner. Whether seeds "
    "are still in progress is shown by `gossamer status`.",
    "picklecompat": "It reads and writes plain data only.",
    "own-pipeline": "Items go to the list at once, not with their page: a page that is done again brings them again.",
    "flush-on-start": "It drops the whole group with its dead letters and counters, and only if no other worker is there.",
    "item-in-meta": "It is stored by its class and its fields, not as a pickle.",
}

_DECIDE: Mapping[str, str] = {
    "queue-class": "Take the setting out to be on the frontier, where nothing is lost when a worker dies. Keep it only while "
    "workers of scrapy-redis share the queue.",
    "lifo-queue-class": "Take the setting out to be on the frontier, and set "
    'SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.LifoMemoryQueue" to keep last in, first out.',
    "own-queue-class": "It is used as it is, but what a worker holds when it dies is lost. Take the setting out to be on the "
    "frontier, and say the order by priorities, or by a lane for each kind of request.",
    "scheduler-subclass": "It is used as it is, on scrapy-redis's queue, where what a worker holds when it dies is lost. To be on the "
    "frontier, set SCHEDULER to gossamer.scrapy_redis.scheduler.Scheduler and do what it adds in an extension.",
    "request-seen": "It is asked as ever, on scrapy-redis's queue, where what a worker holds when it dies is lost. If it only tells "
    'requests apart, override request_fingerprint instead; a bloom filter of your own is GOSSAMER_SEEN_KIND = "bloom".',
    "scheduler-parts": "Both can be read and cleared, but nothing can be popped: see `scrapy-redis` in the reference. From outside, ask "
    "`gossamer status --json`.",
    "scheduler-from-settings": "Made from settings alone it works on scrapy-redis's keys, not on the frontier: ask "
    "`gossamer status --json`, and clear with `gossamer group drop`.",
    "outside-dupefilter-class": "It is asked as ever, on scrapy-redis's queue, where what a worker holds when it dies is lost. To be on the "
    "frontier, take the setting out, and say what the class does by GOSSAMER_SEEN_KIND or a fingerprinter.",
    "outside-scheduler": "This scheduler is neither scrapy-redis's nor derived from it in this project: decide which one is meant.",
    "outside-stats-class": "This collector is not scrapy-redis's: it counts for one worker alone.",
    "no-filter": 'DUPEFILTER_CLASS does not filter: GOSSAMER_SEEN_SCOPE = "never" says the same in Gossamer\'s words.',
    "no-server": 'scrapy-redis means localhost:6379. Say so: REDIS_URL = "redis://localhost:6379".',
    "queue-key": "With it, requests stay in scrapy-redis's queue, under this key. Take it out to be on the frontier, where GOSSAMER_CRAWL keeps "
    "crawls apart; `gossamer import scrapy-redis --queue-key` finds what is queued under it.",
    "dupefilter-key": "With it, requests stay in scrapy-redis's queue, and what was seen under this key. Take it out to be on the frontier, where "
    "GOSSAMER_CRAWL keeps crawls apart; `gossamer import scrapy-redis --dupefilter-key` finds what was seen under it.",
    "timestamp-key": "Only Scrapy's own scheduler uses this key. Take it out.",
    "serializer": "The frontier stores plain data in its own form. Take it out unless the queue is shared.",
    "unstorable-in-meta": "It cannot be stored, and the request becomes a dead letter. Send plain data, or the parts of it that "
    "the callback needs.",
    "object-in-meta": "It can be stored only if it is an item, a dataclass, an attrs class or a pydantic model. Make it one, or "
    "send plain data.",
    "dynamic-settings": "Only the run knows these settings. Look at what makes them for names of the reference.",
    "dynamic-value": "Only the run knows this value. If it can be a path of scrapy_redis, change it where it comes from.",
    "hidden-path": "Replace scrapy_redis by gossamer.scrapy_redis by hand.",
    "rebound": "Replace scrapy_redis by gossamer.scrapy_redis by hand, where the import is meant.",
    "bare-name": "Replace it by gossamer.scrapy_redis by hand, if it means the package.",
    "copied-package": "Compare it with scrapy-redis 0.9.1 for changes of your own, then delete it and import gossamer.scrapy_redis.",
    "text-path": "Replace scrapy_redis by gossamer.scrapy_redis by hand: only Python files are written.",
    "requirement": "Add gossamer. Take this out when no worker of scrapy-redis is left.",
    "package-bloom": 'Take it out: SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler" with GOSSAMER_SEEN_KIND = "bloom", '
    "GOSSAMER_SEEN_CAPACITY and GOSSAMER_SEEN_ERROR_RATE. Its filter cannot be moved: pages it knew are fetched again.",
    "package-cluster": "Take it out: REDIS_PARAMS with a redis_cls of redis.cluster.RedisCluster, or "
    'GOSSAMER_URL = "redis+cluster://host:port".',
    "package-sentinel": 'Take it out: GOSSAMER_URL = "redis+sentinel://host:port/service".',
    "package-other": "It builds on scrapy-redis and brings that along. Find out what it adds, and take it out.",
    "key-queue-read": "Requests are on the frontier: `gossamer status --json`, or `gossamer lane list`, counts them.",
    "key-queue-clear": "Requests are on the frontier: `gossamer lane drop GROUP.main` drops them, `gossamer group drop GROUP` all.",
    "key-queue-write": "Requests are on the frontier: push a seed into the spider's key, or `gossamer task push`.",
    "key-seen-read": "What was seen is on the frontier: `gossamer seen stats` counts it.",
    "key-seen-clear": "What was seen is on the frontier: `gossamer seen clear GROUP` forgets it; `gossamer round new GROUP --forget` "
    "also runs the start again.",
    "key-seen-write": "What was seen is on the frontier: `gossamer seen forget GROUP.main URL` makes one page new again.",
    "flush-server": "It would take the frontier along with everything else: `gossamer group drop GROUP` drops one spider's.",
    "python-2": "Port it to Python 3 first: neither Scrapy nor Gossamer runs on Python 2.",
    "unreadable": "Correct it, then scan again: nothing in this file was looked at or will be written.",
    "unwritten": "Replace scrapy_redis by gossamer.scrapy_redis by hand, or when the file can be parsed.",
}

RULES: Mapping[str, Rule] = {
    code: Rule(verdict, remedy)
    for verdict, rules in ((Verdict.MOVES, _MOVES), (Verdict.DIFFERS, _DIFFERS), (Verdict.DECIDE, _DECIDE))
    for code, remedy in rules.items()
}
"""By code. Every code that the scanner can give stands here."""
