"""What site files cost: a thousand of them read and checked, and the URLs of a page told apart.

    python bench/sites.py [--files 1000] [--runs 5] [--json]

Every file is another site with layers, patterns and selectors of its own (and two thirds of the selectors in common, as in
files that people copy). `gossamer site check` is measured as a user sees it, from its start to its end on the clock; and the clock and the
processor around `survey`, which reads, completes and checks in one process. Each run is a process of its own, so that nothing is
remembered. Figures of URLs are microseconds for each, the first decile of many short runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figures import decile

from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text, survey
from gossamer.sites.format import Identity
from gossamer.sites.url.identity import Identifier

TARGET_SECONDS = 3.0
RUN = 200
TEXT = r"""site: bbs{n}                                # a group; many sites share one crawl
seeds:
  - http://bbs{n}.example/list/{{forum}}/[1-300]
params: {{forum: [python, rust, go]}}
schedule: {{every: 10m, deadline: 9m}}          # or cron
limits: {{backlog: 10000, pages: 1e6, depth: 8}}
politeness: {{delay: 0.5s, concurrency: 4, adaptive: true, robots: obey}}
seen: {{policy: rolling, window: 7d}}
layers:
  list:
    match: '^/list/(?P<forum>\w+)/(?P<page>\d+){n}'
    order: fifo
    seen: round                              # once per round, again in the next
    follow:
      - {{css: 'a.post{n}', to: post}}
      - {{css: 'a.next', to: list, pages: 5}}   # a page turn, not a deeper level
  post:
    tier: deepest
    weight: 10
    require: [title, [author, uid]]          # nested list: any of
    valid: {{status: [200], min_length: 500, contains: ['id="post"']}}
    fields:
      title: {{css: 'h1.title{n}'}}
      author: {{xpath: '//a[@class="u"]/text()'}}
      uid: {{css: .uid, type: int}}
      views: {{regex: 'views: (\d+)', type: int}}
      replies: {{each: {{css: .reply}}, fields: {{text: {{css: .t}}, at: {{css: time, attr: datetime, type: datetime}}}}}}
    follow: [{{css: 'a.comments', to: comment, when: 'replies'}}]
  comment: {{format: json, fields: {{body: {{jmespath: 'items[].body'}}}}, stage: details}}
store: {{post: {{table: posts, key: [url]}}}}
"""


def write(folder: Path, number: int) -> None:
    for n in range(number):
        (folder / f"site{n:05}.yaml").write_text(TEXT.format(n=n), encoding="utf-8")


def once(folder: Path) -> dict[str, float]:
    """Read and check a folder in this process."""
    wall, processor = time.perf_counter(), time.process_time()
    found = survey(folder)
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    if found.problems:
        raise AssertionError(f"the files of the benchmark are wrong: {found.problems[0]}")
    return {**seconds, "sites": len(found.sites)}


def apart(folder: Path) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--folder", str(folder)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def command(folder: Path) -> float:
    """Seconds on the clock of `gossamer site check`, start and end of the process included."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "gossamer", "site", "check", str(folder)], check=True, capture_output=True)
    return time.perf_counter() - began


def urls(number: int) -> list[str]:
    return [f"http://bbs0.example/list/python/{n}0?page={n % 7}&sort=new&session=abc{n}" for n in range(number)]


def portions(words: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(words), RUN):
        yield words[start : start + RUN]


def cost_of(work: Callable[[str], object], words: list[str]) -> float:
    """Microseconds for each."""
    found = []
    for portion in portions(words):
        began = time.process_time_ns()
        for word in portion:
            work(word)
        found.append((time.process_time_ns() - began) / len(portion) / 1000)
    return round(decile(found), 3)


def of_urls(number: int) -> dict[str, float]:
    words = urls(number)
    every, dropping = Identifier(Identity()), Identifier(Identity(drop=("session", "utm_*")))
    site = compile_site(load_text(TEXT.format(n=0))[0])
    return {
        "fingerprint, new": cost_of(every.fingerprint, words),
        "fingerprint, known": cost_of(every.fingerprint, words),
        "fingerprint without some parameters, new": cost_of(dropping.fingerprint, words),
        "layer, new": cost_of(site.layer_of, words),
        "layer, known": cost_of(site.layer_of, words),
    }


def measure(files: int, runs: int, number: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), files)
        commands = [command(Path(name)) for _ in range(runs)]
        found = [apart(Path(name)) for _ in range(runs)]
    return {
        "files": files,
        "command": [round(seconds, 3) for seconds in commands],
        "median_command": round(median(commands), 3),
        "wall": [round(one["wall"], 3) for one in found],
        "processor": [round(one["processor"], 3) for one in found],
        "median_processor": round(median(one["processor"] for one in found), 3),
        "urls": of_urls(number),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--urls", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.folder:
        print(json.dumps(once(Path(given.folder))))
        return
    found = measure(given.files, given.runs, given.urls)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    reached = "reached" if found["median_command"] <= TARGET_SECONDS * found["files"] / 1000 else "missed"
    print(f"gossamer site check of {found['files']:,} files, seconds on the clock: {found['command']}")
    print(f"median {found['median_command']} s; {TARGET_SECONDS:g} s for 1,000: {reached}")
    print(
        f"the same in one process, seconds of the processor: {found['processor']}, median {found['median_processor']} s"
    )
    for name, cost in found["urls"].items():
        print(f"{name}: {cost} µs")


if __name__ == "__main__":
    main()
