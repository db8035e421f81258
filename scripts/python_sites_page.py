"""The reference of sites in Python, made from the classes themselves: every public member with its signature and its docstring."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from gossamer.cli.run.python_site import CrawlSummary
from gossamer.python import Page, Site
from gossamer.sites.python.site import SiteDefinition

INTRO = """\
`from gossamer import Site, Page, Record, Output`: sites whose pages Python functions read, crawled by the native engine; Scrapy is
not needed. The [tutorial](../tutorial/first-site-in-python.md) builds one. What a site's keys mean is in [site files](site-files.md): the
arguments of `Site` and `layer` have the same names and values. A `timedelta` may stand for a duration, a compiled regular expression
for a pattern, a function for a hook."""
FUNCTIONS = """\
A layer's function takes a `Page`. It may be an async generator, a generator, a coroutine or a plain function, and yields, or returns
one or a list of:

- a record: a mapping, an instance of a dataclass or of a pydantic model;
- `Record(layer, fields)`: a record for the table of another layer ([how](#threads-and-other-rows-of-many-parts));
- a link: what `page.follow()` returned;
- None, which is left out.

`gossamer.Output` is the type of these, `gossamer.LayerFunction` that of the functions, `gossamer.PageRequest` that of links. The
function runs on the event loop of its worker, as all pages do: it should compute for milliseconds and wait only with `await`. What it
raises makes the page a dead letter (`engine`) with the traceback, and nothing of the page counts."""
COLUMNS = """\
`record` says which fields the records of a layer have: a dataclass, a TypedDict, a pydantic model, a named tuple, or a mapping of names to
types. `str`, `int`, `float`, `Decimal`, `bool`, `date`, `datetime` and `bytes` are columns of these types; lists, mappings and nested
classes are JSON. A type with `| None`, or a key that is `NotRequired`, may be missing. A record with another field, without one that it must
have, or with a value of another type makes the page a dead letter (`store_refused`): nothing is converted, nothing becomes null.

Without `record`, the table grows: a column is made when a record first has a value for it, of that value's type, and keeps its type.

Without `key`, the key is the page's URL. A page with several records of such a layer is a dead letter (`store_refused`), since only one of
them would stay: name fields that tell them apart."""
PARTS = """\
A record replaces the row with the same key as a whole; a list in it is one value. So where a row has many of something, or comes from
several pages, make records of their own for a table of their own, and yield the row once, on the first page:

```python
from gossamer import Record, Site

board = Site("board", seeds=["https://forum.example/list"], seen="round")
board.rules("list", match="^/list", follow=["a.thread"])


@board.layer("comment", table="comments", key=["id"], record={"id": int, "thread": int, "text": str | None})
def comment(page):
    \"\"\"Only for its table: no link leads here.\"\"\"


@board.layer("thread", match=r"^/t/(?P<id>\\d+)", table="threads", key=["id"], record={"id": int, "title": str | None})
def thread(page):
    number = int(page.groups["id"])
    if not page.turn:
        yield {"id": number, "title": page.css("h1::text").get()}
    for one in page.css(".comment"):
        yield Record("comment", {"id": int(one.attrib["id"]), "thread": number, "text": one.css("p::text").get()})
    for link in page.css("a.next"):
        yield page.follow(link)
```

A further page whose record has the same key as that of the page before and other lists is a dead letter (`store_refused`), since one
would replace the other.

Comments that are gone from the thread stay in their table. Where rules can read the pages, they do this and remove those
([threads over several pages](../how-to/threads-over-several-pages.md))."""
WORKERS = """\
A site in Python is pushed as a site file that names its functions (`handler: "shop:lamp"`); `gossamer site show` shows it. Code is never
pushed. Workers import the module:

- `gossamer crawl FILE.py` and `site.run()` start workers that import it from where the file lies.
- `gossamer work` imports it as `shop` from the folder it runs in, or from anywhere on Python's path, if
  `GOSSAMER_ALLOWED_MODULES=shop` [allows it](../explanation/trust.md).

A file in a folder without `__init__.py` is a module of its own; a file of a package is imported by its full name (`sources.shop`). A function
must be defined at the top of its module. A worker loads code once: when the file has changed, or the site is pushed with other code than the
worker has (the file's `code` has a digest of each module), it logs a warning and goes on with what it has loaded; restart it.

The sites of a file are those that its own code makes when it is imported. `gossamer crawl FOLDER` and other commands that take folders look
for YAML files only: a Python file is run, so it is named itself."""


def paragraphs() -> list[str]:
    """The page without its title. ValueError for a public member that says nothing about itself."""
    return [
        INTRO, "## Site", *members(Site, SiteDefinition), "### CrawlSummary", doc(CrawlSummary),
        f"`{', '.join(CrawlSummary._fields)}`", "## Functions", FUNCTIONS, "## Page", *members(Page), "## Columns", COLUMNS,
        "## Threads, and other rows of many parts", PARTS,
        "## Workers", WORKERS,
    ]  # fmt: skip


def members(*classes: type) -> Iterator[str]:
    """The class itself, then every public member of it and of those that it is made of."""
    yield doc(classes[0])
    first = inspect.getattr_static(classes[-1], "__init__")
    if classes[0] is Site:
        yield f"`Site{signature(first)}`: {doc(classes[-1])}"
    yield from (f"- `{name}`: {text}" for name, text in attributes(classes[-1]).items())
    for kind in reversed(classes):
        for name, member in vars(kind).items():
            if name.startswith("_"):
                continue
            if isinstance(member, property) or hasattr(member, "attrname"):
                yield f"- `{name}`: {doc(getattr(member, 'fget', None) or member.func)}"
            elif isinstance(member, classmethod) or inspect.isfunction(member):
                plain = member.__func__ if isinstance(member, classmethod) else member
                called = f"{kind.__name__.replace('SiteDefinition', 'Site')}.{name}" if plain is not member else name
                if not is_internal(plain):
                    yield f"- `{called}{signature(plain)}`: {doc(plain)}"


def is_internal(function: Any) -> bool:
    """Methods that other rooms call and users need not."""
    return function.__qualname__ in ("SiteDefinition.document",)


def attributes(kind: type) -> dict[str, str]:
    """The attributes that `__init__` sets, with the texts below them."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))  # type: ignore[misc]
    body = tree.body[0].body  # type: ignore[attr-defined]
    found = {}
    for here, after in zip(body, [*body[1:], None], strict=True):
        target = here.target if isinstance(here, ast.AnnAssign) else None
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            if not isinstance(said, str) or not said:
                raise ValueError(f"{kind.__name__}.{target.attr} has no text below it")
            found[target.attr] = flat(said)
    return found


def doc(thing: Any) -> str:
    said = inspect.getdoc(thing)
    if not said:
        raise ValueError(f"{thing} has no docstring")
    return flat(said)


def flat(text: str) -> str:
    return " ".join(text.split())


def signature(function: Any) -> str:
    """Without `self`, and with the names of types alone."""
    said = str(inspect.signature(function))
    said = re.sub(r"\((self|cls)(, )?", "(", said, count=1).partition(" -> ")[0]
    said = re.sub(r": '[^']*(?:'[^']*'[^']*)*?'(?= = |, |\)$)", "", said)
    return re.sub(r" = <object object at \w+>", "=…", said).replace(" = ", "=").replace("=mappingproxy({})", "={}")
