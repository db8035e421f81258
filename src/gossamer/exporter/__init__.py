"""A crawl as Prometheus metrics, read from the frontier at each scrape."""

from gossamer.exporter.collector import Collector
from gossamer.exporter.server import serve

__all__ = ["Collector", "serve"]
