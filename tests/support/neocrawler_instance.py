"""A NEOCrawler instance as far as its servers see it: a transcription of the writes of its scheduler, spider and pipeline."""

from __future__ import annotations

import json
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import redis

from gossamer.testing.servers import Server

DATABASES = (9, 10, 11)
QUEUE = "queue:scheduled:all"
HOUR, DAY = 3600_000, 86400_000


class NeoInstance:
    """`now` is its clock, in milliseconds."""

    def __init__(self, server: Server, now: int) -> None:
        self._server, self.now = server, now
        self.driller, self.urls, self.reports = (
            redis.Redis(port=server.port, db=number, decode_responses=True) for number in DATABASES
        )
        for database in (self.driller, self.urls, self.reports):
            database.flushdb()
        self.rules: dict[tuple[str, str], dict[str, Any]] = {}

    def close(self) -> None:
        for database in (self.driller, self.urls, self.reports):
            database.flushdb()
            database.close()

    def settings(self, folder: Path) -> Path:
        """Its settings.json."""
        names = ("driller_info_redis_db", "url_info_redis_db", "url_report_redis_db")
        places = {name: ["127.0.0.1", self._server.port, db] for name, db in zip(names, DATABASES, strict=True)}
        file = folder / "settings.json"
        file.write_text(json.dumps({**places, "use_ssdb": False, "log_level": "DEBUG"}))
        return file

    def state(self) -> dict[tuple[int, bytes], Any]:
        """Everything that its databases hold."""
        found: dict[tuple[int, bytes], Any] = {}
        for number in DATABASES:
            with redis.Redis(port=self._server.port, db=number) as raw:
                found.update(((number, key), raw.dump(key)) for key in raw.scan_iter())
        return found

    # webconfig: a rule is a hash whose values are texts.

    def rule(self, domain: str, alias: str, **fields: Any) -> None:
        rule = {
            "domain": domain, "alias": alias, "active": True, "weight": 10, "priority": 1, "schedule_interval": 86400,
            "schedule_rule": "FIFO", "type": "node", "seed": [], "id_parameter": [], "drill_rules": [], **fields,
        }  # fmt: skip
        self.rules[domain, alias] = rule
        texts: dict[Any, Any] = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in rule.items()
        }
        self.driller.hset(f"driller:{domain}:{alias}", mapping=texts)
        self.driller.set("updated:driller:rule", self.now)

    # scheduler/index.js

    def reschedule(self, domain: str, alias: str) -> None:
        for link in self.rules[domain, alias]["seed"]:
            self._update(link, "schedule", f"urllib:driller:{domain}:{alias}", version=self.now)
            self.driller.rpush(QUEUE, link)
        self.driller.hset(f"driller:{domain}:{alias}", "first_schedule", self.now)

    def schedule(self, domain: str, alias: str, count: int) -> None:
        for _ in range(count):
            link = self.driller.lpop(f"urllib:driller:{domain}:{alias}")
            assert isinstance(link, str)
            self._update(link, "schedule", "")
            self.driller.rpush(QUEUE, link)

    # spider/spider.js, spider/pipeline.js

    def take(self) -> str:
        link = self.driller.lpop(QUEUE)
        assert isinstance(link, str)
        self._update(link, "crawling", "")
        return link

    def finish(self, link: str) -> None:
        self._update(link, "crawled_finish", "")
        self.reports.zrem("fail:" + self.info(link)["trace"], link)

    def fail(self, link: str) -> None:
        self._update(link, "crawled_failure", "")
        info = self.info(link)
        self.reports.zadd("fail:" + info["trace"], {link: int(info.get("version", 0))})

    def stick(self, link: str) -> None:
        """Its data could not be inserted."""
        self.finish(link)
        self.reports.zadd("stuck:" + self.info(link)["trace"], {link: self.now})

    def save_links(self, page: str, domain: str, alias: str, *links: str) -> None:
        key = f"urllib:driller:{domain}:{alias}"
        for link in links:
            final = self._transformed(link, self.rules[domain, alias]["id_parameter"])
            name = md5(final.encode()).hexdigest()
            if self.urls.hgetall(name):
                continue
            info: dict[Any, Any] = {
                "url": link, "version": self.now, "trace": key, "referer": page, "create": self.now,
                "records": json.dumps([]), "last": self.now, "status": "hit",
            }  # fmt: skip
            self.urls.hset(name, mapping=info)
            self.driller.rpush(key, final)

    def info(self, link: str) -> dict[str, str]:
        found: dict[str, str] = self.urls.hgetall(md5(link.encode()).hexdigest())  # type: ignore[assignment]
        return found

    @staticmethod
    def _transformed(link: str, parameters: list[str]) -> str:
        if not parameters:
            return link
        parts, kept = urlsplit(link), {}
        if parameters[0] != "#":
            kept = {name: value[-1] for name, value in parse_qs(parts.query).items() if name in parameters}
        return urlunsplit(parts._replace(query=urlencode(kept)))

    def _update(self, link: str, state: str, trace: str, version: int = 0) -> None:
        name = md5(link.encode()).hexdigest()
        info = self.info(link)
        more: dict[Any, Any] = {"version": version} if version else {}
        if info:
            records = [*json.loads(info["records"]), state][-3:]
            more |= {"records": json.dumps(records), "last": self.now, "status": state}
            self.urls.hset(name, mapping=more)
            return
        fresh: dict[Any, Any] = {
            "url": link,
            "trace": trace,
            "referer": "",
            "create": self.now,
            "records": json.dumps([]),
        }
        self.urls.hset(name, mapping={**fresh, "last": self.now, "status": state, **more})
