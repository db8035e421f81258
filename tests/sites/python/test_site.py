"""A site in Python as the site file that it stands for, and where its mistakes are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import load_text, survey
from gossamer.sites.python.module import module_name, names_site

HEAD = "from gossamer import Site\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write(folder: Path, text: str, name: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD + dedent(text))
    return file


def told(file: Path) -> list[str]:
    return [str(problem).removeprefix(f"{file}:") for problem in survey(file).problems]


def test_the_text_says_what_the_python_says(folder: Path) -> None:
    file = write(
        folder,
        """
        import re
        from datetime import timedelta
        from pathlib import Path

        def tidy(record):
            return record

        shop = Site(
            "shop", ["http://shop.example/c/1"], schedule={"every": timedelta(hours=1)}, archive_pages=Path("warc"),
            hooks={"before_store": tidy}, store={"item": {"add": ("url",)}, "detail": {"history": True}},
        )

        @shop.layer("list", re.compile("^/c/", re.I))
        async def goods(page):
            yield None

        @shop.layer("item", match="^/p/", table="lamps", key="sku", record={"sku": str, "price": float | None})
        def item(page): ...

        shop.rules("detail", {"match": "^/d/"}, fields={"a": "h1"}, table="details", key=["a"])
        """,
        "python_text.py",
    )
    found = survey(file)
    assert found.problems == []
    [loaded] = found.sites
    site = loaded.site
    # What workers read is the same site.
    assert load_text(loaded.text) == [site]
    assert loaded.text.startswith("# Made from python_text.py, whose functions it names.\n")
    assert (site.layers["list"].match, site.layers["list"].handler) == ("(?i)^/c/", "python_text:goods")
    assert (site.schedule and site.schedule.every, site.archive_pages) == (3600, "warc")
    assert site.hooks.before_store == "python_text:tidy"
    assert site.store["item"].model_dump(exclude_unset=True) == {
        "table": "lamps", "key": ("sku",), "add": ("url",), "types": {"sku": "text", "price": "float?"},
    }  # fmt: skip
    assert site.store["detail"].model_dump(exclude_unset=True) == {
        "table": "details", "key": ("a",), "history": True,
    }  # fmt: skip
    assert len(site.code["python_text"]) == 16
    assert survey(file).sites[0].text == loaded.text, "read again, it is the same"


def test_mistakes_are_told_with_their_places_all_at_once(folder: Path) -> None:
    file = write(
        folder,
        """\
        shop = Site("shop", seeds=["shop.example"],
                    politeness={"delay": "1s", "robot": "obey"}, limits=dict(pages="x"))
        @shop.layer("list", "^/c/(", tabel="x")
        def goods(page): ...
        @shop.layer("item", match="^/p/", record={"sku": str}, key=["sk"])
        def item(page): ...
        shop.rules("detail", {"fields": {"a": {"css": "h1", "typ": "int"}}})
        """,
        "python_mistakes.py",
    )
    assert [line.partition(" ")[0] for line in told(file)] == ["3:40:", "3:76:", "4:21:", "4:30:", "8:53:"]
    assert "unknown key robot (did you mean robots?)" in told(file)[0]
    file = write(
        folder,
        """\
        shop = Site("shop", seeds=["http://shop.example/"])
        @shop.layer("item", match="^/p/", record={"sku": str}, key=["sk"])
        def item(page): ...
        @shop.layer("other", match="^/o/", fields={"a": "h1"})
        def other(page): ...
        """,
        "python_other_mistakes.py",
    )
    assert told(file) == [
        "3:61: store.item.key[0]: there is no field sk (did you mean sku?)",
        "5:43: layers.other.fields: handler and fields exclude each other: the function reads the page (leave out one of them)",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s.layer('a')", "3:1: The layer a has no function: write @….layer(…) above one"),
        ("s.layer('a')(lambda page: None)", "The layer a needs a function that is defined at the top of its module"),
        ("s.rules('a')\ns.rules('a')", "4:1: The site s has two layers a. Give one of them another name"),
        ("@s.layer('a')\ndef f(page): ...\ndel f", "there is nothing called f"),
        ("@s.layer('a', weight=b'x')\ndef f(page): ...", "3:2: a.weight is bytes; a site has texts, numbers, lists and mappings"),
        ("import nowhere_at_all", "3:1: ModuleNotFoundError: No module named 'nowhere_at_all' (raised while the file was"),
    ],
)  # fmt: skip
def test_what_no_site_file_could_say(folder: Path, text: str, said: str, request: pytest.FixtureRequest) -> None:
    name = f"python_wrong_{request.node.callspec.indices['text']}.py"
    [line] = told(write(folder, f"s = Site('s', seeds=['http://s.example/'])\n{text}\n", name))
    assert said in line


def test_a_site_file_and_functions_in_one_site(folder: Path) -> None:
    (folder / "base.yaml").write_text(
        "site: base\nseeds: http://s.example/\nlimits: {pages: 5}\nparams: {a: [1, 2]}\n"
        "layers: {list: {match: ^/c/, follow: [a]}, item: {match: ^/p/, fields: {t: h1}}}\nstore: {item: {table: t, key: [t]}}\n"
    )
    file = write(
        folder,
        """
        site = Site.from_yaml("base.yaml", limits={"depth": 3})

        @site.layer("other", match="^/o/", like="list")
        def other(page): ...
        """,
        "python_over_yaml.py",
    )
    found = survey(file)
    # `like` takes over rules, which a function excludes: the place of that rule is in the YAML.
    assert [str(one).partition(": ")[0] for one in found.problems] == [f"{folder}/base.yaml:5:38"]
    file.write_text(file.read_text().replace(', like="list"', ""))
    file.rename(folder / "python_over_base.py")
    found = survey(folder / "python_over_base.py")
    assert found.problems == []
    site = found.sites[0].site
    assert (site.site, site.limits.pages, site.limits.depth, list(site.layers)) == (
        "base",
        5,
        3,
        ["list", "item", "other"],
    )
    assert site.layers["other"].handler == "python_over_base:other"


def test_a_file_of_several_sites_that_another_module_helps_to_make(folder: Path) -> None:
    write(
        folder,
        "def make(name):\n    return Site(name, seeds=[f'http://{name}.example/'])\nOWN = make('own')\n",
        "makers.py",
    )
    file = write(
        folder,
        """
        from makers import make

        def page(page): ...

        for name in ("one", "two"):
            make(name).layer("page", match="^/")(page)
        """,
        "python_several.py",
    )
    found = survey(file)
    assert found.problems == []
    assert [one.site.site for one in found.sites] == ["one", "two"], (
        "what the helper makes for itself is not the file's"
    )
    assert {one.site.layers["page"].handler for one in found.sites} == {"python_several:page"}


def test_how_a_file_is_imported(folder: Path) -> None:
    for name in ("plain/shop.py", "package/__init__.py", "package/inner/__init__.py", "package/inner/shop.py"):
        write(folder, "", name)
    assert module_name(folder / "plain" / "shop.py") == (folder / "plain", "shop")
    assert module_name(folder / "package" / "inner" / "shop.py") == (folder, "package.inner.shop")
    taken = write(folder, "Site('s', seeds=['http://s.example/'])\n", "json.py")
    assert "is imported as json, and not this file (rename the file)" in told(taken)[0]
    odd = write(folder, "", "my-shop.py")
    assert "my-shop cannot be the name of a module" in told(odd)[0]


@pytest.mark.parametrize(
    ("text", "is_site"),
    [
        ("from gossamer import Page, Site\n", True),
        ("import gossamer\nx = gossamer.Site('x')\n", True),
        ("from gossamer import Site\nx = (\n", True),
        ("from gossamer import FleetSpider\n", False),
        ("from elsewhere import Site\n", False),
        ("x = (\n", False),
    ],
)
def test_site_files_are_told_from_spiders_without_running_them(text: str, is_site: bool) -> None:
    assert names_site(text) is is_site


def test_functions_of_a_named_file_are_granted_and_of_no_other(folder: Path) -> None:
    settings = {"GOSSAMER_ALLOWED_MODULES": "", "GOSSAMER_PRIVATE_ADDRESSES": "auto"}
    file = write(folder, "", "granted/shop.py")
    grant = grant_of(settings, local=True, files=[file, folder / "site.yaml"])
    assert grant.code == (folder / "granted",)
    assert grant.holds(folder / "granted" / "helpers.py")
    assert not grant.holds(folder / "elsewhere.py")
    assert not grant.holds(folder / "granted" / "site-packages" / "x.py")
    assert not Grant().holds(file)


def test_yaml_runs_no_python(folder: Path) -> None:
    write(folder, "raise SystemExit\n", "evil.py")
    (folder / "site.yaml").write_text("site: s\nextends: evil.py\nseeds: http://s.example/\nlayers: {a: {}}\n")
    assert any("evil.py" in line for line in told(folder / "site.yaml"))
    assert "evil" not in sys.modules
