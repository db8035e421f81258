"""Documents: small named texts with versions that a crawl keeps, such as site files. Generators without I/O.

All of them are on partition 0. A change gives that partition a new config version, which every exchange returns: workers need not
poll, and see a change within seconds.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from typing import Any

from gossamer.errors import InvalidRequest, PolicyError, UnknownDocument
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.model import Document, DocumentInfo
from gossamer.model.document import AUDIT, AUDIT_KEPT
from gossamer.model.policy import NAME

KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
TEXT_BYTES = 1_000_000
WORDS = 2000
CALL_DOCUMENTS = 50
"""The most that are read in one round trip."""


class DocumentVerbs:
    """Builds and reads the calls about documents of one crawl, of which `kept` versions stay."""

    def __init__(self, crawl: str, kept: int) -> None:
        self.base, self.kept = keys.base(crawl, 0), kept

    def kept_of(self, kind: str) -> int:
        """How many versions of a document of this kind stay."""
        return AUDIT_KEPT if kind == AUDIT else self.kept

    def put_document(
        self, kind: str, name: str, text: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> Verb[int]:
        data = checked_text(kind, name, text)
        return (yield from self._write(kind, name, expected, who, note, data, deleted=False))

    def drop_document(
        self, kind: str, name: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> Verb[int]:
        return (yield from self._write(kind, name, expected, who, note, b"", deleted=True))

    def _write(
        self, kind: str, name: str, expected: int | None, who: str, note: str, data: bytes, *, deleted: bool
    ) -> Verb[int]:
        header = {
            "i": f"document:{secrets.token_hex(8)}", "salt": secrets.token_hex(8), "kind": kind_of(kind), "name": name_of(name),
            "expected": -1 if expected is None else expected, "keep": self.kept_of(kind), "who": _words("who", who),
            "note": _words("note", note), "digest": digest_of(data), "deleted": deleted,
        }  # fmt: skip
        [reply] = yield [function_call("put_document", self.base, header, data)]
        return int(reply)

    def document(self, kind: str, name: str, version: int | None = None) -> Verb[Document]:
        header = {"kind": kind_of(kind), "name": name_of(name), "version": version or 0}
        [reply] = yield [function_call("document", self.base, header)]
        head = read(reply[0])
        if not head:
            which = f"version {version} of " if version else ""
            raise UnknownDocument(
                f"the crawl has no {which}{kind} {name!r}. `document_history` tells which versions are kept."
            )
        return Document(*_info(head), reply[1].decode())

    def read_documents(self, kind: str, names: Sequence[str]) -> Verb[list[Document]]:
        found: list[Document] = []
        for first in range(0, len(names), CALL_DOCUMENTS):
            some = names[first : first + CALL_DOCUMENTS]
            headers = [{"kind": kind_of(kind), "name": name_of(name), "version": 0} for name in some]
            replies = yield [function_call("document", self.base, header) for header in headers]
            found += [
                Document(*_info(head), text.decode()) for head, text in ((read(r[0]), r[1]) for r in replies) if head
            ]
        return found

    def documents(self, kind: str) -> Verb[list[DocumentInfo]]:
        [reply] = yield [function_call("documents", self.base, {"kind": kind_of(kind), "name": ""})]
        return [_info(head) for head in read(reply)]

    def document_history(self, kind: str, name: str) -> Verb[list[DocumentInfo]]:
        [reply] = yield [function_call("documents", self.base, {"kind": kind_of(kind), "name": name_of(name)})]
        rows = [_info(head) for head in read(reply)]
        if not rows:
            raise UnknownDocument(f"the crawl has no {kind} {name!r}, and never had one.")
        return rows

    def every(self) -> Verb[list[tuple[str, str]]]:
        """Kind and name of all documents, for a snapshot."""
        [reply] = yield [function_call("documents", self.base, {"kind": "", "name": ""})]
        return [tuple(head[0].split("|", 1)) for head in read(reply)]

    def documents_version(self) -> Verb[int]:
        [reply] = yield [function_call("documents_version", self.base, {})]
        return int(reply)


def checked_text(kind: str, name: str, content: str) -> bytes:
    """The bytes to keep, or InvalidRequest."""
    try:
        data = content.encode()
    except UnicodeEncodeError as problem:
        raise InvalidRequest(
            f"{kind} {name!r} cannot be kept: character {problem.start + 1} is no text. Write it in UTF-8."
        ) from None
    if len(data) > TEXT_BYTES:
        raise InvalidRequest(
            f"{kind} {name!r} has {len(data):,} bytes; a document has at most {TEXT_BYTES:,}. Divide it, or move lists into files."
        )
    return data


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _info(head: list[Any]) -> DocumentInfo:
    name, version, at, who, note, deleted, digest, size = head
    return DocumentInfo(name, version, at / 1000, who, note, deleted == 1, digest, size)


def kind_of(kind: str) -> str:
    if not KIND.match(kind):
        raise PolicyError(f"document: kind {kind!r} must be a short word in lower case.")
    return kind


def name_of(name: str) -> str:
    if not NAME.match(name):
        raise PolicyError(
            f"document {name!r}: use letters, digits, and _ . : - (at most 100, starting with a letter or digit)."
        )
    return name


def _words(what: str, said: str) -> str:
    if len(said) > WORDS:
        raise PolicyError(f"document: {what} has {len(said):,} characters; use at most {WORDS:,}.")
    return said
