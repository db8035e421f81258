"""Memories of fingerprints on their own, without the queues of a crawl."""
