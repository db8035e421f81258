"""The pages say what the code says, and lead where they point."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import generate_docs

from gossamer import errors
from gossamer.cli.exit_codes import EXIT_CODES
from gossamer.exporter.metrics import METRICS
from gossamer.settings import SETTINGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LUA = sorted(generate_docs.LUA.rglob("*.lua"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def reachable_from(page: Path, found: set[Path]) -> set[Path]:
    found.add(page)
    for link in links(page):
        target = (page.parent / link.partition("#")[0]).resolve()
        if target.suffix == ".md" and target.exists() and target not in found:
            reachable_from(target, found)
    return found


def test_generated_pages_are_up_to_date() -> None:
    pages = generate_docs.pages()
    assert pages
    for name, page in pages.items():
        assert (generate_docs.REFERENCE / name).read_text(encoding="utf-8") == page, f"{name}: run make docs"


def test_every_setting_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    assert [setting.name for setting in SETTINGS if f"| `{setting.name}` |" not in page] == []


def test_every_metric_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert [metric.name for metric in METRICS if f"| `{metric.name}` |" not in page] == []


def test_every_error_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    names = [n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)]
    assert names
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_every_command_and_exit_code_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    paths = [path for path, _ in generate_docs.commands()]
    assert "gossamer settings" in paths
    assert [path for path in paths if f"## `{path}`" not in page] == []
    assert [code for code in EXIT_CODES if f"\n| {code} |" not in page] == []


def test_every_command_and_option_says_what_it_does() -> None:
    silent = [path for path, command in generate_docs.commands() if not command.help]
    silent += [f"{path} {p.name}" for path, command in generate_docs.commands() for p in command.params if not p.help]
    assert silent == []


def test_every_page_is_reachable_from_the_index() -> None:
    found = reachable_from((DOCS / "index.md").resolve(), set())
    assert [page.relative_to(DOCS).as_posix() for page in PAGES if page.resolve() not in found] == []


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted(ROOT.glob("*.md"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_relative_link_resolves(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Exit codes\n", encoding="utf-8")
    page = tmp_path / "page.md"
    text = "[a](other.md#exit-codes) [b](absent.md) [c](other.md#nope) [d](https://example.org/x)\n```\n[e](absent.md)\n```\n"
    page.write_text(text, encoding="utf-8")
    assert broken_links(page) == ["absent.md", "other.md#nope"]


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_every_lua_file_opens_with_a_header(path: Path) -> None:
    assert generate_docs.header(path.read_text(encoding="utf-8")), f"{path.name} does not say what it is for"


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_the_header_of_a_function_says_keys_arguments_returns_and_cost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if generate_docs.registered(text):
        said = generate_docs.header(text)
        assert [word for word in ("KEYS", "ARGV", "Returns", "Cost") if word not in said] == []


def test_a_function_without_a_header_would_be_found() -> None:
    text = "redis.register_function('gossamer_add', add)\n"
    assert generate_docs.registered(text) == ["gossamer_add"]
    assert generate_docs.header(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "-- Adds.\n--\n-- keys: none\nlocal x = 1 -- not this\n",
        "--[[ Adds.\n\nkeys: none ]]\nlocal x = 1\n",
        "#!lua name=gossamer\n-- Adds.\n--\n-- keys: none\n",
    ],
)
def test_a_header_is_the_comment_that_opens_the_file(text: str) -> None:
    assert generate_docs.header(text).split() == ["Adds.", "keys:", "none"]


def test_names_are_found_in_both_ways_of_registering() -> None:
    text = "redis.register_function{function_name='a', callback=f}\nredis.register_function(\n  \"b\", f)\n"
    assert generate_docs.registered(text) == ["a", "b"]


def test_nothing_is_left_to_do_in_the_source() -> None:
    files = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".lua"}]
    assert files
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert [path.name for path in files if marks.search(path.read_text(encoding="utf-8"))] == []
