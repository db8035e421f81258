from scrapy import Field, Item


class Page(Item):
    kind = Field()
    url = Field()
    title = Field()
    job = Field()
    worker = Field()
