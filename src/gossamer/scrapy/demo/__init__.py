"""The Scrapy project of `gossamer demo`."""
