"""Seen memories of spiders in plain Scrapy."""
