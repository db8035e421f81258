"""The sites that a worker serves: read from the crawl's files, prepared, defined in the frontier."""

from gossamer.engine.sites.sites import GONE, ServedLayer, ServedSite, SiteSet

__all__ = ["GONE", "ServedLayer", "ServedSite", "SiteSet"]
