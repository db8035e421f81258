"""The site files of a crawl: kept in the frontier under a name, with their versions, and what follows from a change for their groups."""

from gossamer.registry.registry import KIND, REMOVED, Filed, Pushed, Registry
from gossamer.registry.site_text import SiteText

__all__ = ["KIND", "REMOVED", "Filed", "Pushed", "Registry", "SiteText"]
