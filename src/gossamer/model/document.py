"""What a crawl keeps versions of: small texts, and pages."""

from __future__ import annotations

from typing import NamedTuple

AUDIT, AUDIT_KEPT = "audit", 1000
"""The kind of the document that says who steered the crawl, and how many of its versions are kept."""

DRAINING = "draining"
"""The kind of the documents that name site files which begin no rounds any more, until they are removed or pushed again."""

PageName = tuple[str, str]
"""The host of a page, and its name among the pages of its group."""


class DocumentInfo(NamedTuple):
    """One version of a document. `at` is server time in seconds; `deleted` marks a version that deletes the document;
    `digest` is the SHA-256 of its text, `bytes` the length of the text."""

    name: str
    version: int
    at: float
    who: str
    note: str
    deleted: bool
    digest: str
    bytes: int


class Document(NamedTuple):
    """One version of a document with its text, "" where it is deleted."""

    name: str
    version: int
    at: float
    who: str
    note: str
    deleted: bool
    digest: str
    bytes: int
    text: str
