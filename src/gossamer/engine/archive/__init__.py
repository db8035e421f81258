"""Pages kept as they came, in WARC files."""
