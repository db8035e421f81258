"""A web server that misbehaves on purpose, in a process of its own: plain and with TLS, on IPv4 and, where there is one, IPv6.

`python -m tests.support.hard_server.server DIRECTORY` writes its certificates there and prints its ports. What it does is in
`hardpages`; `CASES` there says what each path comes to. A robots.txt depends on the host that is asked for: see `ROBOTS`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.hard_server.pages import MIXED
from tests.support.hard_server.wire import CASES, PAGE, PAGES, Case, Hit, answer
from tests.support.servers.http1 import connection, read_body, read_head

from gossamer.testing.server_process import ServerProcess, ask, listen, stop_event

__all__ = ["CASES", "MIXED", "PAGE", "Case", "HardServer"]

LOG, FORGET = "/-/log", "/-/forget"
ROBOTS: dict[str, bytes] = {
    "some.test": answer(
        200, b"User-agent: *\nDisallow: /private\n\nUser-agent: gossamer\nDisallow: /secret\nCrawl-delay: 2\n"
    ),
    "none.test": answer(404),
    "forbidden.test": answer(403),
    "broken.test": answer(503),
    "busy.test": answer(429),
    "moved.test": answer(301, b"", "Location: /elsewhere.txt"),
    "looped.test": answer(301, b"", "Location: /robots.txt"),
    "garbage.test": answer(200, bytes(range(256)) * 20),
    "large.test": answer(
        200, b"User-agent: *\nDisallow: /private\n" + b"# a comment\n" * 100_000 + b"Disallow: /late\n"
    ),
    "greedy.test": answer(200, b"User-agent: *\nCrawl-delay: 1000000000\n"),
}
_ELSEWHERE = answer(200, b"User-agent: *\nDisallow: /moved\n")


class _Server:
    def __init__(self) -> None:
        self.log: list[tuple[str, str, dict[str, str], int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connection(writer):
            for number in count(1):
                head = await read_head(reader)
                body = await read_body(reader, head)
                if not await self._answer(Hit(head.method, head.target, head.headers, body, head.raw, number), writer):
                    break
                await writer.drain()

    async def _answer(self, hit: Hit, writer: asyncio.StreamWriter) -> bool:
        if hit.path in (LOG, FORGET):
            writer.write(answer(200, json.dumps(self.log).encode()))
            if hit.path == FORGET:
                self.log.clear()
            return True
        self.log.append((hit.method, hit.target, hit.headers, hit.number))
        name = hit.headers.get("host", "").partition(":")[0]
        if hit.path == "/robots.txt":
            writer.write(ROBOTS.get(name, ROBOTS["none.test"]))
            return True
        if hit.path == "/elsewhere.txt":
            writer.write(_ELSEWHERE)
            return True
        found = PAGES.get(hit.path) or next(
            (page for path, page in PAGES.items() if path.endswith("/") and hit.path.startswith(path)), None
        )
        if found is None:
            writer.write(answer(404))
            return True
        if hit.method == "HEAD" and hit.path == "/ok":
            writer.write(answer(200, b"", length=len(PAGE)))
            return True
        return await found(hit, writer)


def certificates(directory: Path) -> None:
    """ca.pem, an authority that nobody knows, and server.pem for 127.0.0.1, ::1, localhost and a.test."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        "req", "-x509", *key, "-days", "3650", "-subj", "/CN=Nobody's authority", "-keyout", "ca.key", "-out", "ca.pem"
    )
    openssl("req", *key, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    names = "subjectAltName=DNS:localhost,DNS:a.test,IP:127.0.0.1,IP:::1\n"
    (directory / "names").write_text(names)
    sign = ["-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650"]
    openssl("x509", *sign, "-extfile", "names", "-out", "server.crt")
    (directory / "server.pem").write_text(
        (directory / "server.crt").read_text() + (directory / "server.key").read_text()
    )


async def run(directory: Path) -> None:
    told = stop_event()
    certificates(directory)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(directory / "server.pem")
    server = _Server()
    ports = {}
    listeners = []
    for name, host, context in (("http", "127.0.0.1", None), ("https", "127.0.0.1", secure), ("ipv6", "::1", None)):
        try:
            listener, ports[name] = await listen(server.serve, host, context)
            listeners.append(listener)
        except OSError:
            if name != "ipv6":
                raise
            ports[name] = 0
    print(json.dumps(ports), flush=True)
    await told.wait()


class HardServer(ServerProcess):
    """The process, for tests. It dies with this one."""

    def __init__(self) -> None:
        super().__init__("the hard server")
        self.ports: dict[str, int] = {}

    def start(self) -> Self:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), str(self.directory)]
        self.ports = self.run(command, lambda said: dict(json.loads(said)))
        return self

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.ports['http']}{path}"

    def secure_url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.ports['https']}{path}"

    @property
    def authority(self) -> str:
        """The file of the authority that signed the certificate."""
        return str(self.directory / "ca.pem")

    @property
    def certificate(self) -> str:
        """The file with the server's certificate and key, for other servers."""
        return str(self.directory / "server.pem")

    def visits(self) -> list[tuple[str, str, dict[str, str], int]]:
        """Method, target, headers by lower-case name and the number within its connection, in the order of arrival."""
        return [(str(m), str(t), dict(h), int(n)) for m, t, h, n in self._ask(LOG)]

    def forget(self) -> None:
        self._ask(FORGET)

    def _ask(self, path: str) -> Any:
        return json.loads(ask(f"127.0.0.1:{self.ports['http']}", path))


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve pages that misbehave, on loopback.")
    parser.add_argument("directory", type=Path, help="where the certificates are written")
    asyncio.run(run(parser.parse_args().directory))


if __name__ == "__main__":
    main()
