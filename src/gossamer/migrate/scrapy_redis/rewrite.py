"""Where a module names scrapy_redis, and the edits that make it name gossamer.scrapy_redis instead.

By position: nothing but the name itself is changed, so comments, quotes, layout and everything else stay as they are.
Comments and docstrings that mention the package are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gossamer.migrate.scrapy_redis.finding import Edit, Finding
from gossamer.migrate.scrapy_redis.names import MODULES, OURS, PACKAGE, Module, dotted
from gossamer.migrate.scrapy_redis.source_text import SourceText

_FROM = re.compile(rf"from(?:[ \t\f]|\\(?:\r\n|\r|\n))+(?={PACKAGE}\b)")
# A path of the package in a text: not the end of a longer path, of a folder or of another package's name.
PATH = re.compile(rf"(?<![\w./\\-]){PACKAGE}(?=\.(?:{'|'.join(MODULES)})\b)")
_WHOLE = re.compile(rf"(?<![\w./\\-]){PACKAGE}(?![\w/\\-])")
_BARE_CALLS = frozenset({"getLogger", "import_module", "find_spec"})


class Rewriter:
    """The edits of one module, and what they could not do."""

    def __init__(self, module: Module, source: SourceText) -> None:
        self._module, self._source = module, source
        self.edits: set[Edit] = set()
        self.findings: set[Finding] = set()
        self._bare: dict[int, str] = {}

    def run(self) -> None:
        tree = self._module.tree
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inside = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in ast.walk(node)
            if part is not node
        }
        plain, rebound = _bindings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._note_call(node)
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
            elif isinstance(node, ast.JoinedStr):
                if id(node) not in docstrings:
                    self._string(node, PATH)
            elif id(node) in inside or id(node) in docstrings:
                continue
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._constant(node, node.value)
            elif isinstance(node, ast.Name) and node.id == PACKAGE and plain:
                if rebound:
                    self._find(node.lineno, "rebound", f"{PACKAGE} is an import and another value in this file")
                else:
                    self._edit(*self._source.span(node))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name == PACKAGE or alias.name.startswith(PACKAGE + "."):
                start, _ = self._source.span(alias)
                self._edit(start, start + len(PACKAGE))
                self._find(node.lineno, "import", f"import {alias.name}")

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level == 0 and (module == PACKAGE or module.startswith(PACKAGE + ".")):
            start, _ = self._source.span(node)
            found = _FROM.match(self._source.text, start)
            names = ", ".join(alias.name for alias in node.names)
            if found is None:
                self._find(node.lineno, "hidden-path", f"from {module} import {names}")
                return
            self._edit(found.end(), found.end() + len(PACKAGE))
            self._find(node.lineno, "import", f"from {module} import {names}")
        elif PACKAGE in module.split(".") and not module.startswith(OURS):
            self._find(node.lineno, "copied-package", f"from {'.' * node.level}{module} import …")

    def _note_call(self, node: ast.Call) -> None:
        name = dotted(node.func).rpartition(".")[2]
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            self._bare[id(first)] = name

    def _constant(self, node: ast.Constant, value: str) -> None:
        if PACKAGE not in value:
            return
        call = self._bare.get(id(node), "")
        if call == "__import__" and _WHOLE.match(value):
            self._find(node.lineno, "hidden-path", f"__import__({value!r})")
        elif value == PACKAGE and call in _BARE_CALLS:
            self._string(node, _WHOLE)
        elif value == PACKAGE:
            self._find(node.lineno, "bare-name", f"the text {PACKAGE!r}")
        else:
            self._string(node, PATH)

    def _string(self, node: ast.Constant | ast.JoinedStr, pattern: re.Pattern[str]) -> None:
        start, end = self._source.span(node)
        places = [found.start() for found in pattern.finditer(self._source.text, start, end)]
        for place in places:
            self._edit(place, place + len(PACKAGE))
            self._find(self._source.line_of(place), "path", _path_at(self._source.text, place))
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and len(pattern.findall(value)) != len(places):
            # Written in pieces or with escapes: what is changed must be seen.
            self._find(node.lineno, "hidden-path", f"{value!r:.80} is put together of pieces")

    def _edit(self, start: int, end: int) -> None:
        text = self._source
        if not text.text.startswith(PACKAGE, start):
            self._find(text.line_of(start), "hidden-path", text.text[start:end])
            return
        self.edits.add(Edit(start, text.line_of(start), PACKAGE, OURS))

    def _find(self, line: int, code: str, what: str) -> None:
        self.findings.add(Finding(self._module.path, line, code, what))


def _path_at(text: str, place: int) -> str:
    found = re.compile(r"[\w.]+").match(text, place)
    return found[0].rstrip(".") if found else PACKAGE


def _bindings(tree: ast.Module) -> tuple[bool, bool]:
    """Whether the package's own name is bound by a plain import, and whether by anything else."""
    plain, other = False, False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            plain |= any(each.asname is None and each.name.split(".")[0] == PACKAGE for each in node.names)
            other |= any(each.asname == PACKAGE for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            other |= any((each.asname or each.name) == PACKAGE for each in node.names)
        else:
            other |= PACKAGE in _bound(node)
    return plain, other


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ExceptHandler):
        yield node.name or ""
