"""The API of examples/sites/api.yaml: a list with cursors, a search by POST, and a key without which nothing is said."""

from __future__ import annotations

import base64
from typing import Any

from gossamer.testing.examples.server import Example, ExampleRequest, ExampleResponse, data

TOPICS = ("sea", "stars", "bees")
BOOKS, PER_PAGE, HITS = 23, 5, 3
KEY = "open-sesame"


class ApiExample(Example):
    name = "api"
    port = 8103

    def books(self) -> list[dict[str, Any]]:
        return [_book(number) for number in range(1, BOOKS + 1)]

    def found(self, topic: str) -> list[dict[str, Any]]:
        """What a search for a topic finds."""
        return [book for book in self.books() if topic in book["topics"]]

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            return data({"error": f"who are you? (Authorization: Bearer {KEY})"}, 401)
        match asked.method, asked.path.strip("/").split("/"):
            case "GET", ["v1", "books"]:
                return self._list(asked.query.get("cursor", ""))
            case "GET", ["v1", "books", number] if number.isdigit() and 1 <= int(number) <= BOOKS:
                return data({"book": _book(int(number))})
            case "POST", ["v1", "search"]:
                return self._search(asked)
        return data({"error": "there is no such thing"}, 404)

    def _list(self, cursor: str) -> ExampleResponse:
        try:
            start = int(base64.urlsafe_b64decode(cursor)) if cursor else 0
        except ValueError:
            return data({"error": "no cursor of ours"}, 400)
        end = start + PER_PAGE
        after = base64.urlsafe_b64encode(str(end).encode()).decode() if end < BOOKS else None
        return data({"books": [{"id": book["id"]} for book in self.books()[start:end]], "cursor": after})

    def _search(self, asked: ExampleRequest) -> ExampleResponse:
        try:
            wanted = asked.json()
            topic, page = str(wanted["query"]), int(wanted["page"])
        except (ValueError, KeyError, TypeError):
            return data({"error": 'a search is {"query": text, "page": number}'}, 400)
        every = self.found(topic)
        hits = [
            {"id": book["id"], "score": round(1 - place / 100, 2)}
            for place, book in list(enumerate(every))[(page - 1) * HITS : page * HITS]
        ]
        more = page + 1 if page * HITS < len(every) else None
        return data({"query": topic, "page": page, "total": len(every), "hits": hits, "next_page": more})


def _book(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"Volume {number}",
        "topics": [topic for place, topic in enumerate(TOPICS) if number % (place + 2) == 0],
        "authors": [{"name": f"Author {number % 4}"}, {"name": f"Author {number % 4 + 1}"}][: 1 + number % 2],
        "price": {"amount": f"{number}.50", "currency": "EUR"},
        "published": f"{1990 + number}-05-17",
    }
