"""The page over HTTP, on a loopback address by default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server

from gossamer.exporter.collector import Collector
from gossamer.settings import Settings

ADDRESS = "127.0.0.1"
PORT = 9469


@contextlib.contextmanager
def serve(settings: Settings, address: str = ADDRESS, port: int = PORT) -> Iterator[int]:
    """Serve until the block ends; yields the port, which the system chooses if 0 was asked for. OSError names the address if
    it cannot be used."""
    registry = CollectorRegistry(auto_describe=False)
    collector = Collector(settings)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{address}:{port}") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        collector.close()
