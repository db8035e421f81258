"""Site files that the tests of these commands share."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.support.site import Site

FORUM = """\
site: forum
seeds: [SITE/list/1]
politeness: {robots: ignore}
layers:
  list:
    match: '^/list/(?P<page>\\d+)'
    follow:
      - {css: a.post, to: post, pass: [page]}
      - {css: a.next, to: list, pages: 2}
      - a.any
    fields: {page: {from: url, regex: '(\\d+)$', type: int}}
  post:
    match: '^/post/'
    require: [title]
    fields:
      title: h1
      price: {css: .price, type: decimal}
      at: {css: time, attr: datetime, type: datetime}
      views: {css: .views, type: int}
      list: {from: parent.page, type: int}
      replies: {each: .reply, fields: {text: .t}}
"""
POST = """<h1>A post</h1><b class="price">1.50</b><time datetime="2024-02-03T04:05:06Z"></time><i class=views>many</i>
<p class=reply><b class=t>ü</b></p><p class=reply><b class=t>two</b></p>"""
LIST = (
    '<a class="post" href="/post/1">p</a><a class="next" href="/list/2">n</a><a class=any href="/post/2?b=2&a=1">x</a>'
)


def write(name: str, text: str, site: Site | None = None) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(textwrap.dedent(text).replace("SITE", site.url if site else "http://x.example"), "utf-8")
    return name


STORED = """\
site: shop
seeds: [SITE/list/1]
politeness: {robots: ignore}
layers:
  list:
    match: '^/list/'
    fields: {name: h1}
    follow: [{css: a, to: item, pass: [name]}]
  item:
    match: '^/item/'
    fields: {title: h1, list: {from: parent.name}, offers: {each: .o, fields: {n: b}}}
    follow: [{css: a, to: review}]
  review: {match: '^/review/', fields: {text: p}}
store:
  list: {key: [url]}
  item: {key: [title], add: [url, parent]}
  review: {add: [parent]}
"""
