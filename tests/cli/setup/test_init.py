"""`gossamer init`: a project that works as it is written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.support import fork_server
from tests.support.busy_crawl import environment, run, settings_for

from gossamer.deploy import Choice, deploy_files, project_files
from gossamer.exporter import families
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status.overview import overview
from gossamer.testing.forum import Forum
from gossamer.testing.servers import Server

CHOICE = Choice("shop", "example", "0.1.0", "a", "b")
PROJECT, DEPLOY = set(project_files(CHOICE)), set(deploy_files(CHOICE))


def files(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def scrapy(*words: str, cwd: Path, **others: str) -> subprocess.CompletedProcess[str]:
    done = fork_server.run("scrapy", words, environment(**others), cwd, 110)
    assert done.returncode == 0, done.stderr
    return done


def test_a_project_and_what_runs_it_are_written(tmp_path: Path) -> None:
    done = run("init", "shop", cwd=tmp_path)
    assert files(tmp_path / "shop") == PROJECT | DEPLOY
    assert sorted(done.stdout.split()) == sorted(f"shop/{path}" for path in PROJECT | DEPLOY)
    for step in ("cd shop", "scrapy crawl example", "gossamer top", "docker compose up --build --detach"):
        assert step in done.stderr
    assert scrapy("list", cwd=tmp_path / "shop").stdout == "example\n"


def test_passwords_are_made_up_and_for_the_owner_only(tmp_path: Path) -> None:
    run("init", "a", cwd=tmp_path)
    run("init", "b", cwd=tmp_path)
    secret = tmp_path / "a" / ".env"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_text() != (tmp_path / "b" / ".env").read_text()
    values = [line.partition("=")[2] for line in secret.read_text().splitlines() if "=" in line]
    assert all(len(value) >= 16 for value in values)


def test_the_working_directory_is_the_default(tmp_path: Path) -> None:
    here = tmp_path / "My Shop-2"
    here.mkdir()
    told = json.loads(run("init", "--json", cwd=here).stdout)
    assert told["project"] == "my_shop_2"
    assert "my_shop_2/settings.py" in told["written"]
    assert files(here) == set(told["written"])


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    run("init", "shop", "--spider", "prices", cwd=tmp_path)
    before = {path: (tmp_path / "shop" / path).read_text() for path in files(tmp_path / "shop")}
    (tmp_path / "shop" / "Dockerfile").write_text("FROM mine\n")
    (tmp_path / "shop" / "shop" / "settings.py").write_text("# mine\n")
    (tmp_path / "shop" / "compose.yaml").unlink()
    done = run("init", "shop", "--spider", "prices", cwd=tmp_path)
    assert done.stdout == "shop/compose.yaml\n", "what is missing is written"
    assert "there already, and kept: .dockerignore, " in done.stderr
    assert "--force overwrites them" in done.stderr
    assert (tmp_path / "shop" / "compose.yaml").read_text() == before["compose.yaml"]
    assert (tmp_path / "shop" / "Dockerfile").read_text() == "FROM mine\n"
    run("init", "shop", "--spider", "prices", "--force", cwd=tmp_path)
    assert (tmp_path / "shop" / "Dockerfile").read_text() == before["Dockerfile"]
    assert (tmp_path / "shop" / ".env").read_text() == before[".env"], "passwords in use stay"
    assert (tmp_path / "shop" / "shop" / "settings.py").read_text() == "# mine\n", "the project is its owner's"


def test_one_file_that_is_there_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM mine\n")
    told = json.loads(run("init", "--name", "shop", "--json", cwd=tmp_path).stdout)
    assert told["kept"] == ["Dockerfile"]
    assert files(tmp_path) == set(told["written"]) | {"Dockerfile"}
    assert (tmp_path / "Dockerfile").read_text() == "FROM mine\n"


def test_a_project_that_exists_gets_only_what_runs_it(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = OldShop.settings\n")
    assert "--spider NAME" in run("init", cwd=tmp_path, code=2).stderr
    done = run("init", "--spider", "old-prices", cwd=tmp_path)
    assert files(tmp_path) == DEPLOY | {"scrapy.cfg"}
    line = 'ADDONS = {"gossamer.Addon": 100}'
    assert f"add to OldShop/settings.py:   {line}" in done.stderr
    assert 'CMD ["scrapy", "crawl", "old-prices"]' in (tmp_path / "Dockerfile").read_text()
    assert "name: oldshop\n" in (tmp_path / "compose.yaml").read_text()

    (tmp_path / "OldShop").mkdir()
    (tmp_path / "OldShop" / "settings.py").write_text(f"{line}\n")
    said = run("init", "--spider", "old-prices", "--force", cwd=tmp_path).stderr
    assert "add to" not in said, "it is there"
    assert "has FEEDS" not in said
    (tmp_path / "OldShop" / "settings.py").write_text(f'{line}\nFEEDS = {{"out.jl": {{"format": "jl"}}}}\n')
    said = run("init", "--spider", "old-prices", "--force", cwd=tmp_path).stderr
    assert "OldShop/settings.py has FEEDS: in a container, local files are lost with it" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--name", "2shop"), "'2shop'"),
        (("--name", "class"), "'class'"),
        (("--name", "shop", "--spider", "a b"), "'a b'"),
        (("--name", "shop", "--spider", "../x"), "'../x'"),
    ],
)
def test_a_name_that_is_no_module_is_refused(words: tuple[str, ...], named: str, tmp_path: Path) -> None:
    said = run("init", *words, cwd=tmp_path, code=2).stderr
    assert said.startswith(f"error: {named} cannot be a name here")
    assert files(tmp_path) == set()


def test_a_broken_scrapy_cfg_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "scrapy.cfg").write_text("default = x\n")
    said = run("init", cwd=tmp_path, code=2).stderr
    assert said.startswith("error: scrapy.cfg cannot be read: ")


def test_the_spider_crawls_as_written(valkey_server: Server, forum: Forum, tmp_path: Path, crawl_name: str) -> None:
    """The whole way of a newcomer, but for the politeness that would take minutes."""
    run("init", "shop", cwd=tmp_path)
    quick = ("-s", "DOWNLOAD_DELAY=0", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=16", "-s", "ROBOTSTXT_OBEY=0")
    where = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    scrapy("crawl", "example", "-a", f"url={forum.url}", *quick, cwd=tmp_path / "shop", **where)
    with ValkeyFrontier.find(settings_for(valkey_server.url, crawl_name)) as frontier:
        view = overview(frontier)
    [group] = view.groups
    pages = len(forum.expected_pages())
    assert (group.group, group.items, group.open, group.dead) == ("example", pages, 0, 0)
    told = {sample.name: sample.value for family in families.families(view, 0.0) for sample in family.samples}
    for name in ("requests_sent_total", "responses_total", "items_total", "fetch_latency_seconds_count", "seen"):
        assert told[f"gossamer_{name}"] == pages, name
    assert told["gossamer_response_bytes_total"] > 0
    assert told["gossamer_exchange_seconds_count"] > 0
    assert "gossamer_export_skipped" not in told
    assert not os.path.exists(tmp_path / "shop" / ".gossamer")
