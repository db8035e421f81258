"""Pages kept as they came: WARC 1.1 files, each record a gzip member of its own, so that a file whose writer was killed is
whole up to its last record.

Not warcio: it writes to a stream piece by piece and leaves half a record behind when the disk is full
(`test_a_full_disk_is_told_and_leaves_no_half_record`); it would replace only `_record`. The tests read the files with it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
import socket
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from gossamer.closeable import Closeable
from gossamer.errors import ArchiveFailed
from gossamer.model.fetch import AGENT
from gossamer.model.page import Response

LARGEST = 10**9
"""Bytes after which another file is begun."""
_LEVEL = 6
_LOGIN = re.compile(r"//[^/?#]*@")


class WarcWriter(Closeable):
    """The archive of one process in `directory`, which is made if need be. Usable from any thread; a call returns once the
    system has the bytes, and only closing a file waits for the disk."""

    def __init__(self, directory: str | Path, largest: int = LARGEST) -> None:
        self._directory, self._largest = Path(directory), largest
        self._lock = threading.Lock()
        self._file = -1
        self._path: Path | None = None
        self._size = self._serial = 0

    @property
    def path(self) -> Path | None:
        """The file that is written now; none before the first page."""
        return self._path

    def write(self, response: Response, at: float | None = None) -> None:
        """A page that was fetched with `FetchOptions.raw`: its request and its answer."""
        if response.raw is None:
            raise ValueError("only a page that was asked for with Options.raw can be archived")
        at = time.time() if at is None else at
        answer_id, request_id = _record_id(), _record_id()
        url = _LOGIN.sub("//", response.url, count=1)
        records = _record(
            "response",
            answer_id,
            at,
            response.raw,
            url,
            "application/http;msgtype=response",
            _payload(response.raw),
        )
        if response.sent is not None:
            about = {"WARC-Concurrent-To": answer_id}
            records += _record("request", request_id, at, response.sent, url, "application/http;msgtype=request", about)
        with self._lock:
            try:
                if self._file >= 0 and self._size + len(records) > self._largest:
                    self._finish()
                if self._file < 0:
                    self._begin(at)
                self._append(records)
            except OSError as error:
                raise ArchiveFailed(
                    f"Pages cannot be kept in {self._directory}: {error}. Make room, or name another `archive_pages`."
                ) from error

    def close(self) -> None:
        """Everything is on the disk when this returns; does nothing the second time."""
        with self._lock:
            if self._file >= 0:
                self._finish()

    def _begin(self, at: float) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%d%H%M%S")
        host = "".join(sign if sign.isalnum() else "-" for sign in socket.gethostname())[:40]
        while self._file < 0:
            self._serial += 1
            path = self._directory / f"gossamer-{stamp}-{self._serial:05}-{os.getpid()}-{host}.warc.gz"
            try:
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
        self._path, self._size = path, 0
        about = f"software: {AGENT}\r\nformat: WARC File Format 1.1\r\nconformsTo: http://iipc.github.io/warc-specifications/\r\n"
        self._append(
            _record(
                "warcinfo",
                _record_id(),
                at,
                about.encode(),
                "",
                "application/warc-fields",
                {"WARC-Filename": path.name},
            )
        )

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            # Half a record in the middle of a file would hide all that comes after it.
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += len(data)

    def _finish(self) -> None:
        file, self._file = self._file, -1
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _record(kind: str, number: str, at: float, block: bytes, url: str, content: str, more: dict[str, str]) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Record-ID": number,
        "WARC-Date": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        **({"WARC-Target-URI": url} if url else {}),
        **more,
        "WARC-Block-Digest": _digest(block),
        "Content-Type": content,
        "Content-Length": str(len(block)),
    }
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    return gzip.compress(head.encode() + block + b"\r\n\r\n", _LEVEL, mtime=0)


def _payload(raw: bytes) -> dict[str, str]:
    return {"WARC-Payload-Digest": _digest(raw[raw.find(b"\r\n\r\n") + 4 :])}


def _digest(data: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()}"


def _record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"
