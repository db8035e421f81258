"""Clients of the server, made from the `REDIS_*` settings as scrapy-redis makes them.

Without any setting that says where the server is, it is the one of GOSSAMER_URL if that is set, else localhost:6379 as ever.
The only module of this room that imports the driver.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import redis
import redis.cluster
import redis.connection
import redis.sentinel
from redis.cluster import RedisCluster
from redis.connection import ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError
from redis.sentinel import SentinelConnectionPool
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from gossamer.frontier.connection import EmbeddedSession
from gossamer.frontier.connection.driver import check_files, options
from gossamer.frontier.connection.router import Node
from gossamer.frontier.connection.url import FrontierUrl, host_port, parse, same_place, server_of
from gossamer.scrapy.settings import loaded
from gossamer.scrapy_redis import defaults
from gossamer.settings import DEFAULT, Settings, load

__all__ = [
    "SETTINGS_PARAMS_MAP",
    "Client",
    "RedisError",
    "client_of",
    "from_settings",
    "frontier_settings",
    "get_redis",
    "get_redis_from_settings",
    "named",
    "reached",
    "undecoded",
]

logger = logging.getLogger(__name__)

# Whatever `redis_cls` makes: redis.Redis, a cluster's client, or a class of the user's own.
Client: TypeAlias = Any

REDIS_CLS = redis.StrictRedis
# Much of the driver has no annotations.
_driver: Any = redis

SETTINGS_PARAMS_MAP = {
    "REDIS_URL": "url",
    "REDIS_HOST": "host",
    "REDIS_PORT": "port",
    "REDIS_DB": "db",
    "REDIS_ENCODING": "encoding",
    "REDIS_DECODE_RESPONSES": "decode_responses",
}
# With one of these the user names a server.
_PLACES = frozenset({"url", "host", "port", "db", "unix_socket_path", "connection_pool", "redis_cls"})


def get_redis_from_settings(settings: BaseSettings) -> Client:
    """A client as the settings say. `REDIS_URL` wins over `REDIS_HOST` and the like, which win over `REDIS_PARAMS`."""
    params = _params(settings)
    if _PLACES.isdisjoint(params) and (chosen := _chosen(settings)) is not None:
        return client_of(chosen, params)
    return get_redis(**params)


from_settings = get_redis_from_settings


def reached(settings: BaseSettings) -> Client:
    """A client whose server has answered; RedisError says which one did not, and how to name another."""
    client = from_settings(settings)
    try:
        client.ping()
    except RedisError as error:
        chosen = not _PLACES.isdisjoint(_params(settings)) or _chosen(settings) is not None
        meant = "" if chosen else ", which is meant where no setting names a server"
        raise type(error)(
            f"{error} The server is {named(settings)}{meant}. Set REDIS_URL, or GOSSAMER_URL: 'embedded:' is a server of "
            "Gossamer's own."
        ) from error
    return client


def named(settings: BaseSettings) -> str:
    """The server, as messages name it."""
    chosen = frontier_settings(settings)
    return server_of(chosen["GOSSAMER_URL"], chosen["GOSSAMER_DATA_DIR"])


def _chosen(settings: BaseSettings) -> Settings | None:
    """Gossamer's settings, if they name a server."""
    chosen = loaded(settings)
    return chosen if chosen.source("GOSSAMER_URL") != DEFAULT else None


def get_redis(**kwargs: Any) -> Client:
    """A client of class `redis_cls`, by `url` if there is one; everything else is handed to that class."""
    redis_cls = kwargs.pop("redis_cls", None) or defaults.REDIS_CLS
    url = kwargs.pop("url", None)
    if url:
        return redis_cls.from_url(url, **kwargs)
    if isinstance(redis_cls, type) and issubclass(redis_cls, redis.Redis):
        # The driver does so in any case, and warns of the argument.
        kwargs.pop("retry_on_timeout", None)
    return redis_cls(**kwargs)


def undecoded(server: Client) -> Client:
    """A client of the same server whose answers are bytes; `server` itself if its answers are.

    Stored requests are not text: a client with `decode_responses` cannot read them.
    """
    if isinstance(server, RedisCluster):
        cluster: Any = server
        kwargs = dict(cluster.nodes_manager.connection_kwargs)
        if not kwargs.get("decode_responses"):
            return server
        nodes = [_driver.cluster.ClusterNode(str(node.host), int(node.port)) for node in cluster.get_nodes()]
        wanted = ("username", "password", "socket_timeout", "socket_connect_timeout", "encoding", "protocol")
        ssl = {name: value for name, value in kwargs.items() if name.startswith("ssl_")}
        ssl |= {"ssl": True} if kwargs.get("connection_class") is SSLConnection or ssl else {}
        return RedisCluster(startup_nodes=nodes, **{n: kwargs[n] for n in wanted if n in kwargs}, **ssl)
    pool = getattr(server, "connection_pool", None)
    if not isinstance(pool, ConnectionPool):
        return server  # a client of another kind, or what stands for one
    kwargs = dict(pool.connection_kwargs)
    if not kwargs.pop("decode_responses", False):
        return server
    if isinstance(pool, SentinelConnectionPool):
        kwargs.pop("connection_pool", None)
        twin: Any = _driver.sentinel.SentinelConnectionPool(pool.service_name, pool.sentinel_manager, **kwargs)
    else:
        twin = type(pool)(connection_class=pool.connection_class, max_connections=pool.max_connections, **kwargs)
    return type(server).from_pool(twin)


def frontier_settings(settings: BaseSettings, given: Mapping[str, Any] | None = None) -> Settings:
    """The settings of the frontier that lives where `from_settings` connects to; `given` wins over the project's."""
    params = _params(settings)
    chosen = loaded(settings)
    named = chosen.source("GOSSAMER_URL") != DEFAULT
    url = {} if named and _PLACES.isdisjoint(params) else {"GOSSAMER_URL": _frontier_url(params)}
    if url and named and not same_place(chosen["GOSSAMER_URL"], url["GOSSAMER_URL"]):
        logger.warning("GOSSAMER_URL is not used: REDIS_URL, or another setting of scrapy-redis, names the server.")
    more = {**url, **(given or {})}
    if not more:
        return chosen
    said = {name: value for name, value in chosen.values.items() if chosen.source(name) != DEFAULT}
    return load({**said, **more}, {})


def place_of(settings: BaseSettings) -> str:
    """The server that settings of scrapy-redis name; "" if none does."""
    params = _params(settings)
    return "" if _PLACES.isdisjoint(params) else _frontier_url(params)


def project_url() -> str:
    """The server of the Scrapy project here: the one it names by `REDIS_URL` and the like, or scrapy-redis's own default; "" if
    GOSSAMER_URL names it."""
    settings = get_project_settings()
    params = _params(settings)
    return "" if _PLACES.isdisjoint(params) and _chosen(settings) is not None else _frontier_url(params)


def _params(settings: BaseSettings) -> dict[str, Any]:
    params = {**defaults.REDIS_PARAMS, **settings.getdict("REDIS_PARAMS")}
    for setting, name in SETTINGS_PARAMS_MAP.items():
        # `-s REDIS_DECODE_RESPONSES=False` is a text, and not an empty one.
        value = settings.getbool(setting) if name == "decode_responses" else settings.get(setting)
        if value:
            params[name] = value
    if isinstance(params.get("redis_cls"), str):
        params["redis_cls"] = load_object(params["redis_cls"])
    return params


def client_of(chosen: Settings, params: Mapping[str, Any] | None = None) -> Client:
    """A client of the server that GOSSAMER_URL names, with further parameters of the driver."""
    params = dict(params or {})
    address = parse(chosen["GOSSAMER_URL"])
    check_files(address)
    params.pop("retry_on_timeout", None)
    if address.kind == "embedded":
        return _embedded(address, chosen, params)
    hosts = address.hosts or ((address.path, 0),)
    common = {**options(address, 0, 0, Node(*hosts[0])), **params}
    if address.kind == "unix":
        common["unix_socket_path"] = common.pop("path")
        return REDIS_CLS(**common)
    common |= {"ssl": True} if address.tls else {}
    if address.kind == "single":
        return REDIS_CLS(**common)
    del common["host"], common["port"]
    if address.kind == "cluster":
        del common["db"]
        return RedisCluster(
            startup_nodes=[_driver.cluster.ClusterNode(host, port) for host, port in address.hosts], **common
        )
    watched = {"username": address.sentinel_username, "password": address.sentinel_password}
    watched |= {name: value for name, value in common.items() if name.startswith(("ssl", "socket_"))}
    sentinel = _driver.sentinel.Sentinel(list(address.hosts), sentinel_kwargs=watched, **common)
    return sentinel.master_for(address.service, redis_class=REDIS_CLS)


class EmbeddedConnection(UnixDomainSocketConnection):
    """A connection to our own server, which it starts again should its supervisor have gone."""

    def __init__(self, *, embedded_session: EmbeddedSession, **kwargs: Any) -> None:
        self._embedded_session = embedded_session
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self._embedded_session.renew()
        self.path = self._embedded_session.locate(Node("", 0)).host
        return super()._connect()  # type: ignore[no-untyped-call]


def _embedded(address: FrontierUrl, chosen: Settings, params: dict[str, Any]) -> Client:
    embedded_session = EmbeddedSession(address, chosen)
    path = embedded_session.locate(Node("", 0)).host
    kwargs = {"protocol": 2, **params, "path": path, "embedded_session": embedded_session}
    pool = ConnectionPool(connection_class=EmbeddedConnection, **kwargs)
    # The server stays as long as this client is in use.
    weakref.finalize(pool, embedded_session.close)
    return REDIS_CLS.from_pool(pool)


def _frontier_url(params: Mapping[str, Any]) -> str:
    """The server of a client's parameters as a frontier's URL."""
    said: dict[str, Any] = {**params, **(_driver.connection.parse_url(params["url"]) if params.get("url") else {})}
    if isinstance(said.get("connection_pool"), ConnectionPool):
        said = {
            **said["connection_pool"].connection_kwargs,
            "connection_class": said["connection_pool"].connection_class,
        }
    user = quote(str(said.get("username") or ""), safe="")
    if said.get("password"):
        user += ":" + quote(str(said["password"]), safe="")
    user = user and user + "@"
    db = int(said.get("db") or 0)
    path = said.get("path") or said.get("unix_socket_path")
    if path:
        return f"unix://{user}{quote(path)}" + (f"?db={db}" if db else "")
    tls = bool(said.get("ssl")) or said.get("connection_class") is SSLConnection
    redis_cls = said.get("redis_cls")
    cluster = isinstance(redis_cls, type) and issubclass(redis_cls, RedisCluster)
    scheme = ("rediss" if tls else "redis") + ("+cluster" if cluster else "")
    query = ""
    if tls:
        unverified = str(said.get("ssl_cert_reqs", "required")).lower() in (
            "none",
            "cert_none",
            "0",
            "verifymode.cert_none",
        )
        verify = "none" if unverified else "required" if said.get("ssl_check_hostname", True) else "ca"
        files = {"ca": said.get("ssl_ca_certs"), "cert": said.get("ssl_certfile"), "key": said.get("ssl_keyfile")}
        query = "?" + urlencode({"verify": verify, **{name: file for name, file in files.items() if file}})
    place = host_port(str(said.get("host") or "localhost"), int(said.get("port") or 6379))
    return f"{scheme}://{user}{place}" + (f"/{db}" if db and not cluster else "") + query
