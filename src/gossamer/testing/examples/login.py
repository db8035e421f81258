"""The club of examples/sites/login.yaml: its members are shown to those who are logged in, and a session ends in the middle."""

from __future__ import annotations

import secrets
import threading
from http.cookies import SimpleCookie
from typing import Any

from gossamer.testing.examples.server import NOT_FOUND, ExampleRequest, ExampleResponse, SmallExample, html

MEMBERS, PER_PAGE = 12, 5
LASTS = 6
"""How many pages the first session lasts."""
USER, PASSWORD = "ada", "open-sesame"


class LoginExample(SmallExample):
    """A form with a token that counts once, and a session by cookie."""

    name = "login"
    port = 8167

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.logins = 0
        self._guard = threading.Lock()
        self._tokens: set[str] = set()
        self._sessions: dict[str, int] = {}
        """How many pages each may still see."""

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {
            "members": [{"name": f"Member {number}", "town": f"Town {number % 4}"} for number in range(1, MEMBERS + 1)]
        }

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        with self._guard:
            match asked.method, asked.path.strip("/").split("/"):
                case "GET", ["login"]:
                    token = secrets.token_urlsafe(16)
                    self._tokens.add(token)
                    form = f'<form method="post"><input name="user"><input name="csrf" type="hidden" value="{token}"></form>'
                    return ExampleResponse(html("Log in", form))
                case "POST", ["login"]:
                    return self._log_in(asked.form())
                case "GET", ["members", *rest]:
                    return self._members(asked, rest) if self._known(asked) else _redirect("/login")
        return NOT_FOUND

    def _log_in(self, sent: dict[str, str]) -> ExampleResponse:
        if sent.get("csrf") not in self._tokens or (sent.get("user"), sent.get("password")) != (USER, PASSWORD):
            return ExampleResponse(html("Log in", "<p>That was wrong.</p>"), status=403)
        self._tokens.discard(sent["csrf"])
        self.logins += 1
        session = secrets.token_urlsafe(16)
        self._sessions[session] = LASTS if self.logins == 1 else 1_000_000
        return _redirect("/members", f"session={session}; Path=/; HttpOnly")

    def _known(self, asked: ExampleRequest) -> bool:
        session = SimpleCookie(asked.headers.get("cookie", "")).get("session")
        left = self._sessions.get(session.value, 0) if session else 0
        if session and left:
            self._sessions[session.value] = left - 1
        return left > 0

    def _members(self, asked: ExampleRequest, rest: list[str]) -> ExampleResponse:
        match rest:
            case []:
                page = int(asked.query.get("page", 1))
                shown = range((page - 1) * PER_PAGE + 1, min(page * PER_PAGE, MEMBERS) + 1)
                links = [f'<a class="member" href="/members/{number}">{number}</a>' for number in shown]
                if page * PER_PAGE < MEMBERS:
                    links.append(f'<a class="next" href="/members?page={page + 1}">next</a>')
                return ExampleResponse(html("Members", '<a href="/logout">Log out</a>\n' + "\n".join(links)))
            case [number] if number.isdigit() and 1 <= int(number) <= MEMBERS:
                body = f"<h1>Member {number}</h1><p class='town'>Town {int(number) % 4}</p>"
                return ExampleResponse(html(f"Member {number}", body))
        return NOT_FOUND


def _redirect(to: str, cookie: str = "") -> ExampleResponse:
    headers = {"Location": to, **({"Set-Cookie": cookie} if cookie else {})}
    return ExampleResponse(b"", status=302, headers=headers)
