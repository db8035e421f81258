"""The site files of a crawl: kept in the frontier under a name, with their versions, and what follows from a change for their groups."""

from gossamer.registry.registry import KIND, PushResult, Registry, StoredSiteFile
from gossamer.registry.site_text import SiteText

__all__ = ["KIND", "PushResult", "Registry", "SiteText", "StoredSiteFile"]
