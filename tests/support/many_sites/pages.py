"""What the hosts of `manysites` say: news with comments, shops with prices, and a corner for each thing that a crawler must cope with.

A page is a function of what was asked, of how often it was asked before, and of the epoch, so that an audit can tell what must be there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

RESET = -1
"""The status of an answer that never comes: the connection is reset."""
ARTICLES, PRODUCTS, PAUSED, RUSSIAN = 4, 3, 24, "Привет, мир"
ROBOTS = "User-agent: *\nDisallow: /n/*/private/\nDisallow: /r/private/\n"


class HostRequest(NamedTuple):
    """One request; `number` counts those for the same target, from 1."""

    host: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    number: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    def query(self, name: str, default: str = "") -> str:
        return parse_qs(urlsplit(self.target).query).get(name, [default])[0]


class HostReply(NamedTuple):
    body: bytes
    status: int = 200
    headers: dict[str, str] = {"Content-Type": "text/html; charset=utf-8"}  # noqa: RUF012 - never changed
    pause: float = 0.0


Page = Callable[..., HostReply]
_PAGES: list[tuple[re.Pattern[str], Page]] = []


def page(pattern: str) -> Callable[[Page], Page]:
    def add(made: Page) -> Page:
        _PAGES.append((re.compile(pattern), made))
        return made

    return add


def html(text: str, **more: object) -> HostReply:
    return HostReply(f"<html><body>{text}</body></html>".encode(), **more)  # type: ignore[arg-type]


def data(value: object) -> HostReply:
    return HostReply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})


def xml(text: str) -> HostReply:
    return HostReply(text.encode(), headers={"Content-Type": "application/xml"})


def moved(to: str) -> HostReply:
    return HostReply(b"", 302, {"Location": to, "Content-Type": "text/html"})


def links(*targets: str, kind: str = "go") -> str:
    return "".join(f'<a class="{kind}" href="{target}">x</a>' for target in targets)


class HostPages:
    """All of them. `ports` are those of the hosts."""

    def __init__(self) -> None:
        self.epoch, self.ports = 1, list[int]()

    def answer(self, asked: HostRequest) -> HostReply:
        if asked.path == "/robots.txt":
            return HostReply(ROBOTS.encode(), headers={"Content-Type": "text/plain"})
        for pattern, made in _PAGES:
            found = pattern.fullmatch(asked.path)
            if found:
                return made(self, asked, *found.groups())
        return html("nothing here", status=404)

    def origin(self, asked: HostRequest) -> str:
        return f"http://127.0.0.1:{self.ports[asked.host]}"


def number_of(name: str) -> int:
    """The number in a site's name: faults go by it."""
    return int(re.sub(r"\D", "", name) or 0)


# News: list → article → comments.


@page(r"/n/(\w+)/list/(\d+)")
def news_list(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    base, first = f"/n/{name}", 2 * int(number) - 1
    found = [f"{base}/article/{first}", f"{base}/article/{first}?utm_source=feed"]
    # The fourth is reached by a redirect, and some of what is named is gone, or nobody's business.
    found += [f"{base}/go/{first + 1}" if first + 1 == ARTICLES else f"{base}/article/{first + 1}"]
    found += [f"{base}/article/404", f"{base}/private/{number}"]
    turn = links(f"{base}/list/{int(number) + 1}", kind="next")
    return html(f'<h2 class="section">Section {number}</h2>{links(*found, kind="post")}{turn}')


@page(r"/n/(\w+)/go/(\d+)")
def news_moved(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    return moved(f"../article/{number}")


@page(r"/n/(\w+)/archive/(\d+)")
def news_archive(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    return html(f"<h1>Archive {number} of {name}</h1>")


@page(r"/n/(\w+)/article/([1-4])")
def news_article(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    n, site = int(number), number_of(name)
    if asked.number == 1 and n == 1 and site % 3 == 0:
        return html("broken for a moment", status=500)
    if asked.number == 1 and n == 3 and site % 4 == 0:
        return HostReply(b"", RESET)
    if asked.number == 1 and n == 2 and site % 5 == 0:
        return html("a page that is not the right one")
    author = f'<a class="u">Author {n}</a>' if n % 2 else f'<b class="uid">u{n}</b>'
    paragraphs = "".join(f"<p>Paragraph {p} of {n}</p>" for p in range(n))
    comments = f'<a class="comments" href="/n/{name}/comments/{n}?page=1">c</a><i class="count">{n % 3}</i>'
    # Tags that nobody closes, and some that were never opened.
    text = f'<div id="article"><h1> Title {n} of {name} </h1>{author}<span>views: {n * 100}</span></em></table>'
    text += f'<time datetime="2024-05-0{n}T10:00:00">t</time><div class=rating>{n},5<div class=tags><i>a</i><i>b{n}</i></div>'
    return HostReply(
        f"<html><body>{text}<div class=text>{paragraphs}</div>{comments}".encode(),
        headers={"Content-Type": "text/html", "ETag": f'"{name}-{n}"'},
        pause=0.5 if n == ARTICLES else 0.02,
    )


def comments_of(article: int) -> int:
    """How many pages of two comments each an article has."""
    return article % 3


@page(r"/n/(\w+)/comments/(\d+)")
def news_comments(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    n, turn = int(number), int(asked.query("page", "1"))
    items = [{"id": f"{n}-{turn}-{c}", "body": f"Comment {c} on {n}", "likes": c} for c in range(2)]
    further = f"/n/{name}/comments/{n}?page={turn + 1}" if turn < comments_of(n) else None
    return data({"items": items, "next": further})


# Shops: a sitemap, a search, prices that change.


@page(r"/s/(\w+)/sitemap\.xml")
def shop_map(pages: HostPages, asked: HostRequest, name: str) -> HostReply:
    named = "".join(f"<url><loc>{pages.origin(asked)}/s/{name}/p/{p}?ref=map</loc></url>" for p in range(1, PRODUCTS))
    return xml(f"<urlset>{named}</urlset>")


@page(r"/s/(\w+)/search")
def shop_search(pages: HostPages, asked: HostRequest, name: str) -> HostReply:
    said = parse_qs(asked.body.decode())
    if asked.method != "POST" or said.get("q") != ["all"] or said.get("shop") != [name]:
        return html("a form is needed", status=400)
    return html(links(f"/s/{name}/p/{PRODUCTS}", f"/s/{name}/p/1?ref=search"))


def price(product: int, epoch: int) -> str:
    return f"{product}.{'99' if product == 1 and epoch > 1 else '50'}"


@page(r"/s/(\w+)/p/(\d+)")
def shop_product(pages: HostPages, asked: HostRequest, name: str, number: str) -> HostReply:
    p = int(number)
    variants = "".join(f'<li data-v="{v}">{v * p} left</li>' for v in ("s", "m")[: 1 + p % 2])
    shown = price(p, pages.epoch).replace(".", ",")
    return html(f'<h1>Product {p}</h1><b class="price">EUR {shown}</b><ul>{variants}</ul>')


# A corner for each.


@page(r"/f/feed\.xml")
def feed(pages: HostPages, asked: HostRequest) -> HostReply:
    old = f"<item><link>{pages.origin(asked)}/f/item/9</link><pubDate>Mon, 02 Jan 2006 15:04:05 GMT</pubDate></item>"
    new = "".join(f"<item><link>{pages.origin(asked)}/f/item/{n}</link></item>" for n in (1, 2))
    return xml(f"<rss><channel>{old}{new}</channel></rss>")


@page(r"/f/index\.xml")
def feed_index(pages: HostPages, asked: HostRequest) -> HostReply:
    return xml(f"<sitemapindex><sitemap><loc>{pages.origin(asked)}/f/map.xml</loc></sitemap></sitemapindex>")


@page(r"/f/map\.xml")
def feed_map(pages: HostPages, asked: HostRequest) -> HostReply:
    return xml(f"<urlset><url><loc>{pages.origin(asked)}/f/item/3</loc></url></urlset>")


@page(r"/d/[ab]/(\d+)")
def deeper(pages: HostPages, asked: HostRequest, number: str) -> HostReply:
    n = int(number) + 1
    return html(links(f"/d/{'ab'[n % 2]}/{n}"))


@page(r"/r/list")
def some_forbidden(pages: HostPages, asked: HostRequest) -> HostReply:
    return html(links("/r/open/1", "/r/private/1", "/r/open/2"))


@page(r"/o/(lifo|prio|weight)/list")
def ordered(pages: HostPages, asked: HostRequest, kind: str) -> HostReply:
    if kind == "weight":
        both = [f"/o/weight/{lane}/{n}" for lane in ("light", "heavy") for n in range(1, 9)]
        return html(links(*both, "/o/weight/last/1", "/o/weight/last/2"))
    return html("".join(links(f"/o/{kind}/{n}", kind=f"p{n % 3}") for n in range(1, 7)))


@page(r"/e/list")
def faults(pages: HostPages, asked: HostRequest) -> HostReply:
    names = ("heals", "never", "loop", "lack", "invalid", "refused", "slow", "reset", "gone", "hops", "fine", "raises")
    return html(links(*(f"/e/{name}" for name in names)))


@page(r"/e/(\w+)")
def fault(pages: HostPages, asked: HostRequest, name: str) -> HostReply:
    fine = f'<h1>{name}</h1><b class="size">7</b>'
    match name:
        case "heals" if asked.number < 3:
            return html("not yet", status=503 if asked.number == 1 else 500)
        case "never":
            return html("never", status=500)
        case "loop":
            return moved("/e/loop2")
        case "loop2":
            return moved("/e/loop")
        case "hops":
            return moved("/e/arrived")
        case "lack":
            return html('<b class="size">7</b>')
        case "invalid":
            return html(f"<p>captcha</p>{fine}")
        case "refused":
            return html(f'<h1>{name}</h1><b class="size">{"9" * 30}</b>')
        case "slow" if asked.number == 1:
            return html(fine, pause=8.0)
        case "reset" if asked.number == 1:
            return HostReply(b"", RESET)
        case "gone":
            return html("gone", status=410)
    return html(fine)


@page(r"/x/(\d+)")
def throttled(pages: HostPages, asked: HostRequest, number: str) -> HostReply:
    if asked.number == 1 and number == "3":
        return HostReply(b"", 429, {"Retry-After": "2", "Content-Type": "text/html"})
    return html(f"<h1>x{number}</h1>")


@page(r"/z/list")
def many(pages: HostPages, asked: HostRequest) -> HostReply:
    return html(links(*(f"/z/{n}" for n in range(PAUSED))))


@page(r"/y/list")
def changing(pages: HostPages, asked: HostRequest) -> HostReply:
    return html(links("/y/1", "/y/2") + links("/y/3", kind="more"))


@page(r"/w/list")
def remembered(pages: HostPages, asked: HostRequest) -> HostReply:
    return html(links("/w/1", "/w/2", "/w/1#again"))


@page(r"/c/(\d+)")
def capped(pages: HostPages, asked: HostRequest, number: str) -> HostReply:
    return html(links(*(f"/c/{n}" for n in range(1, 20))) if number == "0" else f"<h1>c{number}</h1>")


@page(r"/k/list")
def hooked(pages: HostPages, asked: HostRequest) -> HostReply:
    return html(links("/k/item/1", "/k/item/2", "/k/item/3"))


@page(r"/u/(\d+)")
def charsets(pages: HostPages, asked: HostRequest, number: str) -> HostReply:
    encoding, said = ("windows-1251", "utf-8") if number == "1" else ("koi8-r", "koi8-r")
    text = f'<meta charset="{said}"><h1>{RUSSIAN}</h1><p>open'
    return HostReply(text.encode(encoding), headers={"Content-Type": "text/html"})


@page(r"/i/(login|api)")
def private(pages: HostPages, asked: HostRequest, kind: str) -> HostReply:
    right = asked.headers.get("authorization") == "Basic bWU6c2VjcmV0" and "theme=dark" in asked.headers.get(
        "cookie", ""
    )
    if not right or asked.headers.get("x-key") != "k1":
        return html("who are you?", status=403)
    if kind == "login":
        return html('<h1>In</h1><input name="token" value="t77">')
    sent = json.loads(asked.body or b"null")
    return data({"echo": sent, "method": asked.method})


@page(r"/(t|p|q|k/item|f/item|w|y|z|r/open|o/.*)/(\d+|list)")
def plain(pages: HostPages, asked: HostRequest, kind: str, number: str) -> HostReply:
    return html(f"<h1>{kind} {number}</h1>")
