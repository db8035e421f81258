"""Threads over several pages, crawled from the command line: the tables have what the forum has, round after round."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.site import Reply, Site, data, links

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

ON_A_PAGE = 3
FORUM = """
site: board
seeds: [SITE/list]
politeness: {robots: ignore}
request: {retries: 0}
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: post}]}
  post:
    match: ^/t/
    seen: round
    fields:
      id: {from: url, regex: '/t/(\\d+)', type: int}
      title: h1
      comments: {each: .c, fields: {id: {xpath: ./@id, type: int}, text: {xpath: .}}}
      marks: {each: .m, fields: {mark: {xpath: .}}}
    follow: [{css: a.next, to: post, pages: 0}]
store:
  post: {table: posts, key: [id], add: [url], children: {comments: {table: comments, key: [id]}, marks: {table: marks}}}
"""
NAMED = FORUM.replace("board", "named").replace("[id], add: [url]", "[url]").replace("table: ", "table: named_") + (
    "identity: {canonical: true}\n"
)
"""The same without a key: further pages of threads with odd numbers name the URL of the first page as theirs, the others name their own."""
TWO_LAYERS = """
site: talks
seeds: [SITE/list]
politeness: {robots: ignore}
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: post}]}
  post:
    match: ^/t/
    seen: round
    fields: {id: {from: url, regex: '/t/(\\d+)', type: int}, title: h1}
    follow: [{url: '/api/{id}/1', to: talk, pass: [id]}]
  talk:
    match: ^/api/
    seen: round
    format: json
    fields:
      id: {from: parent.id, type: int}
      title: {jmespath: title}
      total: {jmespath: total, type: int}
      comments: {each: {jmespath: items}, fields: {id: {jmespath: id, type: int}, text: {jmespath: text}}}
    follow: [{jmespath: next, to: talk, pages: 0}]
store:
  post: {table: posts, key: [id]}
  talk: {table: posts, key: [id], children: {comments: {table: comments, key: [id]}}}
"""


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def serve(site: Site, threads: dict[int, list[int]], broken: str = "", renamed: int = 0) -> None:
    """The forum: a list, and each thread on pages of three comments, as HTML and as JSON. A thread is `renamed`, and so are its URLs."""
    paths = []
    for number, comments in threads.items():
        name = f"/t/{number}-other" if number == renamed else f"/t/{number}"
        pages = [comments[at : at + ON_A_PAGE] for at in range(0, len(comments), ON_A_PAGE)] or [[]]
        paths.append(name)
        if len(pages) > 1:
            paths.append(f"{name}/{len(pages)}")  # As forums do: the list links the last page, too.
        for at, found in enumerate(pages, 1):
            more = at < len(pages)
            title = (
                f"<h1>{'Other' if number == renamed else 'Thread'} {number}</h1>"
                if at == 1
                else "<h1>page</h1>"
                if at == 2
                else ""
            )
            path = f"{name}/{at}" if at > 1 else name
            own = f'<link rel=canonical href="{f"/t/{number}" if number % 2 else path}">'
            body = "".join(f"<p class=c id={one}>text {one}</p><i class=m>m{one}</i>" for one in found)
            next = f'<a class=next href="{name}/{at + 1}">next</a>' if more else ""
            site.on(path, Reply(status=500) if path == broken else Reply(body=f"{own}{title}{body}{next}"))
            items = [{"id": one, "text": f"text {one}"} for one in found]
            total = len(comments) if at == 1 else None
            following = f"/api/{number}/{at + 1}" if more else None
            site.on(f"/api/{number}/{at}", data({"items": items, "next": following, "total": total}))
    site.on("/list", links(*paths))


def said(threads: dict[int, list[int]]) -> list[tuple[int, int, str]]:
    return [(number, one, f"text {one}") for number, comments in threads.items() for one in sorted(comments)]


def test_a_thread_over_several_pages_is_one_row_with_all_its_comments(place: Place) -> None:
    first = {1: [*range(100, 108)], 2: [200], 3: [300, 301, 302, 303], 4: [], 5: [500, 501, 502, 503]}
    comments = "select parent_id, id, text from comments order by 1, 2"
    named = "select substr(parent_url, instr(parent_url, '/t/') + 3, 1) + 0, id, text from named_comments order by 1, 2"
    with Site() as site:
        place.write(f"{FORUM}---{NAMED}".replace("SITE", site.url))
        serve(site, first)
        place.crawl("site.yaml")
        assert place.rows(comments) == place.rows(named) == said(first)
        assert place.rows("select title from named_posts order by url") == [(f"Thread {number}",) for number in first]
        assert place.rows("select id, title, url from posts order by id") == [
            (number, f"Thread {number}", f"{site.url}/t/{number}") for number in first
        ]
        assert place.rows("select parent_id, mark from marks order by 1, 2") == [
            (number, f"m{one}") for number, one, _ in said(first)
        ]
        # Comments are deleted, so that others move to the page before; one thread grows, and a page of another fails.
        later = {
            1: [100, 102, 103, 104, 107],
            2: [200, 201, 202, 203],
            3: [300, 301, 303, 304],
            4: [400],
            5: [500, 501, 503, 504],
        }
        serve(site, later, broken="/t/3/2", renamed=5)
        place.crawl("site.yaml")
        # 302 may still be on the page that failed; 304 is only there. 502 may be on the pages that 5 had under its old name.
        kept = {**later, 3: [300, 301, 302, 303], 5: [500, 501, 502, 503, 504]}
        assert place.rows(comments) == place.rows(named) == said(kept)
        serve(site, later, renamed=5)
        place.crawl("site.yaml")
        assert place.rows("select title, url from posts where id = 5") == [("Other 5", f"{site.url}/t/5-other")]
        assert place.rows(comments) == place.rows(named) == said(later)
        assert place.rows("select title from named_posts where url like '%/t/2/2'") == [("page",)]
        assert place.rows("select parent_id, mark from marks order by 1, 2") == [
            (number, f"m{one}") for number, one, _ in said(later)
        ]


def test_a_page_and_its_api_feed_one_row(place: Place) -> None:
    threads = {1: [*range(100, 108)], 2: [200, 201]}
    with Site() as site:
        place.write(TWO_LAYERS.replace("SITE", site.url))
        for round in (1, 2):
            serve(site, threads)
            place.crawl("site.yaml")
            assert place.rows("select id, title, total from posts order by id") == [
                (number, f"Thread {number}", len(comments)) for number, comments in threads.items()
            ]
            assert place.rows("select parent_id, id, text from comments order by 1, 2") == said(threads), round
            threads[1] = [100, 101, 102, 103, 105, 106, 107]


def test_pages_that_name_the_first_as_their_own_are_one_row_in_any_order(place: Place) -> None:
    """The key is the URL that a page names as its own. The list links the last page before the first, and each page links all."""

    def serve(site: Site, round: int, last: int) -> None:
        site.on("/list", links(f"/t/1?p={last}", "/t/1"))
        paths = ["/t/1", *(f"/t/1?p={page}" for page in range(2, last + 1))]
        for page, path in enumerate(paths, 1):
            pager = "".join(f"<a href='{other}'>{other}</a>" for other in paths if other != path)
            closed = "<i>closed</i>" if page == last else ""
            head = f"<head><link rel=canonical href=/t/1></head><h1>post {page}, {round}</h1>"
            site.on(path, Reply(body=f"<html>{head}<p>{page}</p>{closed}{pager}</html>"))

    with Site() as site:
        place.write(
            f"""
            site: board
            seeds: [{site.url}/list]
            politeness: {{robots: ignore, concurrency: 1}}
            identity: {{canonical: true}}
            seen: round
            layers:
              list: {{match: ^/list, follow: [{{css: a, to: post}}]}}
              post:
                match: ^/t/
                fields: {{post: h1, closed: i, comments: {{each: p, fields: {{text: {{xpath: .}}}}}}}}
                follow: [{{css: a, to: post, pages: 0}}]
            store: {{post: {{table: posts, children: {{comments: {{table: comments}}}}}}}}
            """
        )
        for round, last in enumerate((3, 4, 2)):
            serve(site, round, last)
            place.run("crawl", "site.yaml", "-w", "1", "--json")
            assert place.rows("select post, closed, url from posts") == [
                (f"post 1, {round}", "closed", f"{site.url}/t/1")
            ]
            assert place.rows("select text from comments order by 1") == [(str(page + 1),) for page in range(last)]


@pytest.mark.parametrize("end", ["gone", "first", "last", "empty", "one", "list"])
def test_comments_that_are_deleted_go_where_pages_are_counted_until_one_is_not_there(place: Place, end: str) -> None:
    """As forums answer for a number that is too high: 404, or a redirect to their first or last page, or to the list. `one`: page 1 redirects to the first."""

    def serve(site: Site, threads: dict[int, list[int]]) -> None:
        site.on("/list", links(*(f"/t/{number}" for number in threads)))
        for number, comments in threads.items():
            last = max(1, -(-len(comments) // ON_A_PAGE))
            site.on(f"/t/{number}?p=1", Reply(301, headers={"Location": f"/t/{number}"}))
            for at in range(1, 6):
                found = comments[(at - 1) * ON_A_PAGE : at * ON_A_PAGE]
                body = f"<h1>T</h1>{''.join(f'<p class=c id={one}>text {one}</p>' for one in found)}"
                to = f"/t/{number}" if end == "first" or last == 1 else f"/t/{number}?p={last}"
                to = "/list" if end == "list" else to
                over = {"gone": Reply(404), "one": Reply(404), "empty": Reply(body="<h1>T</h1>")}.get(
                    end, Reply(302, headers={"Location": to})
                )
                site.on(f"/t/{number}?p={at}" if at > 1 else f"/t/{number}", Reply(body=body) if at <= last else over)

    with Site() as site:
        turning = FORUM.replace("css: a.next, to: post", "url: '/t/{id}?p={turn+1}', to: post, when: comments")
        place.write((turning.replace("turn+1", "turn") if end == "one" else turning).replace("SITE", site.url))
        for threads in (
            {1: [*range(100, 108)], 2: [200, 201, 202]},
            {1: [100, 101, 102, 104, 105, 106], 2: [200, 202]},
            {1: [100, 101], 2: [200, 202, 203, 204, 205, 206]},
        ):
            serve(site, threads)
            place.crawl("site.yaml")
            assert place.rows("select parent_id, id, text from comments order by 1, 2") == said(threads)
            assert place.rows("select id, title from posts order by id") == [(1, "T"), (2, "T")]


def test_a_linked_page_that_is_not_there_deletes_nothing(place: Place) -> None:
    """A page that another one links should be there: nobody knows what it had."""
    with Site() as site:
        place.write(FORUM.replace("SITE", site.url))
        serve(site, {1: [*range(100, 108)]})
        place.crawl("site.yaml")
        serve(site, {1: [*range(101, 108)]})
        site.on("/list", links("/t/1"))
        site.on("/t/1/2", Reply(404))
        place.crawl("site.yaml")
        assert place.rows("select parent_id, id, text from comments order by 1, 2") == said({1: [*range(100, 108)]})
