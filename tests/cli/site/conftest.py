"""A server with the pages of the shared site files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.site.site_files import LIST, POST
from tests.support.site import Reply, Site


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        one.on("/post/1", Reply(body=POST)).on("/list/1", Reply(body=LIST))
        yield one
