"""Commands that are run in a Scrapy project work on the crawl of that project, as its workers do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.busy_crawl import run

from gossamer.cli.project import project_settings
from gossamer.errors import SettingError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request
from gossamer.scrapy.seen.memory import number_of_custom
from gossamer.scrapy.settings import loaded
from gossamer.scrapy_redis.dupefilter import digest_of
from gossamer.settings import load
from gossamer.testing.servers import Server


def project(folder: Path, **settings: Any) -> Path:
    (folder / "shop" / "deep").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "shop" / "settings.py").write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))
    return folder


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str) -> str:
    with ValkeyFrontier.open(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, {})) as frontier:
        frontier.define("shop", {"all": LanePolicy()})
    return crawl_name


@pytest.mark.parametrize("place", [".", "shop/deep"])
def test_every_command_finds_the_crawl_of_the_project(
    valkey_server: Server, crawl: str, tmp_path: Path, place: str
) -> None:
    folder = project(tmp_path, GOSSAMER_URL=valkey_server.url, GOSSAMER_CRAWL=crawl) / place
    assert run("status", cwd=folder).stdout.startswith(f"crawl {crawl} on ")
    assert "shop" in run("group", "list", cwd=folder).stdout
    settings = run("settings", cwd=folder).stdout
    assert f"GOSSAMER_CRAWL\t{crawl}\tshop.settings\t" in settings


def test_a_project_on_scrapy_redis_names_its_server_by_redis_url(
    valkey_server: Server, crawl: str, tmp_path: Path
) -> None:
    folder = project(
        tmp_path,
        SCHEDULER="gossamer.scrapy_redis.scheduler.Scheduler",
        REDIS_URL=valkey_server.url,
        GOSSAMER_CRAWL=crawl,
    )
    plain = run("status", cwd=folder)
    assert plain.stdout.startswith(f"crawl {crawl} on ")
    assert "GOSSAMER_URL" not in plain.stderr
    assert "GOSSAMER_URL" not in run("status", cwd=folder, GOSSAMER_URL=f"{valkey_server.url}/0").stderr
    other = run("status", cwd=folder, GOSSAMER_URL="redis://nowhere.invalid")
    assert other.stdout.startswith(f"crawl {crawl} on ")
    assert "GOSSAMER_URL is not used" in other.stderr


def test_the_command_line_goes_before_the_environment_and_that_before_the_project(
    valkey_server: Server, crawl: str, tmp_path: Path
) -> None:
    folder = project(tmp_path, GOSSAMER_URL="redis://nowhere.invalid", GOSSAMER_CRAWL="other")
    (folder / "gossamer.toml").write_text('[gossamer]\ncrawl = "toml"\n')
    given = {"GOSSAMER_URL": valkey_server.url}
    assert run("status", "--crawl", crawl, cwd=folder, **given).stdout.startswith(f"crawl {crawl} on ")  # type: ignore[arg-type]
    assert "no crawl 'other'" in run("status", cwd=folder, code=2, **given).stderr


def test_workers_take_settings_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from scrapy.settings import Settings

    settings = Settings()
    for name, priority in (("GOSSAMER_CRAWL", "project"), ("GOSSAMER_GROUP", "spider"), ("GOSSAMER_MODE", "cmdline")):
        settings.set(name, "forever", priority)
        monkeypatch.setenv(name, "drained")
    ours = loaded(settings)
    assert (ours["GOSSAMER_CRAWL"], ours["GOSSAMER_GROUP"], ours["GOSSAMER_MODE"]) == ("drained", "forever", "forever")


def test_scrapy_is_not_imported_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, GOSSAMER_CRAWL="c", BOT_NAME="shop")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    import subprocess

    code = (
        "import sys; from gossamer.cli.options import load_settings; s = load_settings(); "
        "assert s['GOSSAMER_CRAWL'] == 'c', s; assert 'scrapy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60)


def test_settings_that_cannot_be_imported_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = missing_here.settings\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    with pytest.raises(SettingError, match="cannot be imported: missing_here"):
        project_settings()


FINGERPRINTERS = """
class ByPath:
    def fingerprint(self, request):
        return (request.method + request.url.partition("?")[0]).encode()

class Whole:
    def fingerprint(self, request):
        return request.url.encode()
"""
SPIDERS = """
import scrapy

class Books(scrapy.Spider):
    name = "books"
    custom_settings = {"REQUEST_FINGERPRINTER_CLASS": "shop.fingerprints.Whole"}
"""


def test_pages_are_forgotten_by_the_fingerprints_of_the_project(
    valkey_server: Server, crawl: str, tmp_path: Path
) -> None:
    folder = project(
        tmp_path,
        GOSSAMER_URL=valkey_server.url,
        GOSSAMER_CRAWL=crawl,
        REQUEST_FINGERPRINTER_CLASS="shop.fingerprints.ByPath",
        SPIDER_MODULES=["shop.spiders"],
        ADDONS={"gossamer.Addon": 100},
    )
    (folder / "shop" / "fingerprints.py").write_text(FINGERPRINTERS)
    (folder / "shop" / "spiders.py").write_text(SPIDERS)
    whole = number_of_custom(b"http://site/a?x=1")
    by_path = number_of_custom(b"POSThttp://site/a")
    with ValkeyFrontier.open(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl}, {})) as frontier:
        frontier.define("books", {"all": LanePolicy()})
        frontier.add([Request(whole, "site", "books.all", b"x"), Request(by_path, "site", "shop.all", b"x")])
        words = ("--yes", "--json", "http://site/a?x=1", "--method")
        [one] = json.loads(run("seen", "forget", "books.all", *words, "GET", cwd=folder).stdout)
        [other] = json.loads(run("seen", "forget", "shop.all", *words, "POST", cwd=folder).stdout)
        assert (one["was_known"], one["fingerprint"]) == (True, f"{whole:016x}"), "as the spider of that name says"
        assert (other["was_known"], other["fingerprint"]) == (True, f"{by_path:016x}"), "as the project says"


def test_pages_of_a_project_on_scrapy_redis_are_forgotten_by_its_digests(
    valkey_server: Server, crawl: str, tmp_path: Path
) -> None:
    folder = project(
        tmp_path,
        SCHEDULER="gossamer.scrapy_redis.scheduler.Scheduler",
        DUPEFILTER_CLASS="gossamer.scrapy_redis.dupefilter.RFPDupeFilter",
        REDIS_URL=valkey_server.url,
        GOSSAMER_CRAWL=crawl,
    )
    number = number_of_custom(digest_of("GET", "http://site/a", b""))
    with ValkeyFrontier.open(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl}, {})) as frontier:
        frontier.add([Request(number, "site", "shop.all", b"x")])
        run("seen", "forget", "shop.all", "http://site/a#top", "--yes", cwd=folder)
        assert frontier.seen("shop.all", [number]) == [False]


@pytest.mark.parametrize("words", [("status",), ("top",), ("items", "tail", "shop"), ("host", "block", "h")])
def test_who_only_looks_makes_no_data_directory_and_is_told_where_it_looked(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = project(tmp_path)
    said = run(*words, cwd=folder / "shop" / "deep", code=2)
    assert said.stderr.startswith("error: there is no crawl 'main': ")
    assert f"{folder.resolve() / '.gossamer'} holds no data" in said.stderr
    assert not list(tmp_path.rglob(".gossamer"))


def test_the_data_directory_is_beside_scrapy_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path)
    here = folder / "shop" / "deep"
    monkeypatch.chdir(here)
    name = "GOSSAMER_DATA_DIR"
    assert load({}, {})[name] == str(folder / ".gossamer")
    assert load({}, {}, project={name: "data"})[name] == str(folder / "data"), "the project's own word"
    assert load({name: "data"}, {})[name] == load({}, {name: "data"})[name] == "data", (
        "said here, it is meant from here"
    )
    assert load({}, {}, project={name: "/data"})[name] == "/data"
    monkeypatch.chdir(folder)
    assert load({}, {})[name] == ".gossamer"
