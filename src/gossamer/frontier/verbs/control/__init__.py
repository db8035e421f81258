"""What steers a crawl: policies, pauses, blocks, starts, drops, dead letters, tasks."""
