"""Commands that list and change what a crawl holds: groups, lanes, hosts, tasks, items, dead letters."""
