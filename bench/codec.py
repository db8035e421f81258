"""Time and size of the codec beside pickle and json, on the requests of a crawl.

    python bench/codec.py [--json] [--seconds 0.005]

Every figure is the best of 25 runs of `--seconds` each. json cannot hold bytes, dates or keys that
are not text: it gets the same fields without headers and cb_kwargs, the rest as text, and loses the types. The readable
form is timed without the json.dumps or json.loads that follows or precedes it.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import timeit
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from gossamer.frontier.codec import decode_request, encode_request, from_json, to_json

URL = "https://forum.example.com/section/42/topic/123456-some-long-title-here?page=3&so"
BARE: dict[str, Any] = {
    "url": URL,
    "callback": "parse_post",
    "errback": None,
    "headers": {},
    "method": "GET",
    "body": b"",
    "cookies": {},
    "meta": {"depth": 3},
    "encoding": "utf-8",
    "dont_filter": False,
    "flags": [],
    "cb_kwargs": {},
}
REQUESTS: dict[str, dict[str, Any]] = {
    "typical": BARE,
    "form post": BARE
    | {
        "method": "POST",
        "headers": {b"Content-Type": [b"application/x-www-form-urlencoded"], b"Accept": [b"text/html", b"*/*"]},
        "body": b"q=shoes&page=3",
        "cookies": {"session": "0123456789abcdef"},
    },
    "dates and tuples": BARE | {"meta": {"depth": 3, "since": datetime(2026, 11, 15, tzinfo=UTC), "box": (1, 2, 3, 4)}},
    "second pass": BARE | {"cb_kwargs": {"path": ((1, 2), (3, 4)), "seen": {1: "a", 2: "b"}}},
}


def microseconds(call: Callable[[], Any], seconds: float) -> float:
    timer = timeit.Timer(call)
    number = max(1, int(seconds / max(timer.timeit(200) / 200, 1e-9)))
    return min(timer.repeat(25, number)) / number * 1e6


def json_fields(fields: dict[str, Any]) -> Any:
    return json.loads(json.dumps({**fields, "headers": {}, "cb_kwargs": {}}, default=str))


def measure(seconds: float) -> list[dict[str, Any]]:
    rows = []
    for name, fields in REQUESTS.items():
        packed, pickled = encode_request(fields), pickle.dumps(fields, 5)
        plain = json_fields(fields)
        text, readable = json.dumps(plain).encode(), to_json(fields)
        calls: list[tuple[str, Callable[[], Any], Callable[[], Any], int]] = [
            ("gossamer", partial(encode_request, fields), partial(decode_request, packed), len(packed)),
            ("pickle 5", partial(pickle.dumps, fields, 5), partial(pickle.loads, pickled), len(pickled)),
            ("json", partial(json.dumps, plain), partial(json.loads, text), len(text)),
            ("readable", partial(to_json, fields), partial(from_json, readable), len(json.dumps(readable))),
        ]
        for codec, write, read, size in calls:
            row = {"request": name, "codec": codec, "encode_us": round(microseconds(write, seconds), 2)}
            rows.append(row | {"decode_us": round(microseconds(read, seconds), 2), "bytes": size})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Time and size of the codec beside pickle and json.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=0.005, help="length of one run")
    options = parser.parse_args()
    rows = measure(options.seconds)
    if options.json:
        print(json.dumps({"python": sys.version.split()[0], "url_bytes": len(URL), "rows": rows}, indent=2))
        return 0
    print("| request | codec | encode µs | decode µs | bytes |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        print(f"| {row['request']} | {row['codec']} | {row['encode_us']} | {row['decode_us']} | {row['bytes']} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
