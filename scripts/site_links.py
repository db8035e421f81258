"""A hook of MkDocs: links from a page to a file outside `docs` lead, on the website, to a copy of that file.

The pages link to sources, examples and the changelog by relative paths, as they are read in the repository. The website has
only `docs`, so each file that a page links to is copied beside it, as text.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COPIES = "repository"

_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_MARKED = re.compile(rf'href="{COPIES}:([^"#]+)(?:#[^"]*)?"')

linked: set[str] = set()
"""Files that some page links to, by their path in the repository."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mark the links that lead out of `docs`, so that MkDocs does not look for them."""
    folder = Path("docs", page.file.src_uri).parent

    def mark(link: re.Match[str]) -> str:
        path = os.path.normpath(folder / link[2])
        if re.match(r"[a-z]+:", link[2]) or path.startswith("docs/"):
            return link[0]
        linked.add(path)
        return f"{link[1]}{COPIES}:{path}{link[3] or ''}{link[4]}"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(mark, part) for part in parts)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Lead the marked links to the copies."""
    up = "../" * page.url.count("/")
    return _MARKED.sub(lambda link: f'href="{up}{COPIES}/{link[1]}.txt"', html)


def on_post_build(*, config: Any, **_: Any) -> None:
    for path in sorted(linked):
        copy = Path(config["site_dir"], COPIES, f"{path}.txt")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
