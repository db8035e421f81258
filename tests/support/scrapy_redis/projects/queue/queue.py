import json

from scrapy.utils.request import request_from_dict
from scrapy_redis.queue import Base


class DepthQueue(Base):
    """A list for every depth; the deepest one is served first."""

    def __len__(self):
        return sum(self.server.llen(key) for key in self.keys())

    def keys(self):
        return sorted(self.server.smembers(self.key), reverse=True)

    def push(self, request):
        fields = request.to_dict(spider=self.spider)
        for name in ("headers", "body"):
            fields.pop(name, None)
        key = f"{self.key}:{request.meta.get('depth', 0):03d}"
        self.server.sadd(self.key, key)
        self.server.rpush(key, json.dumps(fields))

    def pop(self, timeout=0):
        for key in self.keys():
            if data := self.server.lpop(key):
                return request_from_dict(json.loads(data), spider=self.spider)
        return None

    def clear(self):
        for key in self.keys():
            self.server.delete(key)
        super().clear()
