"""Discussions as forums and blogs have them: a thread over several pages, the API of Discourse, and that of WordPress."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from gossamer.testing.examples.server import NOT_FOUND, ExampleRequest, ExampleResponse, SmallExample, data, html

AT_ONCE = 20
"""How many posts Discourse sends with a topic, and how many may be asked for by their ids."""
THREADS = {1: 7, 2: 3, 3: 0}
"""Threads, and how many comments they have."""
PER_PAGE = 3
TOPICS = {1: 5, 2: 47, 3: 60, 4: 20, 5: 21}
"""Topics, and how many posts they have."""
TOPICS_PER_PAGE = 3
ARTICLES = {1: 0, 2: 4, 3: 23, 4: 1, 5: 10, 6: 0, 7: 11}
"""Articles, and how many comments they have."""


class ThreadExample(SmallExample):
    """Threads with comments on up to three pages."""

    name = "thread"
    port = 8161

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        comments = [
            {"parent_id": thread, **_comment(thread, place)}
            for thread, count in THREADS.items()
            for place in range(count)
        ]
        return {
            "threads": [{"id": thread, "title": f"Thread {thread}"} for thread in THREADS],
            "threads_comments": comments,
        }

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        match asked.path.strip("/").split("/"):
            case ["threads"]:
                links = [f'<a class="thread" href="/t/{thread}">Thread {thread}</a>' for thread in THREADS]
                return ExampleResponse(html("Threads", "\n".join(links)))
            case ["t", number] if number.isdigit() and int(number) in THREADS:
                return ExampleResponse(_thread(int(number), int(asked.query.get("page", 1))))
        return NOT_FOUND


def _thread(thread: int, page: int) -> bytes:
    count = THREADS[thread]
    comments = [_comment(thread, place) for place in range(count)[(page - 1) * PER_PAGE : page * PER_PAGE]]
    parts = [
        f'<div class="comment" id="{one["id"]}"><b>{one["author"]}</b><p>{one["text"]}</p></div>' for one in comments
    ]
    if page * PER_PAGE < count:
        parts.append(f'<a class="next" href="/t/{thread}?page={page + 1}">next</a>')
    return html(f"Thread {thread}", f"<h1>Thread {thread}</h1>\n" + "\n".join(parts))


def _comment(thread: int, place: int) -> dict[str, Any]:
    return {"id": f"c{thread}-{place}", "author": f"user{place % 3}", "text": f"Comment {place} of thread {thread}"}


class DiscourseExample(SmallExample):
    """A topic comes with its first posts and with the ids of all; the others are asked for by id, a few at a time."""

    name = "discourse"
    port = 8162

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        topics = [{"id": topic, "title": f"Topic {topic}"} for topic in TOPICS]
        return {"topics": topics, "topics_posts": [{"parent_id": x["topic_id"], **_kept(x)} for x in self._posts()]}

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        match asked.path.strip("/").split("/"):
            case ["latest.json"]:
                return _latest(int(asked.query.get("page", 0)))
            case ["t", number, "posts.json"] if number.isdigit() and int(number) in TOPICS:
                wanted = set(map(int, asked.repeated.get("post_ids[]", [])))
                if not 1 <= len(wanted) <= AT_ONCE:
                    return data({"errors": [f"ask for 1 to {AT_ONCE} posts"]}, 400)
                found = [post for post in self._posts() if post["topic_id"] == int(number) and post["id"] in wanted]
                return data({"id": int(number), "post_stream": {"posts": found}})
            case ["t", file] if (number := file.removesuffix(".json")).isdigit() and int(number) in TOPICS:
                posts = [post for post in self._posts() if post["topic_id"] == int(number)]
                stream = {"posts": posts[:AT_ONCE], "stream": [post["id"] for post in posts]}
                return data({"id": int(number), "title": f"Topic {number}", "post_stream": stream})
        return data({"errors": ["not found"]}, 404)

    def _posts(self) -> list[dict[str, Any]]:
        return [
            {
                "id": 1000 * topic + 3 * n,
                "topic_id": topic,
                "username": f"user{n % 4}",
                "cooked": f"<p>Post <b>{n}</b></p>",
            }
            for topic, count in TOPICS.items()
            for n in range(1, count + 1)
        ]


def _latest(page: int) -> ExampleResponse:
    shown = list(TOPICS)[page * TOPICS_PER_PAGE : (page + 1) * TOPICS_PER_PAGE]
    topics: dict[str, Any] = {"topics": [{"id": topic, "slug": f"topic-{topic}"} for topic in shown]}
    if (page + 1) * TOPICS_PER_PAGE < len(TOPICS):
        topics["more_topics_url"] = f"/latest?no_definitions=true&page={page + 1}"
    return data({"topic_list": topics})


def _kept(post: dict[str, Any]) -> dict[str, Any]:
    return {"id": post["id"], "author": post["username"], "text": re.sub("<[^>]+>", "", post["cooked"])}


class WordPressExample(SmallExample):
    """Articles and their comments by the REST API of WordPress: headers say how many pages there are, and which is next."""

    name = "wordpress"
    port = 8163

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        comments = [
            {"id": x["id"], "post": x["post"], "author": x["author_name"], "text": f"Remark {x['id']} & more"}
            for x in _remarks()
        ]
        return {
            "posts": [{"id": number, "title": f"News & views {number}"} for number in ARTICLES],
            "comments": comments,
        }

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        match asked.path.removeprefix("/wp-json/wp/v2/"):
            case "posts":
                return self._page(asked, [_article(number) for number in sorted(ARTICLES, reverse=True)])
            case "comments":
                return self._page(asked, [one for one in _remarks() if str(one["post"]) == asked.query.get("post")])
        return data({"code": "rest_no_route", "data": {"status": 404}}, 404)

    def _page(self, asked: ExampleRequest, every: list[dict[str, Any]]) -> ExampleResponse:
        page, size = int(asked.query.get("page", 1)), int(asked.query.get("per_page", 10))
        pages = -(-len(every) // size)
        if page > max(pages, 1):
            return data({"code": "rest_post_invalid_page_number", "data": {"status": 400}}, 400)
        headers = {"X-WP-Total": str(len(every)), "X-WP-TotalPages": str(pages)}
        near = {"prev": page - 1, "next": page + 1 if page < pages else 0}
        if any(near.values()):
            there = {name: urlencode({**asked.query, "page": number}) for name, number in near.items() if number}
            headers["Link"] = ", ".join(
                f'<{self.url}{asked.path}?{query}>; rel="{name}"' for name, query in there.items()
            )
        return data(every[(page - 1) * size : page * size], headers=headers)


def _article(number: int) -> dict[str, Any]:
    return {"id": number, "title": {"rendered": f"News &#038; views {number}"}}


def _remarks() -> list[dict[str, Any]]:
    return [
        {
            "id": 100 * article + n,
            "post": article,
            "author_name": f"Reader {n % 5}",
            "content": {"rendered": f"<p>Remark {100 * article + n} &amp; more</p>\n"},
        }
        for article, count in ARTICLES.items()
        for n in range(count)
    ]
