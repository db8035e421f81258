"""What requests carry in meta and cb_kwargs, as far as the text of a function tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gossamer.migrate.scrapy_redis.finding import Finding
from gossamer.migrate.scrapy_redis.names import Classes, Module, dotted

_CARRIERS = ("meta", "cb_kwargs")
_MAKING = frozenset({"follow", "follow_all", "from_response", "replace", "make_request", "from_curl"})
_SELECTING = frozenset({"css", "xpath", "jmespath"})
_TAKING_OUT = frozenset({"get", "getall", "extract", "extract_first", "re", "re_first", "attrib"})
_BUILTIN = {"open": "file", "iter": "generator", "map": "generator", "filter": "generator", "zip": "generator"}
_CODES = {"item": "item-in-meta", "plain": "item-in-meta", "object": "object-in-meta", "loader": "loader-in-meta"}


class MetaReader:
    """Reads one function with the classes of its project."""

    def __init__(self, module: Module, classes: Classes) -> None:
        self._module, self._classes = module, classes
        self._kinds: dict[str, str] = {}
        self._dicts: dict[str, ast.expr] = {}
        self._added: dict[str, list[tuple[ast.expr, ast.expr]]] = {}
        """What is put into these dicts later: keys and values."""

    def findings(self) -> Iterator[Finding]:
        for node in ast.walk(self._module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from self._function(node)

    def _function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Finding]:
        self._kinds, self._dicts, self._added = _arguments(function), {}, {}
        own = (node for node in _own(function) if isinstance(node, (ast.expr, ast.stmt)))
        nodes = sorted(own, key=lambda node: (node.lineno, node.col_offset))
        for node in nodes:
            self._learn(node)
        for node in nodes:
            yield from self._look(node)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._name(target.id, node.value)
                elif isinstance(target, ast.Subscript) and dotted(target.value) in self._dicts:
                    self._added.setdefault(dotted(target.value), []).append((target.slice, node.value))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and isinstance(node.target, ast.Name) and node.value:
            self._name(node.target.id, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)) and isinstance(node.target, ast.Name):
            if self._kind(node.iter) == "selector":
                self._kinds[node.target.id] = "selector"
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name):
                    self._name(item.optional_vars.id, item.context_expr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._kinds[node.name] = "function"

    def _name(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and dotted(value.func) == "dict"):
            self._dicts[name] = value
        self._kinds[name] = self._kind(value)

    def _look(self, node: ast.AST) -> Iterator[Finding]:
        if isinstance(node, ast.Call):
            name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
            if name.endswith("Request") or name in _MAKING:
                for keyword in node.keywords:
                    if keyword.arg in _CARRIERS:
                        yield from self._mapping(keyword.value, keyword.arg)
            elif name == "update" and isinstance(node.func, ast.Attribute) and _request_codec(node.func.value):
                for argument in node.args:
                    yield from self._mapping(argument, _request_codec(node.func.value))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and (request_codec := _request_codec(target.value)):
                    yield from self._value(node.value, f"{request_codec}[{_key(target.slice)}]")
                elif isinstance(target, ast.Attribute) and target.attr in _CARRIERS:
                    yield from self._mapping(node.value, target.attr)

    def _mapping(self, node: ast.expr, where: str) -> Iterator[Finding]:
        if isinstance(node, ast.Name) and node.id in self._dicts:
            if node.id not in _CARRIERS:  # these are found where they are put in
                for added, part in self._added.get(node.id, ()):
                    yield from self._value(part, f"{where}[{_key(added)}]")
            node = self._dicts[node.id]
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self._mapping(value, where)
                else:
                    yield from self._value(value, f"{where}[{_key(key)}]")
        elif isinstance(node, ast.Call) and dotted(node.func) == "dict":
            for argument in node.args:
                yield from self._mapping(argument, where)
            for keyword in node.keywords:
                name = f"{where}[{keyword.arg!r}]" if keyword.arg else where
                yield from self._value(keyword.value, name)

    def _value(self, node: ast.expr, where: str) -> Iterator[Finding]:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for each in node.elts:
                yield from self._value(each, where)
        elif isinstance(node, ast.Dict):
            yield from self._mapping(node, where)
        elif kind := self._kind(node):
            what = _said(kind)
            code = _CODES.get(kind.partition(" ")[0], "unstorable-in-meta")
            yield Finding(self._module.path, node.lineno, code, f"{where} is {what}")

    def _kind(self, node: ast.expr) -> str:
        """What a value is, if it is anything but plain data; "" where nothing is known."""
        if isinstance(node, ast.Name):
            if node.id in self._kinds:
                return self._kinds[node.id]
            return "function" if node.id in self._module.functions else ""
        if isinstance(node, ast.Lambda):
            return "lambda"
        if isinstance(node, ast.GeneratorExp):
            return "generator"
        if isinstance(node, ast.Await):
            return self._kind(node.value)
        if isinstance(node, ast.Subscript):
            return "selector" if self._kind(node.value) == "selector" else ""
        if not isinstance(node, ast.Call):
            return ""
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _SELECTING:
                return "selector" if self._kind(node.func.value) in ("response", "selector") else ""
            if node.func.attr == "load_item":
                return "item of a loader"
            if node.func.attr == "copy":
                return self._kind(node.func.value)
        path = self._module.resolve(node.func)
        if path in ("copy.copy", "copy.deepcopy") and node.args:
            return self._kind(node.args[0])
        if path == "functools.partial":
            # Of a method of the spider it is stored.
            return "" if node.args and dotted(node.args[0]).startswith("self.") else "partial"
        if path in _BUILTIN:
            return _BUILTIN[path]
        kind = self._classes.kind(path)
        if kind:
            return f"{kind} {path.rpartition('.')[2]}" if kind == "item" else kind
        name = path.rpartition(".")[2]
        if path not in self._classes or not name[:1].isupper():
            return ""
        return f"{'plain' if self._classes.is_plain(path) else 'object'} {name}"


def _said(kind: str) -> str:
    word, _, name = kind.partition(" ")
    said = {
        "item": f"an item ({name})",
        "plain": f"an object of class {name}",
        "object": f"an object of class {name}",
        "response": "a response",
        "spider": "the spider",
        "selector": "a selector",
        "loader": "an item loader",
        "file": "an open file",
        "self": "self, the object whose method this is",
    }
    return said.get(word, f"a {word}")


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    said = {"response": "response", "self": "self", "spider": "spider", "selector": "selector"}
    return {each.arg: said[each.arg] for each in every if each.arg in said}


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it, but with these themselves."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def _request_codec(node: ast.AST) -> str:
    name = node.attr if isinstance(node, ast.Attribute) else dotted(node)
    return name if name in _CARRIERS else ""


def _key(node: ast.AST) -> str:
    return ast.unparse(node)
