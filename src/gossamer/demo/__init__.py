"""A crawl of the bundled forum, start to end, on this machine."""
