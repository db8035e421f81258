"""Pages over HTTP: requests, responses, redirects, cookies, robots.txt."""
