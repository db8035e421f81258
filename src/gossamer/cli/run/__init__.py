"""`gossamer crawl`, `work` and `demo`: commands that start workers."""
