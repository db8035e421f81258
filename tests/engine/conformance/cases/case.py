"""How a case is declared, and the pages that several of them serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.engine.conformance.conformance import Came, Case
from tests.support.site import Reply, Site

CASES: list[Case] = []
Check = Callable[[Came], None]


def case(text: str, prepare: Callable[[Site, Site], object], **more: Any) -> Callable[[Check], Check]:
    """Of the function below, which says what must be true; its name is the case's."""

    def decorate(check: Check) -> Check:
        CASES.append(Case(check.__name__, text, prepare, check, **more))
        return check

    return decorate


def page(title: str, *paths: str) -> Reply:
    return Reply(body=f"<h1>{title}</h1>" + "".join(f'<a href="{path}">{path}</a>' for path in paths))


def xml(text: str) -> Reply:
    return Reply(body=text, headers={"Content-Type": "application/xml"})
