"""Which addresses a page may lead to. Pages are not trusted: a link or redirect of a public page to an address of the network that
the worker stands in would let its author look into that network. Pure.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

PRIVATE_ADDRESS = "private_address"
"""The reason of a request that was refused because of where it leads."""
SETTING = "GOSSAMER_PRIVATE_ADDRESSES"
AUTO, ALWAYS, NEVER = "auto", "always", "never"

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google, Azure, DigitalOcean, Oracle, OpenStack
        "169.254.169.253",  # the name server beside it
        "169.254.170.2",  # AWS: containers
        "169.254.170.23",  # AWS: pods
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
    )
)
"""Where clouds tell whoever asks from inside who he is, with keys: nothing to crawl."""
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata", "instance-data", "instance-data.ec2.internal"})
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")
_TRANSLATED = ip_network("::ffff:0:0:0/96")
_LOCAL = (ip_network("64:ff9b:1::/48"), ip_network("fec0::/10"), ip_network("5f00::/16"), _TRANSLATED)
"""Networks of IPv6 that lead to no public place, whatever the standard library thinks of them."""
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}\.?", re.IGNORECASE)
_PRIVATE_NAMES = re.compile(
    r"(.*\.)?(localhost|local|localdomain|internal|intranet|private|corp|home|lan|home\.arpa)\.?|[^.:]+", re.IGNORECASE
)
"""Names that no public name server has; one without a dot is a name of the local network, too."""


class AddressRefused(Exception):
    """A request leads to an address that it must not lead to; the message says where and what allows it."""


OF_SITE_FILE = f"`private_addresses: true` in the site file, or with {SETTING}"
OF_SPIDER = f'meta={{"private_addresses": True}} in the spider\'s request, or for all with {SETTING}=always'


class NetworkGuard(NamedTuple):
    """What one request may connect to. `private`: also addresses that are not public. `networks` are allowed in any case.
    `remedy` is what would allow the others."""

    private: bool = True
    networks: tuple[Network, ...] = ()
    remedy: str = OF_SITE_FILE

    def refusal(self, host: str, address: str) -> str:
        """Why an address that a host has may not be connected to; "" if it may."""
        kind = _kind(address)
        if not kind:
            return ""
        if kind == _NEVER:
            return f"{_both(host, address)} is where a cloud's metadata service is, which is never asked"
        if self.private or (self.networks and any(one in net for one in _inside(address) for net in self.networks)):
            return ""
        return f"{_both(host, address)} is not a public address, {self._why()}"

    def _why(self) -> str:
        return f"and public pages do not lead there; allow it with {self.remedy}"

    def refusal_by_name(self, host: str) -> str:
        """The same, as far as it is known without looking up a name: for proxies, which look it up themselves."""
        return _refusal_by_name(self, host)


ANYWHERE = NetworkGuard()
_NEVER, _PRIVATE = "never", "private"


# Asked for every page, of few hosts.
@lru_cache(4096)
def _refusal_by_name(guard: NetworkGuard, host: str) -> str:
    address = literal(host)
    if address is not None:
        return guard.refusal(host, str(address))
    if host.rstrip(".").lower() in _METADATA_NAMES:
        return guard.refusal(host, "169.254.169.254")
    return "" if guard.private or not looks_private(host) else f"{host} is not a public name, {guard._why()}"


@lru_cache(4096)
def literal(host: str) -> Address | None:
    """The address that a host is written as, in any of the ways that a system's resolver understands; None for a name."""
    host = host.strip("[]").partition("%")[0]
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return None


@lru_cache(4096)
def looks_private(host: str) -> bool:
    """Whether a host is private by its name alone: an address that is not public, or a name that only a local network can
    have. What a name server answers is not asked: it may belong to somebody else."""
    address = literal(host)
    if address is not None:
        return bool(_kind(str(address)))
    return _PRIVATE_NAMES.fullmatch(host) is not None


def leads_inside(url: str) -> bool:
    """Whether the host of a URL looks private."""
    try:
        return looks_private(urlsplit(url).hostname or "")
    except ValueError:
        return False


def guard_of(setting: str, key: bool | None, hosts: Iterable[str]) -> NetworkGuard:
    """`setting` is the worker's, `key` the site file's own, `hosts` those that its seeds name, with or without ports."""
    if setting == NEVER:
        return NetworkGuard(False)
    if setting == ALWAYS or key:
        return NetworkGuard(True)
    networks = () if setting == AUTO else networks_of(setting)
    names = [name for host in hosts if (name := _without_port(host))]
    return NetworkGuard(key is None and bool(names) and all(map(looks_private, names)), networks)


@lru_cache(64)
def networks_of(text: str) -> tuple[Network, ...]:
    """The networks of a list with commas; ValueError for what is none."""
    return tuple(ip_network(word.strip(), strict=False) for word in text.split(",") if word.strip())


@lru_cache(8192)
def _kind(address: str) -> str:
    found = list(_inside(address))
    if any(one in METADATA for one in found):
        return _NEVER
    return "" if all(map(_public, found)) else _PRIVATE


def _public(one: Address) -> bool:
    if isinstance(one, IPv6Address) and (any(one in net for net in _LOCAL) or _is_isatap(one)):
        return False
    return one.is_global and not one.is_multicast


def _is_isatap(one: IPv6Address) -> bool:
    """An address of IPv4 in the lower half, behind a mark: its tunnel ends inside a network."""
    return int(one) >> 32 & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE)


def _inside(address: str) -> Iterator[Address]:
    """An address, and those that lie in it: what a connection to it may end at."""
    one = ip_address(address.partition("%")[0])
    if isinstance(one, IPv4Address):
        yield one
        return
    if one.ipv4_mapped is not None:
        yield one.ipv4_mapped
        return
    if any(one in net for net in _NAT64):
        yield IPv4Address(int(one) & 0xFFFFFFFF)
        if one not in _LOCAL[0]:
            return
    yield one
    if one in _TRANSLATED or _is_isatap(one):
        yield IPv4Address(int(one) & 0xFFFFFFFF)
    if one.sixtofour is not None:
        yield one.sixtofour
    if one.teredo is not None:
        yield from one.teredo
    if one in _COMPATIBLE and int(one) > 1:
        yield IPv4Address(int(one) & 0xFFFFFFFF)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _both(host: str, address: str) -> str:
    return address if host.strip("[]") == address else f"{host} leads to {address}, which"
