"""The planner: decides what is crawled next and when again, for all sites of a crawl, from one place."""
