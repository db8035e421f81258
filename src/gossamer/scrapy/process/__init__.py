"""How a worker in Scrapy starts, takes part in a round, and ends."""
