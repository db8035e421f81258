"""The live keys of a scrapy-redis project, into the frontier."""
