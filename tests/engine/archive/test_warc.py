"""The archive, read by somebody else's reader."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.support.hard_server.server import PAGE, HardServer
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from gossamer.engine.archive.warc import WarcWriter
from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.errors import ArchiveFailed
from gossamer.model.fetch import FetchOptions
from gossamer.model.page import PageRequest, Response

RAW = FetchOptions(raw=True)


def page(url: str, size: int = 0) -> Response:
    body = os.urandom(size)
    return Response(
        url, 200, {}, body, raw=b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n" + body, sent=b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    )


def records(path: Path) -> list[tuple[str, str | None, bytes, Any]]:
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            headers = record.rec_headers
            found.append(
                (record.rec_type, headers.get_header("WARC-Target-URI"), record.content_stream().read(), record)
            )
    return found


async def test_pages_are_read_back_as_they_came(hard: HardServer, fetcher: AiohttpFetcher, tmp_path: Path) -> None:
    paths = ("/ok", "/gzip", "/chunked", "/deflate", "/status/404", "/hops/2", "/nothing")
    with WarcWriter(tmp_path / "made" / "here") as writer:
        for path in paths:
            writer.write(
                await fetcher.fetch(PageRequest(hard.url(path), headers={"X-Mine": "1"}, options=RAW)),
                1_700_000_000.25,
            )
        file = writer.path
    assert file is not None
    assert file.parent == tmp_path / "made" / "here"
    kinds = records(file)
    assert [kind for kind, *_ in kinds] == ["warcinfo"] + ["response", "request"] * len(paths)
    answers = {url: (body, record) for kind, url, body, record in kinds if kind == "response"}
    assert set(answers) == {hard.url(path) for path in paths}
    for path in ("/ok", "/gzip", "/chunked", "/deflate", "/status/404"):
        assert answers[hard.url(path)][0] == PAGE
    record = answers[hard.url("/status/404")][1]
    assert record.http_headers.get_statuscode() == "404"
    assert record.rec_headers.get_header("WARC-Date") == "2023-11-14T22:13:20.250000Z"
    request = next(record for kind, url, _, record in kinds if kind == "request" and url == hard.url("/ok"))
    assert request.http_headers.get_header("X-Mine") == "1"
    assert request.rec_headers.get_header("WARC-Concurrent-To") == answers[hard.url("/ok")][1].rec_headers.get_header(
        "WARC-Record-ID"
    )


async def test_passwords_are_not_archived(hard: HardServer, fetcher: AiohttpFetcher, tmp_path: Path) -> None:
    options = RAW._replace(auth=("me", "hidden"), hosts=frozenset({"127.0.0.1"}))
    with WarcWriter(tmp_path) as writer:
        writer.write(await fetcher.fetch(PageRequest(hard.url("/ok"), options=options)))
        writer.write(await fetcher.fetch(PageRequest(hard.url("/ok", "me:hidden@127.0.0.1"), options=RAW)))
    (file,) = tmp_path.iterdir()
    text = gzip.decompress(file.read_bytes())
    assert text.count(f"WARC-Target-URI: {hard.url('/ok')}\r\n".encode()) == 4
    assert b"hidden" not in text
    assert b"Authorization" not in text


def test_each_record_is_a_member_of_its_own_and_files_are_rotated(tmp_path: Path) -> None:
    with WarcWriter(tmp_path, largest=20_000) as writer:
        for number in range(30):
            writer.write(page(f"http://h/{number}", 3000))
    files = sorted(tmp_path.iterdir())
    assert 4 < len(files) < 10
    assert all(file.stat().st_size <= 20_000 for file in files)
    urls = [url for file in files for kind, url, _, _ in records(file) if kind == "response"]
    assert urls == [f"http://h/{number}" for number in range(30)]
    data = files[0].read_bytes()
    members = 0
    while data:
        stream = zlib.decompressobj(31)
        assert stream.decompress(data).startswith(b"WARC/1.1\r\n")
        assert stream.eof
        data, members = stream.unused_data, members + 1
    assert members == len(records(files[0]))
    assert gzip.decompress(files[0].read_bytes())


def test_threads_and_other_processes_get_along(tmp_path: Path) -> None:
    with WarcWriter(tmp_path) as writer, WarcWriter(tmp_path) as other:

        def write() -> None:
            for _ in range(20):
                writer.write(page("http://h/", 500))

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        other.write(page("http://h/"))
        for thread in threads:
            thread.join()
        assert writer.path != other.path
    assert sorted(len(records(file)) for file in tmp_path.iterdir()) == [3, 161]


KILLED = """
import sys
from gossamer.engine.archive.warc import WarcWriter
from gossamer.model.page import Response
writer = WarcWriter(sys.argv[1])
number = 0
while True:
    body = str(number).encode() * 2000
    writer.write(Response(f"http://h/{number}", 200, {}, body, raw=b"HTTP/1.1 200 OK\\r\\n\\r\\n" + body, sent=b"GET / HTTP/1.1\\r\\n\\r\\n"))
    number += 1
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_records_but_for_the_last(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(50):
            written = int(child.stdout.readline())
        child.kill()
    (file,) = tmp_path.iterdir()
    urls = [url for kind, url, _, _ in records(file) if kind == "response"]
    assert urls == [f"http://h/{number}" for number in range(len(urls))]
    assert len(urls) >= written
    # And wherever the last of it was cut off, all before that is there.
    whole = file.read_bytes()
    count = len(records(file))
    for cut in (1, 7, 60):
        file.write_bytes(whole[:-cut])
        assert len([1 for _ in _readable(file)]) >= count - 2


def _readable(path: Path) -> list[bytes]:
    """As records go, up to where the file ends too soon."""
    found, data = [], path.read_bytes()
    while data:
        stream = zlib.decompressobj(31)
        text = stream.decompress(data)
        if not stream.eof:
            break
        found.append(text)
        data = stream.unused_data
    return found


def test_a_full_disk_is_told_and_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = WarcWriter(tmp_path)
    writer.write(page("http://h/1", 1000))
    real, full = os.write, [True]

    def limited(file: int, data: Any) -> int:
        if full:
            full.pop()
            real(file, data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", limited)
    with pytest.raises(ArchiveFailed, match=r"No space left.*archive_pages"):
        writer.write(page("http://h/2", 1000))
    writer.write(page("http://h/3", 1000))
    writer.close()
    writer.close()
    (file,) = tmp_path.iterdir()
    assert [url for kind, url, _, _ in records(file) if kind == "response"] == ["http://h/1", "http://h/3"]


def test_a_directory_that_cannot_be_made_and_a_page_without_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveFailed, match="file"):
        WarcWriter(tmp_path / "file" / "below").write(page("http://h/"))
    with pytest.raises(ValueError, match=r"Options\.raw"):
        WarcWriter(tmp_path).write(Response("http://h/", 200, {}, b""))


async def test_a_first_line_that_is_no_text_is_kept_as_it_came(fetcher: AiohttpFetcher) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 Voil\xe0\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        got = await fetcher.fetch(PageRequest(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", options=RAW))
    assert got.raw is not None
    assert got.raw.startswith(b"HTTP/1.1 200 Voil\xe0\r\n")


def test_an_archive_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with WarcWriter(tmp_path / "pages") as writer:
            writer.write(page("http://h/"))
    finally:
        os.umask(before)
    assert writer.path is not None
    assert writer.path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "pages").stat().st_mode & 0o777 == 0o700
