"""Queues that are shared with workers of scrapy-redis."""
