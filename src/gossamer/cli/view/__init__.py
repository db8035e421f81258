"""`gossamer status` and `top`: a crawl at a glance."""
