"""Fingerprints beside Scrapy's: the same bytes on millions of URLs, and what each costs.

    python bench/fingerprint.py [--urls 3000000] [--jobs 2] [--seed 0] [--speed 20000] [--json]

First every generated URL is put through both, as it stands (canonical form) and as a request (digest); a difference is
printed and ends the run with 1. Then both are timed side by side, in turns, on requests that neither has met (cold) and on the
same requests again (warm). Figures are the first decile of many short runs, since others on
the machine only ever add, in microseconds of processor time per request.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scrapy
import w3lib
from bench.figures import decile
from bench.frontier import table
from bench.urls import Urls
from scrapy import Request
from scrapy.utils.request import fingerprint as scrapy_fingerprint
from w3lib.url import canonicalize_url

from gossamer.scrapy.speedups import fingerprint as ours
from gossamer.sites.url.canonical import fast_path

PORTION = 25_000
RUN = 200
"""Requests timed at a time: short enough that a busy machine disturbs only some of the runs."""


def compare(seed: int, number: int) -> Counter[str]:
    """Put generated URLs through both; the first difference is an error."""
    found: Counter[str] = Counter()
    fingerprinter = ours.Fingerprinter()
    for url in Urls(seed).wild(number):
        found["urls"] += 1
        form = outcome(canonicalize_url, url)
        if outcome(ours.canonical, url) != form:
            raise AssertionError(f"canonical form of {url!r} is {ours.canonical(url)!r}, not {form!r}")
        found["short way"] += fast_path(url) is not None
        try:
            request = Request(url)
            digest = scrapy_fingerprint(request)
        except ValueError:
            found["no request"] += 1
            continue
        found["requests"] += 1
        if fingerprinter.fingerprint(request) != digest:
            raise AssertionError(f"digest of {url!r} is not Scrapy's")
    return found


def outcome(make: Callable[[str], str], url: str) -> object:
    try:
        return make(url)
    except Exception as error:
        return type(error)


def compare_all(urls: int, jobs: int, seed: int) -> Counter[str]:
    total: Counter[str] = Counter()
    seeds = range(seed, seed + -(-urls // PORTION))
    with ProcessPoolExecutor(jobs) as pool:
        for done in pool.map(compare, seeds, [PORTION] * len(seeds)):
            total += done
            if total["urls"] % (20 * PORTION) == 0:
                print(f"{total['urls']:,} URLs, no difference", file=sys.stderr, flush=True)
    return total


def kinds(number: int) -> dict[str, list[str]]:
    urls = Urls(12345)
    tidy = list(dict.fromkeys(urls.tidy() for _ in range(number * 3)))
    canonical = [url for url in tidy if canonicalize_url(url) == url]
    rest = [url for url in dict.fromkeys(urls.careless() + f"&n={n}" for n in range(number)) if usable(url)]
    return {
        "canonical, no query": [url for url in canonical if "?" not in url][:number],
        "canonical, query": [url for url in canonical if "?" in url][:number],
        "query to be sorted": [url for url in tidy if "&" in url and canonicalize_url(url) != url][:number],
        "anything careless": rest[:number],
    }


def usable(url: str) -> bool:
    try:
        scrapy_fingerprint(Request(url))
    except ValueError:
        return False
    return True


def timed(make: Callable[[Request], Any], requests: Iterable[Request]) -> float:
    # Of the processor, so that others on the machine do not count.
    begin = time.process_time()
    for request in requests:
        make(request)
    return time.process_time() - begin


def speed(number: int) -> list[dict[str, Any]]:
    fingerprinter = ours.Fingerprinter()
    contenders: dict[str, Callable[[Request], Any]] = {
        "scrapy": scrapy_fingerprint,
        "gossamer": fingerprinter.fingerprint,
        "number": fingerprinter.number,
    }
    rows = []
    for kind, urls in kinds(number).items():
        costs: dict[str, list[float]] = {}
        for first in range(0, len(urls) - RUN + 1, RUN):
            for name, make in contenders.items():
                requests = [Request(url) for url in urls[first : first + RUN]]
                for kept in ours._digests.values():
                    kept.cache_clear()
                for state in ("cold", "warm"):
                    costs.setdefault(f"{name} {state}", []).append(timed(make, requests) / RUN * 1e6)
        row: dict[str, Any] = {"urls": kind, "requests": len(urls)}
        row |= {name: round(decile(values), 2) for name, values in costs.items()}
        row["times cold"] = round(row["scrapy cold"] / row["gossamer cold"], 1)
        row["times warm"] = round(row["scrapy warm"] / row["gossamer warm"], 1)
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Fingerprints beside Scrapy's: the same bytes, and what each costs.")
    parser.add_argument("--urls", type=int, default=3_000_000, help="how many URLs are compared; 0 for none")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compare")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other URLs")
    parser.add_argument("--speed", type=int, default=20_000, help="how many requests of each kind are timed")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    try:
        compared = compare_all(options.urls, options.jobs, options.seed) if options.urls else Counter()
    except AssertionError as difference:
        print(difference)
        return 1
    rows = speed(options.speed)
    if options.json:
        versions = {"python": sys.version.split()[0], "scrapy": scrapy.__version__, "w3lib": w3lib.__version__}
        print(json.dumps({**versions, "compared": dict(compared), "rows": rows}, indent=2))
        return 0
    if compared:
        print(", ".join(f"{count:,} {name}" for name, count in compared.items()) + ": no difference\n")
    print(table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
