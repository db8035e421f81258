"""Lists that are turned in ways of their own: the postbacks of ASP.NET, the cursors of GraphQL, and those of a shop's API."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from gossamer.testing.examples.server import NOT_FOUND, ExampleRequest, ExampleResponse, SmallExample, data, html

PER_PAGE = 5
COMPANIES, REPOSITORIES, PRODUCTS = 23, 17, 19


class AspNetExample(SmallExample):
    """A grid whose pages are turned by sending its form back, with the hidden fields of the page before."""

    name = "aspnet"
    port = 8164

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {"companies": [_company(number) for number in range(1, COMPANIES + 1)]}

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        if asked.path != "/Companies.aspx":
            return NOT_FOUND
        if asked.method == "GET":
            return ExampleResponse(_grid(1))
        sent = asked.form()
        state = sent.get("__VIEWSTATE", "")
        turn = re.fullmatch(r"Page\$(\d+)", sent.get("__EVENTARGUMENT", ""))
        if sent.get("__EVENTTARGET") != "ctl00$Grid" or sent.get("__EVENTVALIDATION") != _signed(state) or not turn:
            return ExampleResponse(b"<h1>Invalid postback or callback argument.</h1>", status=500)
        shown, page = int(base64.b64decode(state).decode().rpartition(":")[2]), int(turn[1])
        # A grid takes only what it has shown a link for.
        return (
            ExampleResponse(_grid(page)) if abs(page - shown) == 1 else ExampleResponse(b"<h1>Error</h1>", status=500)
        )


def _company(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"Company {number} & Sons", "city": ("Bergen", "Malmö", "Turku")[number % 3]}


def _grid(page: int) -> bytes:
    state = base64.b64encode(f"/wEPDwUK {'grid' * 20}:{page}".encode()).decode()
    last = -(-COMPANIES // PER_PAGE)
    rows = [
        f"<tr class='row'><td>{one['id']}</td><td>{one['name'].replace('&', '&amp;')}</td><td>{one['city']}</td></tr>"
        for one in map(_company, range((page - 1) * PER_PAGE + 1, min(page * PER_PAGE, COMPANIES) + 1))
    ]
    pager = "".join(
        f"<span>{page}</span>"
        if number == page
        else f"""<a href="javascript:__doPostBack('ctl00$Grid','Page${number}')">{number}</a>"""
        for number in (page - 1, page, page + 1)
        if 1 <= number <= last
    )
    hidden = {"__EVENTTARGET": "", "__EVENTARGUMENT": "", "__VIEWSTATE": state, "__EVENTVALIDATION": _signed(state)}
    fields = "".join(f'<input type="hidden" name="{name}" id="{name}" value="{text}">' for name, text in hidden.items())
    grid = f"<table>{''.join(rows)}<tr class='pager'><td colspan='3'>{pager}</td></tr></table>"
    return html("Companies", f'<form method="post" action="./Companies.aspx">{fields}\n{grid}</form>')


def _signed(state: str) -> str:
    return base64.b64encode(hashlib.sha256(b"machine key" + state.encode()).digest()).decode()


class GraphQLExample(SmallExample):
    """One address for everything: what is wanted is said in the body, and the cursor is a variable."""

    name = "graphql"
    port = 8165

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {
            "repositories": [{"name": x["name"], "owner": x["owner"]["login"], "stars": x["stars"]} for x in _nodes()]
        }

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        if (asked.method, asked.path) != ("POST", "/graphql"):
            return NOT_FOUND
        try:
            sent = asked.json()
            query, after = sent["query"], sent.get("variables", {}).get("after")
            start = int(base64.b64decode(after)) if after else 0
        except (ValueError, KeyError, TypeError, AttributeError):
            return data({"errors": [{"message": "a query is {query: text, variables: {after: cursor}}"}]}, 400)
        words = re.sub(r"[\s,]+", " ", query).strip()
        if words != WANTED:
            return data({"errors": [{"message": f"this server knows only: {WANTED}"}]})
        end = min(start + PER_PAGE, REPOSITORIES)
        turn = {"endCursor": base64.b64encode(str(end).encode()).decode(), "hasNextPage": end < REPOSITORIES}
        return data({"data": {"repositories": {"nodes": _nodes()[start:end], "pageInfo": turn}}})


WANTED = (
    "query($after: String) { repositories(first: 5 after: $after)"
    " { nodes { name stars owner {login} } pageInfo { endCursor hasNextPage } } }"
)


def _nodes() -> list[dict[str, Any]]:
    return [
        {"name": f"tool-{number}", "stars": number * number, "owner": {"login": f"owner{number % 3}"}}
        for number in range(1, REPOSITORIES + 1)
    ]


class CursorExample(SmallExample):
    """A shop's API that gives with each page the cursor of the next."""

    name = "cursor"
    port = 8166

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {"products": [{"sku": x["sku"], "name": x["name"], "price": x["price"]} for x in _products()]}

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        if asked.path != "/api/products":
            return NOT_FOUND
        cursor = asked.query.get("cursor")
        try:
            start = json.loads(base64.b64decode(cursor, validate=True))["after"] if cursor else 0
        except (ValueError, KeyError, TypeError):
            return data({"error": "no cursor of ours"}, 400)
        end = start + PER_PAGE
        # With + and = in it, as cursors often have.
        after = base64.b64encode(json.dumps({"after": end, "~": "~>~?"}).encode()).decode()
        return data({"products": _products()[start:end], "next_cursor": after if end < PRODUCTS else None})


def _products() -> list[dict[str, Any]]:
    return [
        {"sku": f"P-{number:03}", "name": f"Product {number}", "price": f"{number}.90"}
        for number in range(1, PRODUCTS + 1)
    ]
