"""What is wrong with a site file is said in plain words, all at once, with its place."""

from __future__ import annotations

import pytest

from gossamer.errors import GossamerError, SiteError
from gossamer.sites.file.load import load_text, survey_text
from gossamer.sites.file.messages import keys_at
from gossamer.sites.file.problems import Problem, SiteErrors, did_you_mean, in_order, written

LAYERS = "layers: {a: {}}\n"


def told(text: str) -> list[str]:
    return [str(problem) for problem in survey_text(text, "f.yaml").problems if problem.severity == "error"]


def test_a_problem_is_printed_as_compilers_do() -> None:
    problem = Problem("f.yaml", 3, 7, "layers.post.fields.title.css", "this is not a CSS selector", "look again")
    assert str(problem) == "f.yaml:3:7: layers.post.fields.title.css: this is not a CSS selector (look again)"
    assert str(problem._replace(severity="warning", hint="")).startswith("f.yaml:3:7: warning: layers")
    assert str(Problem("f.yaml", 0, 0, "", "cannot be read")) == "f.yaml: cannot be read"
    assert written(("layers", "a", "follow", 0, "css")) == "layers.a.follow[0].css"


def test_problems_come_in_the_order_of_lines_and_each_once() -> None:
    one, two = Problem("a", 2, 1, "", "x"), Problem("a", 10, 1, "", "y")
    assert in_order([two, one, two]) == [one, two]


def test_errors_of_all_kinds_are_told_at_once_in_one_error() -> None:
    with pytest.raises(SiteErrors) as caught:
        load_text("tite: x\nsite: a\nlayers: {a: {mach: x, order: up}}\n", "f.yaml")
    assert isinstance(caught.value, SiteError)
    assert isinstance(caught.value, GossamerError)
    assert caught.value.exit_code == 2
    assert [problem.path for problem in caught.value.problems] == ["tite", "layers.a.mach", "layers.a.order"]
    assert str(caught.value).splitlines()[0] == "f.yaml:1:1: tite: unknown key tite (did you mean title?)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "site: a\nactive: yes\n" + LAYERS,
            "f.yaml:2:9: active: active is 'yes'; it must be true or false (write true)",
        ),
        ("site: 5\n" + LAYERS, "f.yaml:1:7: site: site is 5; it must be a text (put it in quotes)"),
        (LAYERS, "f.yaml:1:1: site: site is missing (the file must say the site's name)"),
        ("site: a\n", "f.yaml:1:1: layers: layers is missing (write layers: …)"),
        ("site: a\nlimits: {pages: true}\n" + LAYERS, "f.yaml:2:17: limits.pages: true is not a number"),
        (
            "site: a\nlimits: {pages: 1.5}\n" + LAYERS,
            "f.yaml:2:17: limits.pages: pages is 1.5; it must be a whole number",
        ),
        ("site: a\nlimits: {pages: -1}\n" + LAYERS, "f.yaml:2:17: limits.pages: pages is -1; it must be at least 0"),
        ("site: a\nlimits: {pages: 1e30}\n" + LAYERS, "it must be at most 9.0072e+15"),
        ("site: a\nlimits: 5\n" + LAYERS, "f.yaml:2:9: limits: limits is 5; it must be a mapping"),
        (
            "site: a\nschedule: {every: soon}\n" + LAYERS,
            "f.yaml:2:19: schedule.every: 'soon' is not a duration (write 0.5s, 10m, 1h30m or 7d)",
        ),
        ("site: a\nschedule: {every: 0}\n" + LAYERS, "schedule: every must be longer than 0"),
        (
            "site: a\nschedule: {every: 1h, blackout: [{from: 25:00, to: 6:00}]}\n" + LAYERS,
            "f.yaml:2:41: schedule.blackout[0].from: '25:00' cannot stand here (use a time of the day, as 06:00 or 22:30)",
        ),
        ("site: a\nschedule: {every: 1h, blackout: [{from: 1:00, to: 6:00, days: sunday}]}\n" + LAYERS, "sun"),
        ("site: a\nschedule: {every: 1h, overlap: reseeds}\n" + LAYERS, "(did you mean reseed?)"),
        ("site: a\nrequest: {max_size: 5 acres}\n" + LAYERS, "is not a size (write 500000, 500kB or 10MiB)"),
        (
            "site: a\nlayers: {a b: {}}\n",
            "f.yaml:2:10: layers.a b: 'a b' cannot be a name (use the letters a to z and A to Z, digits, _, : and -, beginning with a letter, a digit or _)",
        ),
        ("site: a\nlayers: {a: {order: fifoo}}\n", "it must be fifo, lifo or priority (did you mean fifo?)"),
        ("site: a\nlayers: {a: {tier: deep}}\n", "it must be deepest or a whole number (did you mean deepest?)"),
        (
            "site: a\nlayers: {a: {fields: {t: {css: a, xpath: b}}}}\n",
            "layers.a.fields.t: css and xpath exclude each other",
        ),
        ("site: a\nlayers: {a: {fields: {t: }}}\n", "layers.a.fields.t: t is empty; it must be a mapping"),
        (
            "site: a\nlayers: {a: {fields: {t: {css: a, clean: [stripp]}}}}\n",
            "layers.a.fields.t.clean[0]: this is 'stripp'; it must be strip,",
        ),
        (
            "site: a\nlayers: {a: {fields: {t: {css: a, clean: {replce: [a, b]}}}}}\n",
            "layers.a.fields.t.clean.replce: unknown key replce (did you mean replace?)",
        ),
        ("site: a\nlayers: {a: {fields: {t: {css: a, clean: {lower: 1}}}}}\n", "unknown key lower"),
        ("site: a\nlayers: {a: {fields: {t: {css: a, clean: {prefix: a, suffix: b}}}}}\n", "a step is exactly one of"),
        (
            "site: a\nlayers: {a: {fields: {t: {css: a, type: itn}}}}\n",
            "type is 'itn'; it must be text, int, float, decimal, bool, date, datetime, json, url or bytes (did you mean int?)",
        ),
        (
            "site: a\nlayers: {a: {fields: {t: {css: a, from: title}}}}\n",
            "'title' cannot stand here (use one of content, url",
        ),
        ("site: a\nlayers: {a: {fields: {t: {css: a, source: url}}}}\n", "unknown key source"),
        (
            "site: a\nlayers: {a: {follow: [{css: a, too: a}]}}\n",
            "layers.a.follow[0].too: unknown key too (did you mean to?)",
        ),
        (
            "site: a\nlayers: {a: {follow: {css: a, too: a}}}\n",
            "layers.a.follow.too: unknown key too (did you mean to?)",
        ),
        (
            "site: a\nlayers: {a: {follow: [{to: a}]}}\n",
            "nothing says which links (write css, xpath, regex, jmespath, from or url)",
        ),
        ("site: a\nlayers: {a: {hooks: {on_fail: f}}}\n", "'f' cannot stand here (use module:function)"),
        ("site: a\nseeds: [{url: a, feed: b}]\n" + LAYERS, "a seed is exactly one of url, sitemap, feed and tasks"),
        ("site: a\nlayers: {a: {request: {auth: [me]}}}\n", "layers.a.request.auth[1]: this is missing"),
        ("site: a\nlayers: {a: {weight: 0}}\n", "weight is 0; it must be at least 0.001"),
        ("site: a\nstore: {a: {children: {x: {jsn: true}}}}\n" + LAYERS, "unknown key jsn (did you mean json?)"),
        ("site: a\nuser_agent: x\n" + LAYERS, "unknown key user_agent (it stands under request: request: {user_agent: …})"),
        ("site: a\nfields: {t: h1}\n" + LAYERS, "unknown key fields (it stands in a layer, below layers: check the indentation)"),
        ("site: a\nlayers: {a: {seeds: x}}\n", "unknown key seeds (it stands at the top of the file: check the indentation)"),
        ("site: a\nlayers: {a: {table: x}}\n", "unknown key table (it stands under store: store: {a: {table: …}})"),
        ("site: a\nlayers: {a: {fields: {t: {selector: h1}}}}\n", "unknown key selector (it is called css here)"),
        ("site: a\nlayers: {a: {fields: {t: {css: a, type: str}}}}\n", "bytes (did you mean text?)"),
        ("site: a\nstore: {table: t}\n" + LAYERS, "it must be a mapping (store has a mapping for each layer: store: {LAYER: {table: …}})"),
        ("site: a\nlayers: {a: {follow: {css: a[rel=next], to: a}}}\n", "f.yaml:2:29: this is not YAML: while parsing a flow mapping did not find expected ',' or '}' (inside { } and [ ], a text with brackets or commas in it needs quotes: 'a[rel=next]…')"),
        ("site: a\nlayers: {a: {fields: {t: *}}}\n", "a text that begins with * or & needs quotes"),
        ("- a\n", "f.yaml:1:1: a site file is a mapping (it begins with site: name)"),
        ("", "f.yaml:1:1: the file is empty (a site file begins with site: name)"),
        ("# nothing\n", "the file is empty"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_sentence(text: str, said: str) -> None:
    (only,) = told(text)
    assert said in only


def test_of_several_forms_the_one_that_got_furthest_is_meant() -> None:
    assert told("site: a\nlayers: {a: {require: [a, {b: 1}]}}\n") == [
        "f.yaml:2:27: layers.a.require[1]: this is a mapping; it must be a text or a list"
    ]


def test_keys_of_any_mapping_are_known() -> None:
    assert "layers" in keys_at(())
    assert {"css", "from", "nth"} <= set(keys_at(("layers", "a", "fields", "b", "fields", "c")))
    assert {"to", "pass", "json"} <= set(keys_at(("layers", "a", "follow", 3)))
    assert "replace" in keys_at(("layers", "a", "fields", "b", "clean", 0))
    assert keys_at(("params",)) == ()


def test_the_nearest_word_is_meant_or_the_few_are_named() -> None:
    assert did_you_mean("psot", ["post", "list"]) == "did you mean post?"
    assert did_you_mean("xyz", ["post", "list"]) == "there are post and list"
    assert did_you_mean("xyz", []) == ""
    assert did_you_mean("xyz", map(str, range(100))) == ""
