"""Two sites that feed one table: where the key does not tell their rows apart, the check says so."""

from __future__ import annotations

import pytest

from gossamer.sites.file.load import survey_texts

SITE = """
site: NAME
seeds: ['http://HOST/']
layers: {post: {match: ^/, fields: {id: {css: i, type: int}, link: {css: a, attr: href, type: url}, comments: {each: p, fields: {id: b}}}}}
store: {post: {table: posts, key: [id], children: {comments: {table: talk, key: [id]}}}}
"""
PLAIN = SITE.replace("children: {comments: {table: talk, key: [id]}}", "children: {comments: {json: true}}")


def told(*texts: str) -> list[str]:
    named = [
        (text.replace("NAME", name).replace("HOST", f"{name}.example"), f"{name}.yaml")
        for text, name in zip(texts, "abc", strict=False)
    ]
    return [str(problem) for problem in survey_texts(named).problems]


def test_both_sites_the_tables_and_the_remedy_are_named_once() -> None:
    remedy = "(write key: [site, id] in both, or give each site tables of its own)"
    [said] = told(SITE, SITE.replace("posts", "other").replace("talk", "others"), SITE)
    assert said == (
        "c.yaml:5:15: warning: store.post: the sites a and c both feed posts: rows with the same id replace talk of each other "
        + remedy
    )
    [said] = told(PLAIN, PLAIN)
    assert said == (
        "b.yaml:5:15: warning: store.post: the sites a and b both feed posts: rows with the same id replace each other "
        + remedy
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SITE.replace("key: [id], c", "key: [site, id], c"),) * 2,
        (SITE.replace("key: [id], c", "key: [url], c"),) * 2,
        (SITE.replace("key: [id], c", "key: [link], c"),) * 2,
        (SITE, SITE + "database: sqlite:///other.db\n"),
        (SITE.replace("table: posts, ", "").replace("{table: talk, key: [id]}", "{key: [id]}"),) * 2,
        # What is on one host may be read by two sites; only one of them has the comments.
        (PLAIN.replace("HOST", "x.example"), PLAIN.replace("HOST", "x.example")),
    ],
)  # fmt: skip
def test_rows_that_say_whose_they_are_are_told_apart(one: str, other: str) -> None:
    assert told(one, other) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "postgres://reader:a%40b@DB.example:5432/crawl?sslmode=require",
            "postgresql+psycopg://writer@db.example/crawl",
        ),
        ("mysql://db.example/crawl", "mariadb://u:p@db.example:3306/crawl"),
        ("sqlite:///records.db", "sqlite:///./data/../records.db"),
        ("sqlite:////var/records.db", "sqlite:////var/./records.db?timeout=5"),
    ],
)
def test_a_database_that_is_spelled_in_two_ways_is_one(one: str, other: str) -> None:
    [said] = told(f"{SITE}database: {one}\n", f"{SITE}database: {other}\n")
    assert "the sites a and b both feed posts" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mysql://db.example/crawl", "mysql://db.example/other"),
        ("mysql://db.example/crawl", "mysql://db.example:3307/crawl"),
        ("postgresql://db.example/crawl", "mysql://db.example/crawl"),
        ("sqlite:///records.db", "sqlite:////records.db"),
        ("${SITE_ONE}", "${SITE_OTHER}"),
    ],
)
def test_two_databases_are_not_one(one: str, other: str) -> None:
    assert told(f"{SITE}database: {one}\n", f"{SITE}database: {other}\n") == []
