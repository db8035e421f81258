"""Scrapy's requests, and objects in them, as values that the frontier stores."""
