from urllib.parse import urlsplit

from scrapy_redis.dupefilter import RFPDupeFilter


class PathFilter(RFPDupeFilter):
    """What a page is, is its path; lists are always new, up to three times."""

    def request_seen(self, request):
        path = urlsplit(request.url).path
        if path.startswith("/list/"):
            return self.server.hincrby(self.key + ":lists", path, 1) > 3
        return not self.server.sadd(self.key, path)
