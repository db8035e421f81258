import scrapy


class Product(scrapy.Item):
    url = scrapy.Field()
    shelf = scrapy.Field()
    parts = scrapy.Field()
