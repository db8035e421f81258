"""What tasks report of pages that come to their end elsewhere than where they began."""

from __future__ import annotations

import json

from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

SITE = """
    site: pages
    seeds: [{tasks: KEY}]
    politeness: {robots: ignore, delay: 0}
    request: {retries: 0}
    layers:
      thread: {match: '^/thread/', fields: {title: title}}
      archive: {match: '^/archive/', require: [title], fields: {title: title}}
"""


async def test_a_page_that_redirects_to_another_layer_is_done_when_it_is_read_there(
    crawl: Crawl, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """It was done as soon as it had redirected, also where the page that it led to became a dead letter."""
    key, ended = f"{crawl_name}:tasks", f"{crawl_name}:ended"
    crawl.push(SITE.replace("KEY", key))
    for number in (1, 2):
        site.on(f"/thread/{number}", Reply(302, headers={"Location": f"/archive/{number}"}))
        report = {"list": ended, "key": str(number), "try": 1}
        valkey_server.call("RPUSH", key, json.dumps({"url": f"{site.url}/thread/{number}", "report": report}))
    site.on("/archive/2", Reply(body="<html>no title</html>"))
    await crawl.run()
    found = valkey_server.call("LRANGE", ended, 0, -1)
    assert isinstance(found, list)
    said = [json.loads(str(each)) for each in found]
    assert sorted((each["key"], each["state"], each.get("detail")) for each in said) == [
        ("1", "done", None),
        ("2", "failed", "lack"),
    ]
    assert [item["layer"] for item in crawl.items("pages")] == ["archive"]
