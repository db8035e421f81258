"""Where the frontier lives: a URL read into an `FrontierUrl`. Pure, no I/O.

Forms:

    embedded:                                     a server of our own in GOSSAMER_DATA_DIR
    embedded:/some/directory                      the same, in that directory
    redis://[user:password@]host[:port][/db]      also valkey://
    rediss://…?ca=&cert=&key=&verify=             the same over TLS; also valkeys://
    unix://[user:password@]/path/to.sock[?db=]
    redis+sentinel://h1[:port],h2/service[/db]    also rediss+sentinel://
    redis+cluster://h1[:port],h2                  also rediss+cluster://
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NoReturn
from urllib.parse import quote, unquote

from gossamer.errors import UrlError

Kind = Literal["embedded", "single", "unix", "sentinel", "cluster"]
Verify = Literal["required", "ca", "none"]

SERVER_PORT = 6379
SENTINEL_PORT = 26379

_SCHEMES: dict[str, tuple[Kind, bool]] = {
    "redis": ("single", False),
    "valkey": ("single", False),
    "rediss": ("single", True),
    "valkeys": ("single", True),
    "unix": ("unix", False),
    "redis+sentinel": ("sentinel", False),
    "valkey+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "valkeys+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "valkey+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
    "valkeys+cluster": ("cluster", True),
}
_TLS_OPTIONS = ("ca", "cert", "key", "verify")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")


@dataclass(frozen=True, slots=True)
class FrontierUrl:
    """A frontier URL, understood.

    `hosts` are servers (single, cluster) or sentinels, in the order given. `path` is the socket (unix) or the
    data directory (embedded; empty means GOSSAMER_DATA_DIR). `verify` matters only with `tls`: `required`
    checks the certificate and the host name, `ca` the certificate alone, `none` nothing. `ca` empty means the
    system's authorities. Passwords are in neither `repr` nor `safe`.
    """

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: Verify = "required"
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    @property
    def safe(self) -> str:
        """The address as a URL with `***` for the password: for logs, errors and screens."""
        if self.kind == "embedded":
            return f"embedded:{self.path}"
        user = quote(self.username or "", safe="") + (":***" if self.password is not None else "")
        user = user and user + "@"
        if self.kind == "unix":
            return f"unix://{user}{self.path}" + (f"?db={self.db}" if self.db else "")
        scheme = ("rediss" if self.tls else "redis") + ("" if self.kind == "single" else f"+{self.kind}")
        tail = f"/{self.service}" if self.service else ""
        tail += f"/{self.db}" if self.db else ""
        return f"{scheme}://{user}{','.join(host_port(host, port) for host, port in self.hosts)}{tail}"


def host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def redact(url: str) -> str:
    """Any text that was meant as a URL, without what may be a password, even if it cannot be parsed."""
    head, separator, rest = url.partition("://")
    if "@" in rest:
        rest = "***@" + rest.rpartition("@")[2]
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", head + separator + rest)


def server_of(url: str, directory: str) -> str:
    """The server of a URL for people to read, without a password; an embedded one by the directory it is in."""
    address = parse(url)
    return f"embedded:{address.path or directory}" if address.kind == "embedded" else address.safe


def same_place(one: str, other: str) -> bool:
    """Whether two URLs name the same servers and database, however they are written and whoever connects."""
    try:
        left, right = parse(one), parse(other)
    except UrlError:
        return one == other
    return all(getattr(left, part) == getattr(right, part) for part in ("kind", "hosts", "path", "service", "db"))


def parse(url: str) -> FrontierUrl:
    """Read a URL. Raises `UrlError`, which names the wrong part and the remedy and never shows a password."""
    url = url.strip()
    if url == "embedded" or url.startswith("embedded:"):
        return _embedded(url)
    scheme, separator, rest = url.partition("://")
    kind_tls = _SCHEMES.get(scheme.lower())
    if not separator or kind_tls is None:
        known = ", ".join(["embedded:", *(f"{name}://" for name in _SCHEMES)])
        _refuse(url, "scheme", f"use one of {known}")
    kind, tls = kind_tls
    rest, _, query = rest.partition("?")
    if "#" in rest or "#" in query:
        _refuse(url, "character '#'", "write it as %23")
    authority, slash, path = rest.partition("/")
    if "@" in path:
        _refuse(url, "user name or password", "write '/' in it as %2F and '@' as %40")
    user, _, place = authority.rpartition("@")
    username, password = _credentials(url, user)
    options = _options(url, query, kind, tls)
    if kind == "unix":
        if place or not path:
            _refuse(url, "socket path", "write unix:///absolute/path.sock, with three slashes")
        return FrontierUrl(
            kind, path=unquote(slash + path), db=_db(url, options.get("db", "")), username=username, password=password
        )
    service = ""
    if kind == "sentinel":
        service, _, path = path.partition("/")
        service = unquote(service)
        if not service:
            _refuse(url, "service name", "name the service the sentinels watch: redis+sentinel://h1,h2/service")
    if "db" in options and path.strip("/"):
        _refuse(url, "database", "give it once, as /db or as ?db=")
    db = _db(url, options.get("db") or path.strip("/"))
    if kind == "cluster" and db:
        _refuse(url, "database", "leave it out: a cluster has only database 0")
    verify = options.get("verify", "required")
    if verify not in ("required", "ca", "none"):
        _refuse(url, "option verify", "use verify=required, verify=ca (any host name) or verify=none")
    if "key" in options and "cert" not in options:
        _refuse(url, "option key", "give the certificate too: cert=/path/client.crt")
    return FrontierUrl(
        kind,
        hosts=_hosts(url, place, kind),
        service=service,
        db=db,
        username=username,
        password=password,
        tls=tls,
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        verify=verify,  # type: ignore[arg-type]
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
    )


def _refuse(url: str, part: str, remedy: str) -> NoReturn:
    raise UrlError(f"GOSSAMER_URL {redact(url)!r}: the {part} cannot be used; {remedy}.")


def _embedded(url: str) -> FrontierUrl:
    path = url.partition(":")[2]
    if path.startswith("//"):
        path = path[2:]
        if path and not path.startswith("/"):
            _refuse(url, "directory", "write embedded:some/dir or embedded:/some/dir")
    if "?" in path or "#" in path:
        _refuse(url, "directory", "embedded: takes a directory and no options; write '?' as %3F and '#' as %23")
    return FrontierUrl("embedded", path=unquote(path))


def _credentials(url: str, user: str) -> tuple[str | None, str | None]:
    if re.search(r"%(?![0-9A-Fa-f]{2})", user):
        _refuse(url, "user name or password", "write '%' in it as %25")
    name, colon, password = user.partition(":")
    if name and not colon:
        _refuse(url, "password", "write user:password@host, or :password@host for the default user")
    return unquote(name) or None, unquote(password) if colon else None


def _options(url: str, query: str, kind: Kind, tls: bool) -> dict[str, str]:
    allowed = [] if kind == "cluster" else ["db"]
    allowed += _TLS_OPTIONS if tls else ()
    allowed += _SENTINEL_OPTIONS if kind == "sentinel" else ()
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in allowed:
            hint = " (TLS options need rediss://)" if name in _TLS_OPTIONS else ""
            _refuse(url, f"option {name}", f"known here: {', '.join(allowed) or 'none'}{hint}")
        if not value or name in options:
            _refuse(url, f"option {name}", "give it once, with a value")
        options[name] = unquote(value)
    return options


def _db(url: str, text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        _refuse(url, "database", "it is a number, 0 or more, after the host: /0")
    return int(text)


def _hosts(url: str, place: str, kind: Kind) -> tuple[tuple[str, int], ...]:
    default = SENTINEL_PORT if kind == "sentinel" else SERVER_PORT
    parts = place.split(",")
    if kind == "single" and len(parts) > 1:
        _refuse(url, "host", "one host only; for several use redis+sentinel:// or redis+cluster://")
    hosts = tuple(_host(url, part, default) for part in parts)
    if len(set(hosts)) != len(hosts):
        _refuse(url, "list of hosts", "name each host once")
    return hosts


def _host(url: str, part: str, default: int) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+(?:%[^\]\s]+)?)\]|([^\s:\[\]]+))(?::(.*))?", part)
    if not match:
        _refuse(url, "host", "write host or host:port; an IPv6 host in brackets: [::1]:6379")
    host, port = unquote(match[1] or match[2]), match[3]
    if port is None:
        return host, default
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        _refuse(url, "port", "it is a number from 1 to 65535")
    return host, int(port)
