"""The pages of the demo forum: pure functions of a seed and a path."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b

_PROSE = (
    "thread river signal amber window orbit garden copper lantern meadow harbor pixel violet anchor summit "
    "ember canyon willow compass marble falcon cinder velvet prairie quartz saddle timber walnut zephyr island"
)
_WORDS = _PROSE.split()
_AUTHORS = (
    "ada",
    "brahe",
    "curie",
    "darwin",
    "euler",
    "franklin",
    "gauss",
    "hopper",
    "ines",
    "jürgen",
    "kepler",
    "zoë",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """The share of pages (0 to 1) with each kind of trouble; all off by default. Which ones is fixed by the seed.

    `slow` pages take 0.2 to 1 s. `redirect`: the links to these posts lead over a 302. `busy` and `unavailable`: the
    first request is answered with 429 (and `retry_after` seconds) or 503, later ones with the page. `broken`: invalid
    HTML, or bytes that are not of the encoding declared; the links in it are sound. `missing`: the page also
    has a link that is answered with 404.
    """

    slow: float = 0.0
    redirect: float = 0.0
    busy: float = 0.0
    unavailable: float = 0.0
    broken: float = 0.0
    missing: float = 0.0
    retry_after: int = 1


@dataclass(frozen=True, slots=True)
class ForumPage:
    """An answer as it is to be sent. `first_status` is what the first request gets instead; 0 means the page itself."""

    status: int
    body: bytes
    location: str = ""
    retry_after: int = 0
    delay: float = 0.0
    first_status: int = 0
    kind: str = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Layout:
    """The shape of one forum: `boards` with `lists` list pages each, `posts` per list page, and for each post a chain
    of `comments` comment pages, each linked from the one before.

    Equal layouts are equal byte for byte, in every process and on every machine.
    """

    boards: int = 4
    lists: int = 3
    posts: int = 10
    comments: int = 2
    seed: int = 1
    trouble: Trouble = field(default_factory=Trouble)

    def paths(self) -> Iterator[str]:
        """The path of every page that is answered with 200 in the end, each once."""
        yield "/"
        for board in range(self.boards):
            for number in range(1, self.lists + 1):
                yield _list(board, number)
                for post in self._posts_of(board, number):
                    yield from (_comments(post, depth) for depth in range(self.comments + 1))

    def redirects(self) -> Iterator[str]:
        """Every path on the site's pages that is answered with 302."""
        return (f"/go{path}" for path in self.paths() if _is_post(path) and self.hit("redirect", path))

    def missing(self) -> Iterator[str]:
        """Every path on the site's pages that is answered with 404."""
        return (f"/gone{path}" for path in self.paths() if self.hit("missing", path))

    def title(self, path: str) -> str:
        """What stands in the `h1` of the page."""
        return " ".join(_text(self.seed, path, 4)).capitalize()

    def hit(self, kind: str, path: str) -> bool:
        """Whether the page at `path` has this kind of trouble."""
        share: float = getattr(self.trouble, kind)
        return share > 0 and self._chance(kind, path) < share

    def page(self, path: str, elsewhere: tuple[str, ...] = ()) -> ForumPage:
        """What is to be answered; `elsewhere` are addresses that the front page links to as well."""
        if path.startswith("/go/") and path[3:] in self._known and self.hit("redirect", path[3:]):
            return ForumPage(302, b"", location=path[3:])
        if path not in self._known:
            return ForumPage(404, b"<html><body><h1>Not found</h1></body></html>")
        first = 429 if self.hit("busy", path) else 503 if self.hit("unavailable", path) else 0
        delay = 0.2 + 0.8 * self._chance("seconds", path) if self.hit("slow", path) else 0.0
        return ForumPage(200, self._body(path, elsewhere), delay=delay, first_status=first)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths())

    def _chance(self, kind: str, path: str) -> float:
        return int.from_bytes(blake2b(f"{self.seed} {kind} {path}".encode(), digest_size=4).digest()) / 2**32

    def _posts_of(self, board: int, number: int) -> Iterator[str]:
        return (f"/post/{board}-{number}-{post}" for post in range(self.posts))

    def _links(self, path: str) -> Iterator[tuple[str, str]]:
        """(class, address) of every link to a page of the site."""
        if path == "/":
            yield from (("board", _list(board, 1)) for board in range(self.boards))
        elif path.startswith("/board/"):
            name, _, number = path.removeprefix("/board/").partition("?page=")
            for post in self._posts_of(int(name), int(number or 1)):
                yield "post", f"/go{post}" if self.hit("redirect", post) else post
            if int(number or 1) < self.lists:
                yield "next", _list(int(name), int(number or 1) + 1)
            yield "home", "/"
        else:
            post, _, depth = path.partition("/comments/")
            if int(depth or 0) < self.comments:
                yield "comments", _comments(post, int(depth or 0) + 1)
            board, number, _ = post.removeprefix("/post/").split("-")
            yield "board", _list(int(board), int(number))
        if self.hit("missing", path):
            yield "stale", f"/gone{path}"

    def _body(self, path: str, elsewhere: tuple[str, ...]) -> bytes:
        words = _text(self.seed, path, 200)
        links = [*self._links(path), *(("forum", address) for address in elsewhere if path == "/")]
        items = "\n".join(
            f'<li class="{kind}"><a class="{kind}" href="{to}">{words[at]} {words[-at]}</a></li>'
            for at, (kind, to) in enumerate(links)
        )
        author = _AUTHORS[len(words[0]) * len(words[1]) % len(_AUTHORS)]
        paragraphs = "".join(f"<p>{' '.join(words[at : at + 40])}.</p>\n" for at in range(0, 200, 40))
        title = self.title(path)
        html = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n<body>\n'
            f'<h1 class="title">{title}</h1>\n<span class="author">{author}</span>\n'
            f'<div class="body">\n{paragraphs}</div>\n<ul class="links">\n{items}\n</ul>\n</body></html>\n'
        )
        if not self.hit("broken", path):
            return html.encode()
        if self._chance("encoding", path) < 0.5:
            return html.replace(author, "jürgen größer").encode("latin-1", "replace")
        return html.replace("</p>", "").replace("</li>", "<b>").replace("</body>", "<div <p & \x00>").encode()


def _list(board: int, number: int) -> str:
    return f"/board/{board}" if number == 1 else f"/board/{board}?page={number}"


def _comments(post: str, depth: int) -> str:
    return f"{post}/comments/{depth}" if depth else post


def _is_post(path: str) -> bool:
    return path.startswith("/post/") and "/comments/" not in path


@lru_cache(maxsize=4096)
def _text(seed: int, path: str, count: int) -> list[str]:
    return random.Random(f"{seed} {path}").choices(_WORDS, k=count)
