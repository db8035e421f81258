import pickle

import redis

server = redis.Redis(port=6379)
server.lpush("shop:start_urls", pickle.dumps({"url": "http://site/", "shelf": ("top", 3)}))
server.lpush("shop:start_urls", pickle.dumps({"url": "http://site/list/1", "shelf": ("low", 1)}))
