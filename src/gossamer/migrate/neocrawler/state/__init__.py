"""The state of a NEOCrawler instance: what its servers hold of every URL, moved into a crawl."""
