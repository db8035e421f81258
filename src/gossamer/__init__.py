"""Gossamer: a crawl fleet for Scrapy on one shared frontier."""

__version__ = "0.1.0"
