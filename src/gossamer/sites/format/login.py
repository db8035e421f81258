"""How workers log in to a site."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from gossamer.sites.format.selector import Body, FieldRule
from gossamer.sites.format.values import LISTED, Flag, Name, Number, SiteModel, Texts, Whole, listed

Statuses = Annotated[tuple[Number, ...], BeforeValidator(listed), LISTED]


class LoginCheck(SiteModel):
    """What the page that follows a login must be like. If it is not, the login was refused."""

    status: Statuses = ()
    """Accepted statuses; without it, 200 to 299."""
    contains: Texts = ()
    """Texts that the page must contain, all of them."""
    lacks: Texts = ()
    """Texts that the page must not contain."""
    css: str | None = None
    """A CSS selector that must find something."""


class SessionEnd(SiteModel):
    """What shows that a session is over. Such a page is not read; after a new login it is fetched again."""

    status: Statuses = (401,)
    """Statuses that say so."""
    contains: Texts = ()
    """Texts that say so, any of them."""
    redirect: str | None = None
    """Regular expression on the URL that a page redirects to. Default: the login page."""
    form: Flag = True
    """Whether an HTML page with a field for a password says so."""


class LoginRule(Body):
    """How to log in: what is sent, and where to. ${NAME} stands for an environment variable in all texts, {name} for a field or parameter."""

    url: str
    """Where the form, json or body is sent. It may have {parameters}, as `page` may."""
    page: str | None = None
    """The page to read `fields` from; without it, `url`."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """Values to read from the login page first (hidden tokens), for {names} in what is sent."""
    check: LoginCheck = LoginCheck()
    """Whether the login worked, seen on the page that follows it."""
    expires: SessionEnd = SessionEnd()
    """Whether the session is over, seen on any page."""
    tries: Annotated[Whole, Field(ge=1, le=10)] = 3
    """How often to try before the site is stopped."""
