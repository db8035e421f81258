"""The shared state of a crawl: what to fetch, what is being fetched, what was seen."""
