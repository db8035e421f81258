"""Databases that a site file of the crawl names: what a rogue server gets of the machine that connects to it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gossamer.errors import StoreError
from gossamer.store import Store

SECRET = b"not for strangers"
DONE = b"\x00\x00\x00\x02\x00\x00\x00"
"""MariaDB's answer to a statement without rows."""


@contextmanager
def rogue(talk: Callable[[socket.socket], bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """A server that has this talk with each client; what the clients sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.settimeout(20)
                    try:
                        heard.append(talk(client))
                    except OSError as error:
                        heard.append(repr(error).encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], heard
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def asks_for_password(client: socket.socket) -> bytes:
    """PostgreSQL that wants the password as it is."""
    length, code = struct.unpack("!II", client.recv(8, socket.MSG_WAITALL))
    while code == 80877103:  # TLS is asked for
        client.sendall(b"N")
        length, code = struct.unpack("!II", client.recv(8, socket.MSG_WAITALL))
    start = client.recv(length - 8, socket.MSG_WAITALL)
    client.sendall(b"R" + struct.pack("!II", 8, 3))
    return start + client.recv(1_000)


def asks_for_file(path: Path) -> Callable[[socket.socket], bytes]:
    """MariaDB that answers a statement by asking for a file."""

    def packet(number: int, body: bytes) -> bytes:
        return struct.pack("<I", len(body))[:3] + bytes([number]) + body

    def receive(client: socket.socket) -> bytes:
        head = client.recv(4, socket.MSG_WAITALL)
        return client.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL) if len(head) == 4 else b""

    def talk(client: socket.socket) -> bytes:
        flags = 0x81BFF7DF  # all that clients use, LOCAL INFILE among it
        hello = b"\x0a11.0\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", flags & 0xFFFF) + b"\x2d"
        hello += struct.pack("<HH", 2, flags >> 16) + b"\x15" + bytes(10) + b"123456789012\0mysql_native_password\0"
        client.sendall(packet(0, hello))
        heard = receive(client)
        client.sendall(packet(2, DONE))
        while (asked := receive(client))[:1] == b"\x03":
            heard += asked
            if b"SELECT" in asked:
                client.sendall(packet(1, b"\xfb" + os.fsencode(path)))
                heard += receive(client)
            else:
                client.sendall(packet(1, DONE))
        return heard

    return talk


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("options", ["", "?local_infile=1", "#?local_infile=1"])
@pytest.mark.parametrize("is_foreign", [False, True])
def test_no_server_reads_a_file(secret: Path, options: str, is_foreign: bool) -> None:
    with rogue(asks_for_file(secret)) as (port, heard), pytest.raises(StoreError):
        Store.open(f"mysql://u:p@127.0.0.1:{port}/db{options}", is_foreign)
    assert any(b"SELECT" in one for one in heard), "the server was asked something"
    assert not any(SECRET in one for one in heard)


@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_server_that_a_pushed_file_names_gets_no_password_of_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_foreign: bool
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:*:of the file\n")
    passwords.chmod(0o600)
    with rogue(asks_for_password) as (port, heard):
        for variable, value in (("PGPASSFILE", str(passwords)), ("PGPASSWORD", "of the environment")):
            monkeypatch.setenv(variable, value)
            monkeypatch.setenv("PGOPTIONS", "-c search_path=of_the_owner")
            with pytest.raises(StoreError):
                Store.open(f"postgresql://u@127.0.0.1:{port}/db", is_foreign)
    assert len(heard) >= 2
    assert any(b"of the file" in one for one in heard) is not is_foreign
    assert any(b"of the environment" in one for one in heard) is not is_foreign
    assert any(b"of_the_owner" in one for one in heard) is not is_foreign


def test_a_service_file_says_nothing_of_a_database_that_a_pushed_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICE", "mine")
    with pytest.raises(StoreError, match="PGSERVICE"):
        Store.open("postgresql://u:p@127.0.0.1:1/db", is_foreign=True)
