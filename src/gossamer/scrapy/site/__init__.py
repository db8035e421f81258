"""`engine: scrapy`: pages of sites fetched by Scrapy."""
