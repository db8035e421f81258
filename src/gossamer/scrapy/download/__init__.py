"""What touches Scrapy's downloads: cookies, robots.txt, private networks."""
