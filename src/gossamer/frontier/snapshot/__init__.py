"""A crawl as a file of JSON lines, and back."""
