from gossamer.cli.run.python_site import CrawlSummary as CrawlSummary
from gossamer.frontier.producer import Producer as Producer
from gossamer.python import LayerFunction as LayerFunction
from gossamer.python import Output as Output
from gossamer.python import Page as Page
from gossamer.python import PageRequest as PageRequest
from gossamer.python import Record as Record
from gossamer.python import Site as Site
from gossamer.scrapy.addon import Addon as Addon
from gossamer.scrapy.lanes import Lane as Lane
from gossamer.scrapy.lanes import lane as lane
from gossamer.scrapy.metric import metrics as metrics
from gossamer.scrapy.spiders import FleetCrawlSpider as FleetCrawlSpider
from gossamer.scrapy.spiders import FleetSitemapSpider as FleetSitemapSpider
from gossamer.scrapy.spiders import FleetSpider as FleetSpider

__version__: str
_PUBLIC: dict[str, str]
