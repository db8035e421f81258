"""The JSON Schema for editors, and the reference: made of the same classes as the check."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from gossamer.sites.file.load import survey_text
from gossamer.sites.file.schema import schema
from gossamer.sites.file.yaml import read

WHOLE = """
site: bbs-{forum}
title: A forum
params: {forum: [python, rust]}
seeds:
  - http://bbs.example/{forum}/list/[1-3]/1
  - {sitemap: http://bbs.example/sitemap.xml, since: 1d}
schedule:
  cron: "*/10 * * * *"
  tz: Europe/Berlin
  jitter: 30
  deadline: 9m
  overlap: reseed
  catch_up: none
  blackout: [{from: 22:00, to: '6:00', days: [sat, sun], tz: UTC}, {from: 3:00, to: 4:00, days: mon}]
limits: {backlog: 10000, pages: 1e6, depth: '{depth}'}
politeness: {delay: 0.5s, concurrency: 4, adaptive: true, robots: obey, hosts: {bbs.example: {delay: 1s}}}
seen: {policy: rolling, window: 7d}
identity: [id, page]
request: {max_size: 10MiB, timeout: 1h30m, retry_status: 500, verify: ca.pem, auth: ['${A}', '${B}']}
proxies: {vip: {urls: http://p:1}}
layers:
  list:
    match: '^/\\w+/list/(?P<page>\\d+)'
    seen: round
    order: lifo
    follow:
      - a.post
      - {css: a.next, to: list, pages: 5}
  post:
    tier: deepest
    weight: 10
    revisit: {every: 1h, min: 10m, max: 7d, adaptive: true}
    require: [title, [author, uid]]
    valid: {status: 200, min_length: 500, contains: 'id="post"'}
    identity: none
    records: .item
    fields:
      title: h1
      author: {xpath: '//a[@class="u"]/text()', clean: [squeeze, {replace: [a, b]}]}
      uid: {css: .uid, clean: digits, type: int}
      replies: {each: .reply, fields: {text: .t, at: {css: time, attr: datetime, type: datetime}}}
    follow: {css: a.comments, to: comment, when: replies, pass: title}
  comment: {like: post, format: json, stage: details, follow: ~, records: ~, require: ~, fields: {title: ~, author: ~, uid: ~, replies: ~, b: {jmespath: b}}}
store: {post: {table: posts, key: title, add: fetched_at, children: {replies: {json: true}}}}
hooks: {after_round: 'm:f'}
"""


@pytest.fixture(scope="module")
def validator() -> Any:
    made = schema()
    Draft202012Validator.check_schema(made)
    return Draft202012Validator(made)


def data(text: str) -> Any:
    (document,) = read(text, "a.yaml")
    return document.data


def test_what_the_check_takes_the_schema_takes(validator: Any) -> None:
    text = WHOLE.replace("'{depth}'", "8")
    assert [str(problem) for problem in survey_text(text).problems if problem.severity == "error"] == []
    for one in (
        text,
        WHOLE,
        "site: s\nlayers: {}\n",
        "extends: base.yaml\n",
        "extends: base.yaml\nlayers: {a: {fields: ~}}\n",
    ):
        assert [error.message for error in validator.iter_errors(data(one))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "layers: {}\n",
        "site: s\n",
        "site: s\nlayerz: {}\nlayers: {}\n",
        "site: s\nactive: maybe\nlayers: {}\n",
        "site: s\nlayers: {a: {ordr: fifo}}\n",
        "site: s\nlayers: {a: {order: fifoo}}\n",
        "site: s\nlayers: {a: {fields: {t: {csss: x}}}}\n",
        "site: s\nlayers: {a: {fields: {t: 5}}}\n",
        "site: s\nlayers: {a: {follow: [{css: a, to: 5}]}}\n",
        "site: s\nlayers: {a: {seen: always}}\n",
        "site: s\nlayers: {a: {identity: some}}\n",
        "site: s\nschedule: {every: soon}\nlayers: {}\n",
        "site: s\nrequest: {max_size: 5 acres}\nlayers: {}\n",
        "site: s\nlimits: {pages: -1}\nlayers: {}\n",
        "site: s\nlayers: {a: {weight: 0}}\n",
        "site: s\nlayers: {a b: {}}\n",
        "site: s\nlayers: {a: {hooks: {on_fail: f}}}\n",
        "site: s\nlayers: {a: {fields: {t: {css: a, clean: [stripp]}}}}\n",
    ],
)
def test_what_the_check_refuses_by_its_form_the_schema_refuses(validator: Any, wrong: str) -> None:
    assert survey_text(wrong).problems
    assert list(validator.iter_errors(data(wrong)))


def test_no_mark_of_ours_is_left_in_it() -> None:
    def keys(node: Any) -> set[str]:
        if isinstance(node, dict):
            return set(node) | {key for value in node.values() for key in keys(value)}
        return {key for item in node for key in keys(item)} if isinstance(node, list) else set()

    made = schema()
    assert "written" not in keys(made)
    rule = made["$defs"]["FieldRule"]["anyOf"][1]["properties"]
    assert {"default", "format", "value"} <= set(rule)
    assert "Another site file" in made["properties"]["extends"]["description"]
