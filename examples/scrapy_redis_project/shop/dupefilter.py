from scrapy_redis.dupefilter import RFPDupeFilter
from w3lib.url import url_query_cleaner


class SessionlessDupeFilter(RFPDupeFilter):
    """Takes URLs that differ only in their session for the same."""

    def request_fingerprint(self, request):
        url = url_query_cleaner(request.url, ["session"], remove=True)
        return super().request_fingerprint(request.replace(url=url))
