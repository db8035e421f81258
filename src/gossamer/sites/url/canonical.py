"""One form for all spellings of a URL: that of `w3lib.url.canonicalize_url`, without default ports.

Nearly all URLs are written in that form already, or need only their query's arguments put in order. `_SHAPE` knows them by
sight; the others, and those of which it cannot be sure, take the long way through w3lib.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from w3lib.url import canonicalize_url

# Characters that come back as they went in, and the escapes that stay escapes, whatever the version of w3lib: its path quoting
# differs on %23, %25 and %3B, on dot segments and on `;`; in a query only letters, digits and -._~ lose their escapes.
_PATH = r"[A-Za-z0-9\-._~!$&'()*+,:@=/]*+"
_PATH_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[02F]|3[CEF]|5[CE]|60|7[BDF])"
_WORD = r"[A-Za-z0-9\-._~+]"
# Without %00, so that a zero byte may divide name and value where arguments are compared.
_WORD_ESCAPE = r"%(?:0[1-9A-F]|[189A-F][0-9A-F]|2[1-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
_ARGUMENT = (
    rf"(?:{_WORD}|{_WORD_ESCAPE}){_WORD}*+(?:{_WORD_ESCAPE}{_WORD}*+)*+(?:={_WORD}*+(?:{_WORD_ESCAPE}{_WORD}*+)*+)?+"
)
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}"
_SHAPE = re.compile(
    rf"(https?://[a-z0-9_.-]++(?::(?:{_PORT}))?/{_PATH}(?:{_PATH_ESCAPE}{_PATH})*+)"
    rf"(?:\?({_ARGUMENT}(?:&{_ARGUMENT})*+))?+"
    r"(?:#[A-Za-z0-9\-._~!$&'()*+,:;@=/?%]*+)?+"
).fullmatch
# At the beginning only: a path may hold another URL.
_DEFAULT_PORT = re.compile(r"\A(?:(http://[^/?#]*):0*80(?=/)|(https://[^/?#]*):0*443(?=/))")


def canonical(url: str, fragment: bool = False) -> str:
    """The one form of a URL; a URL that w3lib cannot take apart stays as it is. With `fragment`, what follows # counts."""
    known = None if fragment else fast_path(url)
    if known is None:
        try:
            return without_default_port(canonicalize_url(url, keep_fragments=fragment))
        except ValueError:
            return url
    # Past the colon of the scheme.
    return without_default_port(known) if ":" in known[6:] else known


def fast_path(url: str) -> str | None:
    """What `canonicalize_url(url)` gives for a URL of which that is known beforehand; None for any other."""
    found = _SHAPE(url)
    if found is None or "/." in url:
        return None
    base, query = found.groups()
    return f"{base}?{in_order(query)}" if query is not None else str(base)


def in_order(query: str) -> str:
    """The arguments of a query that `_SHAPE` knows, by name, then by value, both decoded; each with a = ."""
    if "&" not in query:
        return query if "=" in query else f"{query}="
    # Divided by a zero byte, which comes before all that a name may have, name and value compare as one text; so does a plus,
    # which stands for a space and, like it, comes before the rest.
    arguments = query.replace("=", "\0").split("&")
    if query.count("=") < len(arguments):
        arguments = [word if "\0" in word else word + "\0" for word in arguments]
    if "%" in query:
        arguments.sort(key=_decoded)
    else:
        arguments.sort()
    return "&".join(arguments).replace("\0", "=")


def _decoded(argument: str) -> bytes:
    return unquote_to_bytes(argument.replace("+", " "))


def without_default_port(url: str) -> str:
    """A canonical URL without the port that its scheme has anyway."""
    return _DEFAULT_PORT.sub(r"\1\2", url, count=1)
