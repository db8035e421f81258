"""The Scrapy project of `gossamer demo`: a settings module like any other."""

BOT_NAME = "forum"
SPIDER_MODULES = ["gossamer.scrapy.demo.spider"]
ADDONS = {"gossamer.Addon": 100}
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
