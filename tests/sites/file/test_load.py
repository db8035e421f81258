"""Site files from the disk: folders, inheritance, likeness, parameters."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from gossamer.sites.file.load import load, load_text, survey, survey_text
from gossamer.sites.file.problems import SiteErrors
from gossamer.sites.file.yaml import NOTHING_INSIDE
from gossamer.sites.format import SiteSpec

PLAIN = "site: {}\nseeds: ['http://{}.example/']\nlayers: {{a: {{}}}}\n"


def put(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path if path.suffix else path.with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def told(*paths: Path, folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in survey(paths).problems]


def test_a_folder_is_read_with_its_folders_in_the_order_of_names(tmp_path: Path) -> None:
    put(tmp_path, b=PLAIN.format("b", "b"), a=PLAIN.format("a", "a"), sub__c=PLAIN.format("c", "c"))
    (tmp_path / ".hidden.yaml").write_text("nonsense")
    (tmp_path / "readme.md").write_text("nonsense")
    assert [site.site for site in load(tmp_path)] == ["a", "b", "c"]
    assert [site.site for site in load([tmp_path / "b.yaml", tmp_path / "a.yaml"])] == ["b", "a"]
    assert [site.site for site in load([tmp_path / "a.yaml", tmp_path])] == ["a", "b", "c"]


def test_a_file_that_is_not_there_and_a_folder_without_files_are_problems(tmp_path: Path) -> None:
    assert told(tmp_path, tmp_path / "x.yaml", folder=tmp_path) == [
        f"{tmp_path}: there is no site file in this folder (their names end in .yaml)",
        "x.yaml: the file cannot be read: no such file or directory",
    ]


def test_problems_of_all_files_are_told_together(tmp_path: Path) -> None:
    put(tmp_path, a="site: a\nlayerz: {}\n", b="site: [", c=PLAIN.format("c", "c"))
    with pytest.raises(SiteErrors) as caught:
        load(tmp_path)
    files = [Path(problem.file).name for problem in caught.value.problems]
    assert files == ["a.yaml", "a.yaml", "b.yaml"]
    assert [loaded.site.site for loaded in survey(tmp_path).sites] == ["c"]


def test_each_document_of_a_file_is_a_site() -> None:
    sites = load_text(PLAIN.format("a", "a") + "---\n" + PLAIN.format("b", "b") + "---\n")
    assert [site.site for site in sites] == ["a", "b"]


def test_two_sites_of_one_name_are_told_with_both_places(tmp_path: Path) -> None:
    put(tmp_path, a=PLAIN.format("x", "a"), b="# b\n" + PLAIN.format("x", "b"))
    (only,) = told(tmp_path, folder=tmp_path)
    assert only == "b.yaml:2:7: site: there is another site x, at a.yaml:1:7 (rename one of them)"


def test_the_garbage_collector_goes_on_afterwards(tmp_path: Path) -> None:
    put(tmp_path, a=PLAIN.format("a", "a"))
    assert gc.isenabled()
    load(tmp_path)
    assert gc.isenabled()
    gc.disable()
    try:
        load(tmp_path)
        assert not gc.isenabled()
    finally:
        gc.enable()


# extends


def test_a_file_says_only_what_differs_from_the_one_it_extends(tmp_path: Path) -> None:
    put(
        tmp_path,
        base__common="politeness: {delay: 1s, concurrency: 2}\nschedule: {every: 1h}\nlayers: {a: {weight: 2, fields: {t: h1, u: h2}}}\n",
        site=(
            "extends: base/common.yaml\nsite: s\nseeds: http://s.example/\npoliteness: {delay: 5s}\nschedule:\n"
            "layers: {a: {fields: {t: {xpath: //b}}}, b: {match: ^/b}}\n"
        ),
    )
    (site,) = load(tmp_path / "site.yaml")
    assert (site.politeness.delay, site.politeness.concurrency) == (5.0, 2)
    assert site.schedule is None
    assert site.layers["a"].weight == 2
    assert (site.layers["a"].fields["t"].xpath, site.layers["a"].fields["t"].css) == ("//b", None)
    assert site.layers["a"].fields["u"].css == "h2"
    assert list(site.layers) == ["a", "b"]
    assert site.extends is None


def test_a_text_goes_whole_in_the_place_of_a_mapping(tmp_path: Path) -> None:
    put(
        tmp_path,
        base="layers: {a: {fields: {t: {css: h1, type: int}}, follow: [x, y]}}\n",
        site="extends: base.yaml\nsite: s\nseeds: http://s.example/\nlayers: {a: {match: ^/, fields: {t: h2}, follow: [z]}}\n",
    )
    (site,) = load(tmp_path / "site.yaml")
    rule = site.layers["a"].fields["t"]
    assert (rule.css, rule.type.value) == ("h2", "text")
    assert [follow.css for follow in site.layers["a"].follow] == ["z"]


def test_what_was_inherited_stands_where_it_was_written(tmp_path: Path) -> None:
    put(
        tmp_path,
        base="layers:\n  a:\n    fields:\n      t: {css: 'h1['}\n      u: {csss: x}\n",
        site="extends: base.yaml\nsite: s\nseeds: http://s.example/\nlayers:\n  a:\n    ordr: fifo\n    fields:\n      v: {css: 'h2['}\n",
    )
    assert [line.partition(": ")[0] for line in told(tmp_path / "site.yaml", folder=tmp_path)] == [
        "base.yaml:4:16",
        "base.yaml:5:11",
        "site.yaml:6:5",
        "site.yaml:8:16",
    ]
    put(
        tmp_path,
        base="layers:\n  a:\n    fields:\n      t: {css: 'h1['}\n",
        site="extends: base.yaml\nsite: s\nseeds: http://s.example/\n",
    )
    (only,) = told(tmp_path / "site.yaml", folder=tmp_path)
    assert only.startswith("base.yaml:4:16: layers.a.fields.t.css: this is not a CSS selector")


def test_of_a_folder_what_others_extend_is_no_site_unless_it_says_so(tmp_path: Path) -> None:
    put(
        tmp_path,
        base="layers: {a: {}}\n",
        whole=PLAIN.format("whole", "w"),
        s="extends: base.yaml\nsite: s\nseeds: http://s.example/\n",
        t="extends: whole.yaml\nsite: t\n",
    )
    assert [site.site for site in load(tmp_path)] == ["s", "t", "whole"]
    assert told(tmp_path / "base.yaml", folder=tmp_path) == [
        "base.yaml:1:1: site: site is missing (the file must say the site's name)"
    ]


def test_files_that_extend_each_other_are_shown_as_a_circle(tmp_path: Path) -> None:
    put(tmp_path, a="extends: b.yaml\nsite: a\n", b="extends: sub/c.yaml\n", sub__c="extends: ../a.yaml\n")
    (only,) = told(tmp_path / "a.yaml", folder=tmp_path)
    assert only.endswith(
        "extends: files that extend each other: a.yaml → b.yaml → sub/c.yaml → a.yaml (leave out one extends)"
    )
    put(tmp_path, d="extends: d.yaml\nsite: d\n")
    (only,) = told(tmp_path / "d.yaml", folder=tmp_path)
    assert "d.yaml → d.yaml" in only


def test_what_cannot_be_extended_is_told(tmp_path: Path) -> None:
    put(
        tmp_path,
        a="site: a\nextends: none.yaml\n",
        b="site: b\nextends: list.yaml\n",
        list="- x\n",
        c="site: c\nextends: bad.yaml\n",
        bad="a: [\n",
    )
    assert told(tmp_path / "a.yaml", folder=tmp_path)[0].startswith(
        "a.yaml:2:10: extends: none.yaml: the file cannot be read: no such file or directory"
    )
    assert "list.yaml is not one mapping" in told(tmp_path / "b.yaml", folder=tmp_path)[0]
    assert told(tmp_path / "c.yaml", folder=tmp_path)[0].startswith("bad.yaml:2:1: this is not YAML")
    with pytest.raises(SiteErrors, match="a text that is not a file cannot extend a file"):
        load_text("site: a\nextends: b.yaml\n")


# like


def test_a_layer_takes_from_another_what_it_does_not_say_but_never_its_urls() -> None:
    (site,) = load_text(
        "site: s\nseeds: http://s.example/a\nlayers:\n"
        "  a: {match: ^/a, examples: [http://s.example/a], weight: 3, fields: {t: h1}, follow: {css: a, to: b}}\n"
        "  b: {like: a, match: ^/b, fields: {u: h2}}\n"
        "  c: {like: b, weight: 5}\n"
    )
    b, c = site.layers["b"], site.layers["c"]
    assert (b.match, b.examples, b.weight, list(b.fields), b.follow[0].to, b.like) == (
        "^/b",
        (),
        3.0,
        ["t", "u"],
        "b",
        None,
    )
    assert (c.match, c.weight, list(c.fields)) == (None, 5.0, ["t", "u"])


def test_layers_that_are_like_each_other_and_layers_that_do_not_exist_are_told() -> None:
    text = "site: s\nseeds: http://s.example/\nlayers:\n  a: {like: b}\n  b: {like: a}\n  c: {like: aa}\n"
    with pytest.raises(SiteErrors) as caught:
        load_text(text)
    lines = str(caught.value).splitlines()
    assert "site.yaml:5:13: layers.b.like: layers that are like each other: a → b → a (leave out one like)" in lines
    assert "site.yaml:6:13: layers.c.like: there is no layer aa (did you mean a?)" in lines


# params


def test_a_file_with_parameters_in_its_name_is_a_site_for_each() -> None:
    sites = load_text(
        "site: news-{lang}-{kind}\nparams: {lang: [en, de], kind: [a, b], page: [1, 2, 3]}\n"
        "seeds: 'http://{lang}.example/{kind}/{page}'\nactive: true\n"
        "layers: {a: {match: '^/\\w{2}/\\d{1,3}', fields: {x: {value: '{lang} {{lang}}'}}}}\n"
    )
    assert [site.site for site in sites] == ["news-en-a", "news-en-b", "news-de-a", "news-de-b"]
    site = sites[2]
    assert site.seeds[0].url == "http://de.example/a/{page}"
    assert site.params == {"lang": "de", "kind": "a", "page": [1, 2, 3]}
    assert site.layers["a"].match == r"^/\w{2}/\d{1,3}"
    assert site.layers["a"].fields["x"].value == "de {{lang}}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", "name,host,on\nx,x.example,yes\ny,y.example,no\n"),
        (
            "rows.json",
            json.dumps(
                [{"name": "x", "host": "x.example", "on": "yes"}, {"name": "y", "host": "y.example", "on": "no"}]
            ),
        ),
        ("rows.yaml", "- {name: x, host: x.example, on: yes}\n- {name: y, host: y.example, on: no}\n"),
    ],
)
def test_rows_may_stand_in_a_file_beside_the_site(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / name).write_text(text)
    put(
        tmp_path,
        site=f"site: '{{name}}'\nparams: lists/{name}\nseeds: 'http://{{host}}/'\ntitle: '{{on}}'\nlayers: {{a: {{}}}}\n",
    )
    sites = load(tmp_path)
    assert [(site.site, site.seeds[0].url, site.title) for site in sites] == [
        ("x", "http://x.example/", "yes"),
        ("y", "http://y.example/", "no"),
    ]
    assert sites[0].params == {"name": "x", "host": "x.example", "on": "yes"}
    # A site is whole in itself once it is read: no file is looked for again.
    assert SiteSpec.model_validate(sites[0].model_dump(by_alias=True, exclude_unset=True)) == sites[0]


def test_values_that_are_no_texts_stay_what_they_are_where_they_stand_alone() -> None:
    (site, _) = load_text(
        "site: s{n}\nparams: [{n: 1, on: false, tags: [x, y]}, {n: 2, on: true, tags: [z]}]\nseeds: http://s.example/\n"
        "active: '{on}'\nlimits: {pages: '{n}'}\nlayers: {a: {valid: {contains: '{tags}'}, stage: 'n{n}'}}\n"
    )
    assert (site.active, site.limits.pages, site.layers["a"].valid.contains, site.layers["a"].stage) == (
        False,
        1,
        ("x", "y"),
        "n1",
    )


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("{lang: []}", "parameter lang has no value"),
        ("{lang: {a: 1}}", "has values that are not texts or numbers (rows are a list of mappings)"),
        ("{2x: [1]}", "'2x' cannot be the name of a parameter (use letters, digits and _)"),
        ("[{a: 1}, {b: 1}]", "row 2 has other names than row 1: a, b"),
        ("[x]", "row 1 is not a mapping"),
        ("none.csv", "none.csv cannot be read: no such file or directory (the name counts from the site file)"),
        ("rows.txt", "rows.txt is not a file of rows (its name must end in .csv, .json, .yaml or .yml)"),
        ("bad.csv", "bad.csv cannot be read: row 3 does not have as many cells as the first row"),
        ("bad.json", "bad.json cannot be read:"),
        ("map.yaml", "map.yaml holds no list of rows"),
        ("empty.yaml", "empty.yaml is empty"),
        ("{other: [1]}", "site: there is no parameter lang (there is only other)"),
        ("[{lang: x}, {lang: x}]", "two rows give the same site s-x"),
        ("5", "parameters are a mapping of lists, a list of rows, or the name of a file"),
    ],
)
def test_parameters_that_cannot_be_used_are_told(tmp_path: Path, params: str, said: str) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "bad.json").write_text("[")
    (tmp_path / "map.yaml").write_text("a: 1\n")
    (tmp_path / "empty.yaml").write_text("")
    put(tmp_path, site=f"site: 's-{{lang}}'\nparams: {params}\nseeds: http://s.example/\nlayers: {{a: {{}}}}\n")
    lines = told(tmp_path / "site.yaml", folder=tmp_path)
    assert said in lines[0]
    assert lines[0].startswith(("site.yaml:2:9: params: ", "site.yaml:1:7: site: "))


def test_rows_of_a_text_lie_in_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("lang\nde\nfr\n")
    text = "site: 's-{lang}'\nparams: rows.csv\nseeds: http://s.example/\nlayers: {a: {}}\n"
    assert [site.site for site in load_text(text, "elsewhere/s.yaml", tmp_path)] == ["s-de", "s-fr"]
    with pytest.raises(SiteErrors, match=r"elsewhere/s.yaml:2:9: params: a text that is not a file cannot name a file"):
        load_text(text, "elsewhere/s.yaml")


def test_rows_that_are_inherited_lie_beside_the_file_that_names_them(tmp_path: Path) -> None:
    put(tmp_path, base__base="params: rows.csv\nseeds: http://s.example/\nlayers: {a: {}}\n")
    (tmp_path / "base" / "rows.csv").write_text("lang\nde\n")
    (site,) = load_text("site: 's-{lang}'\nextends: base/base.yaml\n", "s.yaml", tmp_path)
    assert site.site == "s-de"


PARAMS = "site: 's-{k}'\nparams: PARAMS\nseeds: ['http://{host}/{k}/{n}']\nlayers: {a: {fields: {n: {value: '{n}'}}}}\n"


@pytest.mark.parametrize(
    ("params", "given", "sites"),
    [
        ("{host: a, k: [x, y], n: 1}", {"host": "b"}, [("s-x", ["b"]), ("s-y", ["b"])]),
        ("{host: a, k: [x, y], n: 1}", {"k": "z"}, [("s-z", ["a"])]),
        ("{host: a, k: x, n: 1}", {"k": ["u", "v"], "host": ["b", "c"]}, [("s-u", ["b", "c"]), ("s-v", ["b", "c"])]),
        ("[{host: a, k: x, n: 1}, {host: b, k: y, n: 1}]", {"host": "c"}, [("s-x", "c"), ("s-y", "c")]),
    ],
)
def test_other_values_count_instead_of_the_files_own(
    tmp_path: Path, params: str, given: dict[str, object], sites: list[tuple[str, object]]
) -> None:
    put(tmp_path, site=PARAMS.replace("PARAMS", params))
    found = load(tmp_path, given)
    hosts = [site.params["host"] for site in found if isinstance(site.params, dict)]
    assert [(site.site, host) for site, host in zip(found, hosts, strict=True)] == sites


@pytest.mark.parametrize(
    ("params", "given", "said"),
    [
        ("{host: a, k: x, n: 1}", {"hots": "b"}, "--param: hots: no site has this parameter (did you mean host?)"),
        ("[{host: a, k: x, n: 1}]", {"host": ["b", "c"]}, "parameter host stands in rows, where it has one value"),
        ("[{host: a, k: x, n: 1}, {host: a, k: y, n: 1}]", {"k": "z"}, "two rows give the same site s-z"),
        ("{host: a, k: x, n: 1}", {"host": []}, "parameter host has no value"),
    ],
)
def test_other_values_that_cannot_be_used_are_told(
    tmp_path: Path, params: str, given: dict[str, object], said: str
) -> None:
    put(tmp_path, site=PARAMS.replace("PARAMS", params))
    problems = [str(problem) for problem in survey(tmp_path, given).problems]
    assert len(problems) == 1
    assert said in problems[0]


def test_the_same_mistake_in_a_thousand_rows_is_told_once() -> None:
    rows = ", ".join(f"{{n: {n}}}" for n in range(1000))
    with pytest.raises(SiteErrors) as caught:
        load_text(
            f"site: s{{n}}\nparams: [{rows}]\nseeds: http://s.example/\nlayers: {{a: {{fields: {{t: 'h1['}}}}}}\n"
        )
    assert len(caught.value.problems) == 1


def test_layers_that_are_like_others_leave_the_places_of_other_files_alone() -> None:
    survey_text("site: s\nseeds: http://s.example/\nlayers: {a: {match: ^/a}, b: {match: ^/b, like: a}}\n")
    assert NOTHING_INSIDE == {}
