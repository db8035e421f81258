"""What the names of a project's modules mean: what they import, and which classes derive from what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PACKAGE = "scrapy_redis"
SPECIAL = frozenset(
    {
        "__copy__", "__deepcopy__", "__del__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__new__", "__reduce__",
        "__reduce_ex__", "__setstate__",
    }
)  # fmt: skip
"""Methods by which a class says itself how its objects are made, copied or ended: they are not stored then."""
OURS = f"gossamer.{PACKAGE}"
MODULES = (
    "connection", "defaults", "dupefilter", "picklecompat", "pipelines", "queue", "scheduler", "spiders", "stats", "utils",
)  # fmt: skip

_KINDS: Mapping[str, str] = {
    "Scheduler": "scheduler",
    "RFPDupeFilter": "dupefilter",
    **dict.fromkeys(("Base", "PriorityQueue", "FifoQueue", "LifoQueue"), "queue"),
    **dict.fromkeys(("SpiderQueue", "SpiderPriorityQueue", "SpiderStack"), "queue"),
    **dict.fromkeys(("RedisSpider", "RedisCrawlSpider", "RedisMixin"), "spider"),
    "RedisPipeline": "pipeline",
    "RedisStatsCollector": "stats",
}
_EXPORTED: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("Scheduler",),
    "dupefilter": ("RFPDupeFilter",),
    "queue": ("Base", "PriorityQueue", "FifoQueue", "LifoQueue", "SpiderQueue", "SpiderPriorityQueue", "SpiderStack"),
    "spiders": ("RedisSpider", "RedisCrawlSpider", "RedisMixin"),
    "pipelines": ("RedisPipeline",),
    "stats": ("RedisStatsCollector",),
}
"""What `from scrapy_redis.MODULE import *` brings of these."""
_FOREIGN: Mapping[str, str] = {
    "scrapy.Item": "item",
    "scrapy.item.Item": "item",
    "pydantic.BaseModel": "item",
    "typing.NamedTuple": "item",
    **dict.fromkeys(("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"), "item"),
    "scrapy.dupefilters.BaseDupeFilter": "dupefilter",
    "scrapy.dupefilters.RFPDupeFilter": "dupefilter",
    "scrapy.loader.ItemLoader": "loader",
    "scrapy.loader.XPathItemLoader": "loader",
    "itemloaders.ItemLoader": "loader",
    "itemloaders.loaders.ItemLoader": "loader",
    "scrapy.Selector": "selector",
    "scrapy.selector.Selector": "selector",
    "parsel.Selector": "selector",
}
_FIELD = re.compile(r"%(\(\w+\))?[sdr]|\{\w*\}")
_ITEM_DECORATORS = frozenset(
    {
        "dataclasses.dataclass",
        "pydantic.dataclasses.dataclass",
        "attr.s",
        "attr.attrs",
        "attr.dataclass",
        *(f"{module}.{name}" for module in ("attr", "attrs") for name in ("define", "frozen", "mutable")),
    }
)
_NEUTRAL_BASES = frozenset(
    {"object", "abc.ABC", "typing.Generic", "typing.Protocol", "str", "bytes", "int", "float", "list", "dict"}
)


def dotted(node: ast.AST) -> str:
    """`a.b.c` of names and attributes; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def original(path: str) -> str:
    """The path as it was before a project was rewritten."""
    return path.removeprefix("gossamer.") if path == OURS or path.startswith(OURS + ".") else path


@dataclass
class Module:
    """One parsed file and what its names stand for."""

    path: str
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict)
    classes: list[ast.ClassDef] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: str, tree: ast.Module) -> Module:
        made = cls(path, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    # `import a.b` binds a, and `original` has no say in what that is.
                    made.names[alias.asname or alias.name.split(".")[0]] = (
                        original(alias.name) if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                starred = _EXPORTED.get(original(source).removeprefix(PACKAGE + "."), ()) if PACKAGE in source else ()
                made.names.update({name: f"{original(source)}.{name}" for name in starred if node.names[0].name == "*"})
                for alias in node.names:
                    joined = source + alias.name if source.endswith(".") else f"{source}.{alias.name}"
                    name = alias.asname or alias.name
                    # One that has a stand-in, should the import fail, is what it is where it does not.
                    if not made.names.get(name, "").startswith(PACKAGE + "."):
                        made.names[name] = original(joined)
            elif isinstance(node, ast.ClassDef):
                made.classes.append(node)
        made.functions = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        return made

    def resolve(self, node: ast.AST) -> str:
        """The full path of a name or attribute, as far as imports tell; "" for anything else."""
        head, dot, rest = dotted(node).partition(".")
        return original(self.names.get(head, head) + dot + rest)


class Classes:
    """The classes of a project by their own names."""

    def __init__(self, modules: list[Module]) -> None:
        self._found: dict[str, list[tuple[Module, ast.ClassDef]]] = {}
        for module in modules:
            for node in module.classes:
                self._found.setdefault(node.name, []).append((module, node))

    def __contains__(self, path: str) -> bool:
        return path.rpartition(".")[2] in self._found

    def kind(self, path: str, seen: frozenset[str] = frozenset()) -> str:
        """What a class is in the end, `scheduler` or `item` for example; "" if nothing that matters here."""
        if path.startswith(PACKAGE + "."):
            return _KINDS.get(path.rpartition(".")[2], "")
        if path in _FOREIGN:
            return _FOREIGN[path]
        name = path.rpartition(".")[2]
        if not path or name in seen:
            return ""
        for module, node in self._found.get(name, ()):
            if kind := self.kind_of(module, node, seen | {name}):
                return kind
        return ""

    def is_plain(self, path: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a class of the project is made of its own classes alone, and does not say itself how its objects are copied."""
        name = path.rpartition(".")[2]
        found = self._found.get(name, ())
        return bool(found) and name not in seen and all(self._plain(*each, seen | {name}) for each in found)

    def _plain(self, module: Module, node: ast.ClassDef, seen: frozenset[str]) -> bool:
        bases = [module.resolve(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
        return SPECIAL.isdisjoint(members(node)) and all(
            base in _NEUTRAL_BASES or self.is_plain(base, seen) for base in bases
        )

    def kind_of(self, module: Module, node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> str:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if module.resolve(called) in _ITEM_DECORATORS:
                return "item"
        kinds = (self.kind(module.resolve(base), seen) for base in node.bases)
        return next((kind for kind in kinds if kind), "")

    def of_kind(self, module: Module) -> Iterator[tuple[ast.ClassDef, str]]:
        for node in module.classes:
            if kind := self.kind_of(module, node):
                yield node, kind


def members(node: ast.ClassDef) -> dict[str, int]:
    """What a class defines itself, with the line of each."""
    found: dict[str, int] = {}
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(part.name, part.lineno)
        elif isinstance(part, ast.Assign):
            found.update({target.id: part.lineno for target in part.targets if isinstance(target, ast.Name)})
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.value is not None:
            found[part.target.id] = part.lineno
    return found


def text_of(node: ast.AST | None, known: Mapping[str, str] | None = None) -> str | None:
    """The text that an expression makes, `*` in place of what only the run knows; None if it makes no text."""
    if isinstance(node, ast.Constant):
        value = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
        return value if isinstance(value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, known) or "*" for part in node.values)
    if isinstance(node, ast.Name) and known and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _formatted(text_of(node.left, known))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left, known), text_of(node.right, known)
        return None if left is None and right is None else (left or "*") + (right or "*")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "format":
            return _formatted(text_of(node.func.value, known))
        if node.func.attr in ("encode", "decode", "strip"):
            return text_of(node.func.value, known)
    return None


def _formatted(text: str | None) -> str | None:
    return None if text is None else _FIELD.sub("*", text)


def texts(tree: ast.AST) -> dict[str, str]:
    """Names that are given a text, wherever in the tree; the last one counts."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            text = text_of(node.value, found)
            if text is not None:
                found.update({target.id: text for target in node.targets if isinstance(target, ast.Name)})
    return found
