"""Where clients connect to: the REDIS_* settings as scrapy-redis reads them, and without any, the frontier's server."""

from __future__ import annotations

import gc
import pickle
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from redis.cluster import RedisCluster
from scrapy.settings import Settings
from tests.support.scrapy_redis.sides import SIDES, module

from gossamer.errors import DecodingError, EncodingError
from gossamer.scrapy_redis import connection, picklecompat
from gossamer.testing.servers import Cluster, SentinelPair, Server

pytestmark = pytest.mark.filterwarnings("ignore:.*retry_on_timeout")


class Recorded(redis.Redis):
    """A client class of the user's own."""


GIVEN: list[dict[str, Any]] = [
    {"REDIS_URL": "redis://:secret@there:7000/3"},
    {"REDIS_URL": "redis://there:7000", "REDIS_HOST": "elsewhere", "REDIS_PORT": 1, "REDIS_DB": 9},
    {"REDIS_HOST": "there", "REDIS_PORT": 7000},
    {"REDIS_HOST": "there", "REDIS_PORT": "7000", "REDIS_DB": 2},
    {"REDIS_HOST": "there", "REDIS_PORT": 0, "REDIS_DB": 0, "REDIS_ENCODING": ""},
    {"REDIS_HOST": "there", "REDIS_ENCODING": "latin-1", "REDIS_DECODE_RESPONSES": True},
    {"REDIS_PARAMS": {"host": "there", "socket_timeout": 3, "password": "p"}},
    {"REDIS_PARAMS": '{"host": "there", "db": 4}'},
    {"REDIS_HOST": "there", "REDIS_PARAMS": {"host": "elsewhere", "redis_cls": Recorded}},
    {"REDIS_HOST": "there", "REDIS_PARAMS": {"redis_cls": f"{__name__}.Recorded"}},
    {"REDIS_URL": "unix:///tmp/some.sock?db=2"},
]


@pytest.mark.parametrize("given", GIVEN)
def test_settings_mean_what_they_mean_to_scrapy_redis(given: dict[str, Any]) -> None:
    def told(client: Any) -> dict[str, Any]:
        kwargs = dict(client.connection_pool.connection_kwargs)
        return {"class": type(client).__name__} | {
            name: kwargs.get(name)
            for name in ("host", "port", "db", "path", "password", "encoding", "decode_responses", "socket_timeout",
                         "socket_connect_timeout")
        }  # fmt: skip

    old, new = (module(side, "connection").from_settings(Settings(given)) for side in SIDES)
    assert told(new) == told(old)


def test_the_functions_go_by_both_names() -> None:
    for side in SIDES:
        made = module(side, "connection")
        assert made.from_settings is made.get_redis_from_settings
        package = __import__(side, fromlist=["get_redis"])
        assert package.get_redis is made.get_redis
        assert package.get_redis_from_settings is made.get_redis_from_settings
    assert connection.SETTINGS_PARAMS_MAP == module(SIDES[0], "connection").SETTINGS_PARAMS_MAP


def test_a_false_given_on_the_command_line_is_false() -> None:
    settings = Settings({"REDIS_HOST": "there", "REDIS_DECODE_RESPONSES": "False"})
    assert not connection.from_settings(settings).connection_pool.connection_kwargs["decode_responses"]


def test_a_client_class_can_be_replaced_in_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for side in SIDES:
        monkeypatch.setattr(module(side, "defaults"), "REDIS_CLS", Recorded, raising=False)
        assert type(module(side, "connection").get_redis(host="there")) is Recorded
        assert type(module(side, "connection").get_redis(url="redis://there")) is Recorded


def test_without_a_server_in_the_settings_it_is_the_one_of_this_machine() -> None:
    for given in ({}, {"REDIS_PARAMS": {"db": 0, "password": "p"}}):
        for side in SIDES:
            kwargs = (
                module(side, "connection").get_redis_from_settings(Settings(given)).connection_pool.connection_kwargs
            )
            assert (kwargs["host"], kwargs["port"]) == ("localhost", 6379)


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(connection.RedisError, match=rf"The server is redis://:\*\*\*@127.0.0.1:{port}\. Set REDIS_URL"):
        connection.reached(Settings({"REDIS_URL": f"redis://:secret@127.0.0.1:{port}"}))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(connection.RedisError, match="localhost:6379, which is meant where no setting names a server"):
        connection.reached(Settings())


def test_the_server_may_be_our_own(tmp_path: Path) -> None:
    given = {"GOSSAMER_URL": "embedded:", "GOSSAMER_DATA_DIR": str(tmp_path), "REDIS_DECODE_RESPONSES": True}
    client = connection.from_settings(Settings(given))
    assert connection.named(Settings(given)) == f"embedded:{tmp_path}"
    client.rpush("key", "value")
    twin = connection.undecoded(client)
    assert client.lrange("key", 0, -1) == ["value"]
    assert twin.lrange("key", 0, -1) == [b"value"]
    client.close()
    twin.close()
    del client, twin
    gc.collect()


def test_without_a_server_in_the_settings_gossamer_url_says_where(
    valkey_server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_URL", valkey_server.url)
    for settings in (Settings(), Settings({"GOSSAMER_URL": valkey_server.unix_url}), Settings({"REDIS_HOST": ""})):
        with connection.from_settings(settings) as client:
            client.incr(crawl_name)
    assert valkey_server.call("GET", crawl_name) == "3"


@pytest.mark.parametrize("decoding", [True, False])
def test_sentinels_and_clusters_serve_as_well(
    decoding: bool, sentinel_pair: SentinelPair, cluster: Cluster, crawl_name: str
) -> None:
    for url in (sentinel_pair.url, cluster.url):
        client = connection.from_settings(Settings({"GOSSAMER_URL": url, "REDIS_DECODE_RESPONSES": decoding}))
        twin = connection.undecoded(client)
        assert (twin is client) != decoding
        client.set(crawl_name, "ä")
        assert twin.get(crawl_name) == "ä".encode()
        assert client.get(crawl_name) == ("ä" if decoding else "ä".encode())
        with twin.pipeline(transaction=True) as pipe:
            pipe.get(crawl_name)
            pipe.delete(crawl_name)
            assert pipe.execute() == ["ä".encode(), 1]
        client.close()
        twin.close()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "redis://localhost:6379"),
        ({"REDIS_ENCODING": "utf-8", "REDIS_DECODE_RESPONSES": True}, "redis://localhost:6379"),
        ({"REDIS_PARAMS": {"password": "p", "socket_timeout": 5}}, "redis://:p@localhost:6379"),
        ({"GOSSAMER_URL": "embedded:"}, "embedded:"),
        ({"REDIS_URL": "redis://us%40er:p%2Fw@there:7000/3"}, "redis://us%40er:p%2Fw@there:7000/3"),
        ({"REDIS_URL": "redis://there?db=2&socket_timeout=5"}, "redis://there:6379/2"),
        ({"REDIS_HOST": "there"}, "redis://there:6379"),
        ({"REDIS_PORT": "7000", "REDIS_PARAMS": {"password": "p"}}, "redis://:p@localhost:7000"),
        ({"REDIS_HOST": "::1"}, "redis://[::1]:6379"),
        ({"REDIS_URL": "unix:///tmp/a.sock?db=1"}, "unix:///tmp/a.sock?db=1"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/tmp/a.sock"}}, "unix:///tmp/a.sock"),
        ({"REDIS_URL": "rediss://there?ssl_cert_reqs=none"}, "rediss://there:6379?verify=none"),
        (
            {"REDIS_HOST": "there", "REDIS_PARAMS": {"ssl": True, "ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}},
            "rediss://there:6379?verify=ca&ca=%2Fca.pem",
        ),
        ({"REDIS_HOST": "there", "REDIS_PARAMS": {"redis_cls": RedisCluster}}, "redis+cluster://there:6379"),
        ({"REDIS_HOST": "there", "GOSSAMER_URL": "redis://other"}, "redis://there:6379"),
        ({"GOSSAMER_URL": "redis://other"}, "redis://other"),
    ],
)  # fmt: skip
def test_the_frontier_lives_where_the_clients_connect_to(
    given: dict[str, Any], url: str, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = connection.frontier_settings(Settings(given))
    assert chosen["GOSSAMER_URL"] == url
    assert ("GOSSAMER_URL is not used" in caplog.text) == (given.get("GOSSAMER_URL", url) != url)


PLAIN = [
    {"url": "http://site", "headers": {b"A": [b"1"]}, "meta": {"depth": 1, "x": [1.5, None, True, (1, 2), {3}]}},
    {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "d": datetime(2026, 1, 2),
        "t": timedelta(hours=1),
        "z": timezone(timedelta(hours=2)),
    },
    {"n": Decimal("1.10"), "u": UUID(int=7), "b": bytearray(b"x"), "f": frozenset({1}), "r": range(3), "big": 2**200},
]


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_read(value: Any, protocol: int) -> None:
    assert picklecompat.loads(pickle.dumps(value, protocol)) == value
    assert pickle.loads(picklecompat.dumps(value)) == value


class Call:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.said = function, arguments

    def __reduce__(self) -> Any:
        return self.said


def test_a_pickle_that_would_run_something_runs_nothing(tmp_path: Path) -> None:
    target = tmp_path / "made"
    for data in (
        pickle.dumps(Call(Path.touch, target)),
        pickle.dumps({"meta": [Call(eval, f"open({str(target)!r}, 'w')")]}),
        pickle.dumps(Call(__import__, "antigravity")),
        b"cos\nsystem\n(S'touch x'\ntR.",
    ):
        with pytest.raises(DecodingError, match="not plain data"):
            picklecompat.loads(data)
    assert not target.exists()


@pytest.mark.parametrize("data", [b"", b"\x80", b"no pickle", b"P1\n.", b"\x80\x05Q.", pickle.dumps(1)[:-1], b"(" * 9])
def test_bytes_that_are_no_pickle_are_refused(data: bytes) -> None:
    with pytest.raises(DecodingError):
        picklecompat.loads(data)


@pytest.mark.parametrize("value", [Recorded, test_bytes_that_are_no_pickle_are_refused, Call(print), lambda: 0])
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    with pytest.raises(EncodingError, match="not plain data"):
        picklecompat.dumps({"meta": {"x": [value]}})
