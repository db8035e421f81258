"""What `gossamer export` writes for others to see, and what `gossamer import` makes of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from tests.support.command import Command

from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Request, Token
from gossamer.settings import load
from gossamer.testing.servers import Server

SECRET = {"url": "http://h1.example/", "headers": {b"Authorization": [b"hidden"]}, "cookies": {"sid": "hidden"}}


def filled(frontier: ValkeyFrontier) -> None:
    tasks = f"{frontier.crawl}:tasks"
    frontier.define("news", {"post": LanePolicy()}, GroupPolicy(tasks=(tasks,)))
    frontier.add([Request(1, "h1.example", "news.post", codec.encode_request(SECRET))])
    frontier.add([Request(2, "h2.example", "news.post", codec.encode_request({"url": "http://h2.example/"}))])
    execute = frontier.connection.execute
    execute("RPUSH", tasks, b'{"url": "http://h3.example/", "headers": {"X-Token": "hidden"}}', key=tasks)


def test_an_export_is_for_its_owner_alone_and_without_secrets(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    filled(frontier)
    before = os.umask(0)
    try:
        said = command("export", str(tmp_path / "a.jsonl")).err
        command("export", str(tmp_path / "b.jsonl"), "--secrets")
    finally:
        os.umask(before)
    assert "2 are without their secrets" in said
    for name in ("a.jsonl", "b.jsonl"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    text = (tmp_path / "a.jsonl").read_text()
    assert "hidden" not in text
    assert '"secrets":false' in text.splitlines()[0]


def test_what_was_exported_without_its_secrets_is_not_restored_without_a_word(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    filled(frontier)
    file = str(tmp_path / "a.jsonl")
    command("export", file)
    refused = command("import", file, "--crawl", f"{frontier.crawl}-copy", code=3)
    assert "exported without its secrets (headers.Authorization" in refused.err
    assert "--without-secrets" in refused.err
    done = command("import", file, "--crawl", f"{frontier.crawl}-copy", "--without-secrets")
    assert "2 were restored without their headers, cookies or passwords" in done.err


def test_with_its_secrets_it_is_restored_whole(command: Command, frontier: ValkeyFrontier, tmp_path: Path) -> None:
    filled(frontier)
    file, again = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    command("export", file, "--secrets")
    command("import", file, "--crawl", f"{frontier.crawl}-copy")
    command("export", again, "--secrets", "--crawl", f"{frontier.crawl}-copy")
    one, two = ([row for row in Path(name).read_text().splitlines() if "h1.example" in row] for name in (file, again))
    assert one == two


def test_cookies_that_workers_share_go_along_or_are_said_to_be_left_out(
    command: Command, frontier: ValkeyFrontier, valkey_server: Server, tmp_path: Path
) -> None:
    frontier.define("news", {"post": LanePolicy()})
    frontier.define("none", {"post": LanePolicy()})
    place = ["second jar", "h1.example", "/", "sid"]
    mine = {
        json.dumps(place): json.dumps(
            {"value": "hidden", "expires": 4_000_000_000, "rest": {"HttpOnly": None}}
        ).encode(),
        "of another kind": b"\xffhidden",
    }
    frontier.put_cookies("news", {**mine, "gone": b"x"}, most=10)
    frontier.put_cookies("news", {"gone": b""}, most=10)
    with_them, without = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    assert "cookie" not in command("export", with_them, "--secrets").err
    [row, _] = [
        row for text in Path(with_them).read_text().splitlines() if (row := json.loads(text)).get("type") == "cookie"
    ]
    assert [row[name] for name in ("group", "jar", "domain", "path", "name")] == ["news", *place]
    assert (row["cookie"]["value"], row["cookie"]["expires"]) == ("hidden", 4_000_000_000)
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": f"{frontier.crawl}-copy"}
    with ValkeyFrontier.open(load({**given, "GOSSAMER_PARTITIONS": 3}, {})) as copy:
        assert "cookie" not in command("import", with_them, "--crawl", copy.crawl).err
        version, found, _ = copy.cookies("news")
        assert found == mine
        hints = copy.exchange(Token.fresh(), session="news").hints
        assert hints.session == version, "workers hear that there are some"
        copy.put_cookies("news", {json.dumps(place): b"newer"}, most=10)
        header, *lines = Path(with_them).read_text().splitlines()
        changed = {**json.loads(header), "snapshot": "another", "holds": []}
        Path(with_them).write_text("\n".join([json.dumps(changed), *lines, ""]))
        command("import", with_them, "--crawl", copy.crawl)
        assert copy.cookies("news")[1] == {**mine, json.dumps(place): b"newer"}
    assert "left out: 2 cookies that the workers share" in command("export", without).err
    assert "hidden" not in Path(without).read_text()
    for _ in range(2):
        said = command("import", without, "--crawl", f"{frontier.crawl}-other").err
        assert "the file lacks 2 cookies that the workers shared" in said
