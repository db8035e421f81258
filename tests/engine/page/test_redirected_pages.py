"""Pages that redirect are read, and if they fail, found again by the URLs that redirected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.page.test_whole_pages import BY_HEADER
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Reply, Site, Visit, data, links

from gossamer.engine.job import NativeJob
from gossamer.engine.page import payload
from gossamer.engine.worker import NativeWorker

PAGED = BY_HEADER.replace("{turn}", "{turn+1}")
LOGIN = "login: {url: SITE/login, form: {user: x}, check: {contains: in}, expires: {redirect: /login$}}"


def to(path: str) -> Reply:
    return Reply(301, headers={"Location": path})


def next_round(crawl: Crawl, number: int = 1) -> None:
    with crawl.frontier() as frontier:
        frontier.new_round("pages", number)


def counted(visit: Visit) -> Reply:
    """A page of three that a header counts."""
    return data({"ids": [number] if (number := page_of(visit)) < 4 else []})


def page_of(visit: Visit) -> int:
    return int(visit.headers.get("X-Page", 1))


async def test_pages_that_a_header_counts_are_read_where_their_url_redirects(crawl: Crawl, site: Site) -> None:
    site.answer(lambda visit: counted(visit) if visit.path == "/api/" else None)
    site.on("/api", to("/api/"))
    crawl.push(PAGED)
    await crawl.run()
    assert [item["id"] for item in crawl.items("pages")] == [1, 2, 3]


async def test_pages_that_a_header_counts_lead_to_themselves_in_a_session(crawl: Crawl, site: Site) -> None:
    """By way of a page that sets a cookie: none of them was seen by that."""
    met = set[int]()

    def answers(visit: Visit) -> Reply | None:
        if visit.path != "/api":
            return None
        if page_of(visit) in met:
            return counted(visit)
        met.add(page_of(visit))
        return to("/begin")

    site.answer(answers)
    site.on("/login", Reply(body="in", headers={"Set-Cookie": "session=1"}))
    site.on("/begin", Reply(302, headers={"Location": "/api", "Set-Cookie": "begun=1"}))
    crawl.push(f"{PAGED}{LOGIN}\n")
    await crawl.run()
    assert [item["id"] for item in crawl.items("pages")] == [1, 2, 3]


async def test_a_page_that_a_header_counts_and_that_failed_is_fetched_again_in_the_next_round(
    crawl: Crawl, site: Site
) -> None:
    """Where its URL redirects. After that, those behind it are found."""
    fails = [Reply(500)]

    def answers(visit: Visit) -> Reply | None:
        if visit.path != "/api/":
            return None
        return fails.pop() if page_of(visit) == 2 and fails else counted(visit)

    site.answer(answers)
    site.on("/api", to("/api/"))
    crawl.push(f"{PAGED}request: {{retries: 0}}\n")
    await crawl.run()
    assert [item["id"] for item in crawl.items("pages")] == [1]
    next_round(crawl)
    await crawl.run()
    assert {item["id"] for item in crawl.items("pages")} == {1, 2, 3}


async def test_a_form_that_redirected_and_failed_is_sent_again_in_the_next_round(crawl: Crawl, site: Site) -> None:
    site.on("/list", Reply(body="<i>a</i>"))
    site.on("/search", Reply(307, headers={"Location": "/find"}))
    site.on("/find", Reply(303, headers={"Location": "/results"}))
    site.on("/results", Reply(500, times=1))
    crawl.push("""
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore}
    request: {retries: 0}
    layers:
      list:
        match: ^/list
        records: i
        fields: {word: {xpath: .}}
        follow: [{url: /search, form: {q: '{word}'}, to: found}]
      found: {match: '^/(search|find|results)', fields: {title: title}}
    """)
    for number in range(3):
        if number:
            next_round(crawl, number)
        await crawl.run()
    assert [item["title"] for item in crawl.items("pages") if "title" in item] == ["/results"]
    assert [visit.target for visit in site.visits].count("/search") == 2


@pytest.fixture(params=[False, True], ids=["", "queued by an earlier version"])
def _earlier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is queued has no marks, as in earlier versions."""
    if request.param:
        pack = payload.pack
        monkeypatch.setattr(payload, "pack", lambda page, *more: pack(page._replace(marks=()), *more))


@pytest.mark.usefixtures("_earlier")
@pytest.mark.parametrize("records", ["", "page_records: true, "])
async def test_a_page_that_redirected_and_failed_is_fetched_again_in_the_next_round(
    crawl: Crawl, site: Site, records: str
) -> None:
    """The next round finds the URL that redirects. After that, the page was read."""
    site.on("/list", links("/old/1"))
    site.on("/old/1", to("/older/1"))
    site.on("/older/1", to("/page/1"))
    site.on("/page/1", Reply(500, times=1))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    request: {{retries: 0}}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|older|page)/', {records}fields: {{title: title}}}}
    """)
    for number in range(3):
        if number:
            next_round(crawl, number)
        await crawl.run()
        assert [item["title"] for item in crawl.items("pages")] == ["/page/1"] * (number > 0)
        assert len(crawl.dead("pages")) == (number == 0)
    assert site.paths().count("/page/1") == 2


@pytest.mark.usefixtures("_earlier")
async def test_pages_whose_session_ends_when_they_are_asked_for_after_redirects_are_read(
    crawl: Crawl, site: Site
) -> None:
    """They lead to the login page by way of one URL."""
    site.on("/list", links(*(f"/old/{one}" for one in range(3))))
    site.on("/login", Reply(body="in", headers={"Set-Cookie": "session=1"}))
    site.on("/gate", to("/login"))
    for one in range(3):
        site.on(f"/old/{one}", to(f"/page/{one}"))
        site.on(f"/page/{one}", Reply(times=1), Reply(302, headers={"Location": "/gate"}, times=1))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|page)/', fields: {{title: title}}}}
    """)
    await crawl.run()
    assert crawl.dead("pages") == []
    assert sorted(item["title"] for item in crawl.items("pages")) == [f"/page/{one}" for one in range(3)]


async def test_forms_whose_session_ends_are_sent_again_after_the_login(crawl: Crawl, site: Site) -> None:
    """They lead to the login page by way of one URL, which leads those who are logged in to their home."""
    words, logged_in = ["a", "b", "c"], set[str]()

    def answers(visit: Visit) -> Reply | None:
        if visit.path == "/login":
            logged_in.add(f"session={len(logged_in)}")
            return Reply(body="in", headers={"Set-Cookie": f"session={len(logged_in) - 1}"})
        ok = visit.headers.get("Cookie", "") == f"session={len(logged_in) - 1}" and len(logged_in) > 1
        if visit.path == "/gate":
            return to("/home" if ok else "/login")
        if visit.path == "/search":
            return Reply(body=f"<title>{visit.body.decode()}</title>") if ok else to("/gate")
        return None

    site.answer(answers)
    site.on("/list", Reply(body="".join(f"<i>{word}</i>" for word in words)))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    {LOGIN}
    layers:
      list:
        match: ^/list
        records: i
        fields: {{word: {{xpath: .}}}}
        follow: [{{url: /search, form: {{q: '{{word}}'}}, to: found}}]
      found: {{match: ^/search, fields: {{title: title}}}}
    """)
    await crawl.run()
    assert crawl.dead("pages") == []
    titles = sorted(item["title"] for item in crawl.items("pages") if "title" in item)
    assert titles == [f"q={word}" for word in words]


async def test_two_urls_of_a_page_that_leads_to_itself_in_a_session_are_one_page(crawl: Crawl, site: Site) -> None:
    """By way of another page, which sets a cookie for those who have none."""
    site.on("/list", links("/old/1", "/old/2"))
    site.on("/login", Reply(body="in", headers={"Set-Cookie": "session=1"}))
    site.on("/old/1", to("/page/1")).on("/old/2", to("/page/1"))
    site.on("/page/1", Reply(302, headers={"Location": "/begin"}, times=1))
    site.on("/begin", Reply(302, headers={"Location": "/page/1", "Set-Cookie": "begun=1"}))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|page)/', fields: {{title: title}}}}
    """)
    await crawl.run()
    assert [item["title"] for item in crawl.items("pages")] == ["/page/1"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("records", "replies"),
    [
        ("page_records: true, ", ()),
        ("revisit: 1s, ", ()),
        ("revisit: {every: 1s, min: 1s, max: 1s, adaptive: true}, ", ()),
        ("revisit: {every: 1s, gone: 9}, ", (404,)),
        ("revisit: 1s, ", (500,)),
    ],
)
async def test_pages_with_records_that_redirect_in_a_session_are_read(
    crawl: Crawl, site: Site, records: str, replies: tuple[int, ...]
) -> None:
    """Two URLs lead to one page, which may be missing or fail at first. The look at where they lead was taken for its visit."""
    site.on("/list", links("/old/1", "/old/2"))
    site.on("/login", Reply(body="in", headers={"Set-Cookie": "session=1"}))
    site.on("/old/1", to("/page/1")).on("/old/2", to("/page/1"))
    # Each of the URLs looks where it leads, before the page itself is fetched.
    site.on("/page/1", *(Reply(status, times=2) for status in replies))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    request: {{retries: 0}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|page)/', {records}fields: {{title: title}}}}
    """)
    if "revisit" not in records:
        await crawl.run()
        assert [item["title"] for item in crawl.items("pages")] == ["/page/1"]
        return
    async with working(NativeWorker(crawl.settings, NativeJob(stage=None, repeat=True))):
        await until(lambda: [item["title"] for item in crawl.items("pages")][:3] == ["/page/1"] * 3)
    assert len(crawl.dead("pages")) == 2 * replies.count(500)


async def test_all_pages_that_failed_at_one_url_are_kept_and_fetched_again(crawl: Crawl, site: Site) -> None:
    """As those that lead to the login page by way of one URL. They are not tries of one page."""
    site.on("/list", links("/page/1", "/page/2"))
    site.on("/login", Reply(body="in"))
    site.on("/gate", to("/login"))
    for one in (1, 2):
        site.on(f"/page/{one}", to("/gate"))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    request: {{retries: 0}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: ^/page/, fields: {{title: title}}}}
    """)
    await crawl.run()
    told = sorted(detail.rpartition("/")[2] for reason, detail in crawl.dead("pages") if reason == "session_over")
    assert told == ["1.", "2."]
    for number, left in ((1, ["2."]), (2, [])):
        site.on(f"/page/{number}")
        next_round(crawl, number)
        await crawl.run()
        assert [detail.rpartition("/")[2] for _, detail in crawl.dead("pages")] == left
    assert [item["title"] for item in crawl.items("pages")] == ["/page/1", "/page/2"]


@pytest.fixture
def other() -> Iterator[Site]:
    with Site("127.0.0.2") as there:
        yield there


async def test_a_page_that_begins_again_sends_what_its_link_says(crawl: Crawl, site: Site, other: Site) -> None:
    """Its way leads over another host, which does not see its cookies."""
    site.on("/list", links("/page/1"))
    site.on("/login", Reply(body="in"))
    site.on("/page/1", Reply(302, headers={"Location": f"{other.url}/gate"}, times=1))
    other.on("/gate", to(f"{site.url}/login"))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page, cookies: {{age: '18'}}, headers: {{X-Key: k}}}}]}}
      page: {{match: ^/page/, fields: {{title: title}}}}
    """)
    await crawl.run()
    assert [item["title"] for item in crawl.items("pages")] == ["/page/1"]
    asked = [visit.headers for visit in site.visits if visit.path == "/page/1"]
    assert [(sent.get("Cookie"), sent.get("X-Key")) for sent in asked] == [("age=18", "k")] * 2
    assert [visit.headers.get("Cookie") for visit in other.visits] == [None]
