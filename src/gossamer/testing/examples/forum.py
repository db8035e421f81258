"""The forum of examples/sites/forum.yaml: boards with lists of posts, posts with files, comments as JSON."""

from __future__ import annotations

from typing import Any

from gossamer.testing.examples.server import NOT_FOUND, Example, ExampleRequest, ExampleResponse, data, html

BOARDS = ("python", "rust")
LISTS, POSTS = 3, 5
"""Lists of a board, posts of a list."""
PER_PAGE = 2
"""Comments on one page."""
AUTHORS = ("Ada", "Blaise", "Chloë", "Dmitri")


class ForumExample(Example):
    name = "forum"
    port = 8101

    def posts(self) -> list[dict[str, Any]]:
        """Every post, as a crawl should find it."""
        return [_post(number) for number in range(1, len(BOARDS) * LISTS * POSTS + 1)]

    def comments(self) -> list[dict[str, Any]]:
        return [comment for post in self.posts() for comment in _comments(post["id"])]

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        parts = asked.path.strip("/").split("/")
        match parts:
            case ["board", board, page] if board in BOARDS and page.isdigit() and 1 <= int(page) <= LISTS:
                return ExampleResponse(_list(board, int(page)))
            case ["post", number] if number.isdigit() and 1 <= int(number) <= len(self.posts()):
                return ExampleResponse(_page(_post(int(number))))
            case ["comments", name] if name.removesuffix(".json").isdigit():
                return data(_answer(int(name.removesuffix(".json")), int(asked.query.get("page", 1))))
        return NOT_FOUND


def _post(number: int) -> dict[str, Any]:
    board = BOARDS[(number - 1) // (LISTS * POSTS)]
    return {
        "id": number,
        "board": board,
        "title": f"Question {number} about {board}",
        "author": AUTHORS[number % len(AUTHORS)],
        "views": 997 * number,
        "written": f"2026-03-{1 + number % 28:02d}T08:30:00+01:00",
        "files": [{"name": f"trace-{number}-{place}.txt", "size": 10 * number + place} for place in range(number % 3)],
        "comments": number % 6,
    }


def _comments(number: int) -> list[dict[str, Any]]:
    count = _post(number)["comments"]
    return [
        {
            "id": 100 * number + place,
            "author": {"name": AUTHORS[(number + place) % len(AUTHORS)]},
            "text": f"Answer {place} to question {number}",
            "at": 1_772_000_000 + 3600 * number + place,
        }
        for place in range(count)
    ]


def _list(board: str, page: int) -> bytes:
    first = BOARDS.index(board) * LISTS * POSTS + (page - 1) * POSTS + 1
    rows = [
        f'<li><a class="post" href="/post/{number}?from=list">{_post(number)["title"]}</a></li>'
        for number in range(first, first + POSTS)
    ]
    turn = f'<a class="next" href="/board/{board}/{page + 1}">older</a>' if page < LISTS else ""
    return html(board, f"<ul>{''.join(rows)}</ul>{turn}")


def _page(post: dict[str, Any]) -> bytes:
    files = "".join(f'<li class="file"><b>{x["name"]}</b> <i>{x["size"]} bytes</i></li>' for x in post["files"])
    # A post that nobody has commented on has no comments to ask for.
    talk = f'<div id="talk" data-url="/comments/{post["id"]}.json"></div>' if post["comments"] else ""
    body = (
        f'<h1>{post["title"]}</h1><a class="author" href="/user/{post["author"]}">{post["author"]}</a>'
        f'<time datetime="{post["written"]}">in March</time><p class="views">Views: {post["views"]:,}</p>'
        f'<p class="count">{post["comments"]} comments</p><ul>{files}</ul>{talk}'
    )
    return html(post["title"], body)


def _answer(number: int, page: int) -> dict[str, Any]:
    every = _comments(number)
    last = -(-len(every) // PER_PAGE)
    turn = f"/comments/{number}.json?page={page + 1}" if page < last else None
    return {"post": number, "items": every[(page - 1) * PER_PAGE : page * PER_PAGE], "next": turn}
