"""Gossamer inside Scrapy: the add-on, the scheduler, spiders fed by tasks, lanes, stats."""
