"""A crawl as Prometheus metrics, read from the frontier when somebody scrapes."""

from gossamer.exporter.collector import Collector
from gossamer.exporter.server import serve

__all__ = ["Collector", "serve"]
