"""A spider that notes what it gets for each path of a server: everything of the response, or the kind of the failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response


class Answers(Spider):
    """`paths` of the server `url`, and `held`: so many requests in slots of their own, which the server answers together."""

    name = "answers"
    custom_settings = {  # noqa: RUF012 - as Scrapy has it
        "HTTPERROR_ALLOW_ALL": True,
        "RETRY_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 10,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    }

    def __init__(self, urls: str = "", held: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.urls, self.held = urls.split(), held.split()

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls:
            meta: dict[str, Any] = {"bindaddress": "127.0.0.2"} if url.endswith("/bound") else {}
            if url.endswith("?lossy"):
                meta["download_fail_on_dataloss"] = False
            if url.startswith("https:"):
                meta["proxy"] = "/".join(self.urls[0].split("/")[:3])
            method = "POST" if "/post" in url else "GET"
            yield Request(url, method=method, meta=meta, errback=self.failed, cb_kwargs={"asked": url})
        for number, url in enumerate(self.held):
            meta = {"download_slot": f"slot{number}"}
            yield Request(url, meta=meta, errback=self.failed, cb_kwargs={"asked": url})

    def parse(self, response: Response, asked: str) -> None:
        headers = {name.decode("latin1"): [one.decode("latin1") for one in of] for name, of in response.headers.items()}
        body = response.body.decode("latin1")
        rest = {"flags": response.flags, "protocol": response.protocol, "type": type(response).__name__}
        self.note(asked, url=response.url, status=response.status, headers=headers, body=body, **rest)

    def failed(self, failure: Any) -> None:
        self.note(failure.request.cb_kwargs["asked"], failed=failure.type.__name__)

    def note(self, asked: str, **details: Any) -> None:
        crawler: Any = self.crawler
        crawler.recorder.note("mark", asked, **details)
