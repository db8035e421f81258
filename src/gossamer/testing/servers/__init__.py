"""Real servers on loopback ports, in every topology that a frontier may live in."""

from gossamer.testing.servers.cluster import Cluster
from gossamer.testing.servers.sentinel import SentinelPair
from gossamer.testing.servers.single import Config, Server, binary

__all__ = ["Cluster", "Config", "SentinelPair", "Server", "binary"]
