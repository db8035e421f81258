"""From a URL to a connection: one server, sentinels, a cluster, or an embedded server."""

from gossamer.frontier.connection.connection import (
    AsyncConnection,
    Connection,
    EmbeddedSession,
    connect,
    connect_async,
    data_directory,
    reach,
)

__all__ = ["AsyncConnection", "Connection", "EmbeddedSession", "connect", "connect_async", "data_directory", "reach"]
