"""Projects of scrapy-redis on the frontier."""
