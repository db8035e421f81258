"""The well-known keys of scrapy-redis, read or written by something else than scrapy-redis: in code and in scripts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from gossamer.migrate.scrapy_redis.finding import Finding
from gossamer.migrate.scrapy_redis.names import Module, dotted, text_of, texts

_KEY = re.compile(r"(?:^|.*[\w*.)}>%-]):(requests|dupefilter|start_urls|items|stats)$")
_CLEARING = frozenset({"delete", "del", "unlink", "ltrim", "expire", "rename", "zremrangebyrank", "zremrangebyscore"})
_WRITING = frozenset(
    {
        "lpush", "rpush", "sadd", "zadd", "srem", "zrem", "lpop", "rpop", "blpop", "brpop", "spop", "zpopmin", "zpopmax", "lrem",
    }
)  # fmt: skip
_READING = frozenset(
    {
        "zcard", "llen", "scard", "exists", "lrange", "zrange", "zrevrange", "smembers", "sismember", "sscan", "sscan_iter",
        "zscan", "zscan_iter", "zcount", "zscore", "keys", "scan_iter", "type", "lindex", "srandmember", "hgetall", "hget", "ttl",
        "dump", "memory_usage", "watch", "hset", "hincrby",
    }
)  # fmt: skip
_COMMANDS = _CLEARING | _WRITING | _READING
_FLUSHING = frozenset({"flushdb", "flushall"})
_TEXT_KEY = r"[^\s\"'|;&)]+:(?:requests|dupefilter|start_urls|items|stats)\b"
_TEXT_COMMAND = re.compile(rf"(?i)(?<![\w-])({'|'.join(sorted(_COMMANDS))})((?:\s+[\"']?{_TEXT_KEY}[\"']?)+)")
_TEXT_FLUSH = re.compile(r"(?i)redis-cli\b.*\b(flushdb|flushall)\b")


def in_code(module: Module) -> Iterator[Finding]:
    """What a module does to these keys by itself."""
    known = texts(module.tree)
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        command, arguments = node.func.attr.lower(), list(node.args)
        if command == "execute_command" and arguments:
            command = (text_of(arguments.pop(0)) or "").lower()
        if command in _FLUSHING:
            yield Finding(module.path, node.lineno, "flush-server", f"{command}()")
        elif command in _COMMANDS:
            for key in _keys(arguments, known):
                if code := _code(key, command):
                    yield Finding(module.path, node.lineno, code, f"{command} {key}")


def in_text(path: str, line: int, text: str) -> Iterator[Finding]:
    """What a line of a script does to these keys."""
    for found in _TEXT_COMMAND.finditer(text):
        for key in re.findall(_TEXT_KEY, found[2]):
            if code := _code(key, found[1].lower()):
                yield Finding(path, line, code, f"{found[1].lower()} {key}")
    if found_flush := _TEXT_FLUSH.search(text):
        yield Finding(path, line, "flush-server", f"redis-cli {found_flush[1].lower()}")


def _keys(arguments: list[ast.expr], known: Mapping[str, str]) -> Iterator[str]:
    for argument in arguments:
        if isinstance(argument, (ast.List, ast.Tuple)):
            yield from _keys(list(argument.elts), known)
        elif dotted(argument).rpartition(".")[2] == "redis_key":
            yield "<redis_key>:start_urls"
        elif text := text_of(argument, known):
            yield text


def _code(key: str, command: str) -> str:
    found = _KEY.fullmatch(key)
    if found is None:
        return ""
    doing = "clear" if command in _CLEARING else "write" if command in _WRITING else "read"
    if found[1] in ("items", "stats"):
        return f"key-{found[1]}"
    if found[1] == "start_urls":
        return "key-seeds-read" if doing == "read" else "key-seeds"
    name = "queue" if found[1] == "requests" else "seen"
    return f"key-{name}-{doing}"
