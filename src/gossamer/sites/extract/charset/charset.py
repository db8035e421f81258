"""The text of a page, in the character set that browsers find: a byte order mark, the Content-Type, what the page says of itself, and
otherwise UTF-8 where it is UTF-8, or what its bytes look like. What is said loses against bytes that it cannot decode. No bytes are
an error: what does not fit becomes U+FFFD, and the note says so."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, to_unicode

from gossamer.sites.extract.charset.labels import known, table_of

UNDECLARED = "cp1252"
"""What most pages are in that say nothing, are not UTF-8, and look like nothing else."""
GUESSED, REPLACED = "guessed", "replaced"
CHARSET = "charset: the page "
"""What notes on it begin with."""
ANOTHER = "(encoding: in the layer sets another)"
SAMPLE_BYTES = 16_384
"""How much of a page is looked at to guess its character set: of the words between tags only those that are not ASCII."""
LITTLE, MUCH, HALF = 0.01, 0.2, 0.5
"""Shares of damaged characters: with less than the first a page is damaged, with more than the second it is something else; with more than
the third it is what it says itself, whatever the header says."""
EURO_BYTES = 1_000_000
FEW_BYTES = 6
"""Fewer bytes beyond ASCII than this are no words: ©, a dash, a name with an accent."""
# Letters with accents of Western Europe and the punctuation of its typesetters, in Windows-1252.
WESTERN = "€‚„…‹‘’“”•–—™›œŒ\xa0¡£§©«®°·º»¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûü".encode(UNDECLARED)
WORD = re.compile(rb"[\xc0-\xff]{3}").search
ASCII = bytes(range(128))
SEVERAL_BYTES = ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
WITH_GAPS = ("cp1253", "iso8859-7", "cp1255", "cp874")
WEAK, DOUBTFUL, DOUBTFUL_BYTES = 0.05, 0.3, 4_096
"""What the detector is less sure of than this is short, or not what it takes it for."""
# What browsers tell apart (the detector's names); of these the detector chooses.
BROWSERS = [
    "GB18030",
    "Big5HKSCS",
    "CP932",
    "EUC-JP",
    "CP949",
    "Windows-1251",
    "KOI8-R",
    "KOI8-U",
    "ISO-8859-5",
    "CP866",
    "ISO-8859-2",
    "Windows-1250",
    "Windows-1252",
    "ISO-8859-7",
    "Windows-1253",
    "Windows-1254",
    "Windows-1255",
    "Windows-1256",
    "Windows-1257",
    "Windows-1258",
    "CP874",
]


class PageText(NamedTuple):
    """A page as text; the codec that read it ("" for ASCII: any); whether the bytes are the text in UTF-8; whether its character set was GUESSED
    or characters were REPLACED, with a note on it ("" otherwise)."""

    text: str
    codec: str
    is_plain: bool = False
    doubt: str = ""
    note: str = ""


def read(body: bytes, content_type: str = "", encoding: str | None = None) -> PageText:
    """A page's text. `encoding`, of the site file, goes before all that the page says."""
    marked, mark = read_bom(body)
    if encoding is not None and (name := known(encoding)) is not None:
        if marked is not None and mark is not None and name.replace("-", "").startswith(marked.replace("-", "")[:5]):
            return _sure(body[len(mark) :], marked)
        return _sure(body, f"{name}-le" if name in ("utf-16", "utf-32") else name)
    if marked is not None and mark is not None:
        return _sure(body[len(mark) :], marked)
    if is_ascii(body):
        return PageText(body.decode("ascii"), "", True)
    if (name := _zeros(body, content_type)) is not None:
        return _sure(body, name)
    name = declared(body, content_type)
    if name is None:
        return _guessed(body)
    if name == UNDECLARED and "json" in content_type.lower() and (text := _utf8(body)) is not None:
        # JSON is UTF-8 to browsers, whatever they are told, and some servers add ISO-8859-1 to everything.
        return text
    return _said(body, name)


def is_ascii(body: bytes) -> bool:
    """Whether these are the same characters in every character set but UTF-16."""
    return body.isascii() and b"\0" not in body and b"\x1b" not in body


def declared(body: bytes, content_type: str) -> str | None:
    """The codec that the header or the page itself names."""
    return of_header(content_type) or of_page(body)


def of_page(body: bytes) -> str | None:
    if (label := html_body_declared_encoding(body)) is not None and (name := known(label)) is not None:
        # Bytes in which this could be read are not UTF-16, whatever they say: browsers take UTF-8.
        return "utf-8" if name.startswith(("utf-16", "utf-32")) else name
    return None


@lru_cache(maxsize=512)
def of_header(content_type: str) -> str | None:
    name = http_content_type_encoding(content_type)
    name = known(name) if name else None
    return f"{name}-le" if name in ("utf-16", "utf-32") else name


def _zeros(body: bytes, content_type: str) -> str | None:
    """Half of the bytes of UTF-16 markup are zero, and it can say nothing of itself that would be read."""
    if of_header(content_type) in (None, "utf-16-le"):
        if body[:1] == b"\0" != body[1:2] and body[2:3] == b"\0":
            return "utf-16-be"
        if body[:1] != b"\0" and body[1:2] == b"\0" == body[3:4]:
            return "utf-16-le"
    return None


def _sure(body: bytes, name: str) -> PageText:
    """In this character set, whatever does not fit."""
    text, damaged = decode(body, name)
    if not damaged:
        return PageText(text, name, name == "utf-8")
    return PageText(text, name, False, REPLACED, f"{CHARSET}is not all {name}; what did not fit was replaced {ANOTHER}")


def _said(body: bytes, name: str) -> PageText:
    """In the character set that the page names, unless its bytes do not fit and fit another."""
    result = _sure(body, name)
    table = table_of(name)
    if body.isascii() or (table is None and not result.doubt):
        return result
    fits = _fits(result, body)
    if (utf8 := _utf8(body)) is not None:
        if not fits:
            return _other(utf8, name)
        note = f"{CHARSET}says {name} and was read so, as browsers do, but all of it is UTF-8 {ANOTHER}"
        return result._replace(doubt=GUESSED, note=note)
    if fits or (table is None and _share(result.text) < LITTLE):
        return result
    share = _share(result.text)
    if table is not None or share > HALF:
        # Servers that say one thing of everything have pages that know better.
        own = of_page(body)
        if own is not None and own != name and _fits(own_result := _sure(body, own), body):
            return _other(own_result, name)
    other = _guessed(body)
    if other.doubt == REPLACED and _share(other.text) * 4 > share:
        return result
    few = len(body.translate(None, ASCII)) < FEW_BYTES
    if other.codec not in SEVERAL_BYTES and (table is not None or share < MUCH or few):
        return result
    return _other(other, name)


def _fits(result: PageText, body: bytes) -> bool:
    return not result.doubt and not any(byte in body for byte in _gaps(table_of(result.codec) or ""))


def _other(result: PageText, name: str) -> PageText:
    return result._replace(
        doubt=GUESSED,
        note=f"{CHARSET}says {name}, which does not fit; it was read as {result.codec} {ANOTHER}",
    )


@lru_cache(maxsize=64)
def _gaps(table: str) -> tuple[int, ...]:
    """The bytes that stand for control characters: no page means these."""
    return tuple(byte for byte in range(0x80, 0xA0) if table[byte : byte + 1] == chr(byte))


def _utf8(body: bytes) -> PageText | None:
    try:
        return PageText(body.decode(), "utf-8", True)
    except UnicodeDecodeError:
        return None


def _guessed(body: bytes) -> PageText:
    """UTF-8 if it is that, but for a few damaged bytes; otherwise what it looks like."""
    if b"\x1b" in body and body.isascii():
        result = _sure(body, "iso2022_jp")
        if not result.doubt and not result.text.isascii():
            return _noted(result)
    if (sound := _utf8(body)) is not None:
        return sound
    damaged = _sure(body, "utf-8")
    if _share(damaged.text) < MUCH:
        return damaged
    return _noted(_sure(body, guess(sample(body))))


def _noted(result: PageText) -> PageText:
    if result.doubt:
        note = f"{CHARSET}says none and is not all UTF-8; it was read as {result.codec}, and what did not fit was replaced {ANOTHER}"
        return result._replace(note=note)
    return result._replace(
        doubt=GUESSED, note=f"{CHARSET}says none and is not UTF-8; it was read as {result.codec} {ANOTHER}"
    )


def _share(text: str) -> float:
    """The share of the characters beyond ASCII that were replaced."""
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return text.count("\ufffd") / beyond if beyond else 0.0


def decode(body: bytes, name: str) -> tuple[str, int]:
    """The text, and how many characters of it were replaced."""
    if (table := table_of(name)) is not None:
        text, _ = codecs.charmap_decode(body, "strict", table)
        return text, text.count("\ufffd")
    try:
        return body.decode(name), 0
    except (UnicodeError, LookupError):
        # In gbk, browsers read the byte 80 as the euro sign; w3lib does so, too, and takes long for very many of them.
        text = to_unicode(body, name) if len(body) <= EURO_BYTES else body.decode(name, "replace")
        return text, text.count("\ufffd")


def sample(body: bytes) -> bytes:
    """The words that are not ASCII, without markup, each once: at most SAMPLE_BYTES. Where most of a page is English, or a sign stands at each
    headline, the rest says what it is."""
    words: dict[bytes, None] = {}
    size = 0
    for piece in _pieces(body):
        if not piece.isascii():
            for word in piece.split():
                if not word.isascii() and word not in words:
                    words[word[: SAMPLE_BYTES - size]] = None
                    size += len(word) + 1
                    if size >= SAMPLE_BYTES:
                        return b"\n".join(words)
    return b"\n".join(words)


def _pieces(body: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(body):
        end = body.find(b"<", begin)
        end = len(body) if end < 0 else end
        yield body[begin : min(end, begin + SAMPLE_BYTES)]
        begin = end + 1


def guess(piece: bytes) -> str:
    """The codec that bytes look like which are not UTF-8."""
    beyond = piece.translate(None, ASCII)
    western = not beyond.translate(None, WESTERN) and not WORD(piece)
    if western and len(beyond) < FEW_BYTES:
        return UNDECLARED
    best, confidence = _detected(piece)
    if western and confidence < WEAK:
        return UNDECLARED
    if confidence < DOUBTFUL:
        # The detector takes no character set in which a single byte is damaged, as where a page was cut.
        piece = piece[:DOUBTFUL_BYTES]
        beyond = piece.translate(None, ASCII)
        found: dict[bytes, tuple[str, float]] = {}
        for name in (*SEVERAL_BYTES, *WITH_GAPS):
            text, damaged = decode(piece, name)
            if damaged * 20 < len(beyond):
                sound = text.replace("\ufffd", "").encode(name, "ignore") if damaged else piece
                likely = found[sound] = found.get(sound) or _detected(sound)
                if likely[0] == name and likely[1] > confidence:
                    best, confidence = likely
    return best


def _detected(piece: bytes) -> tuple[str, float]:
    """The codec, and how sure the detector is, from 0 to 1."""
    detector: Any = _detector()
    found = detector(piece, include_encodings=BROWSERS, no_match_encoding="Windows-1252", max_bytes=SAMPLE_BYTES)
    return known(found["encoding"] or UNDECLARED) or UNDECLARED, found["confidence"]


@lru_cache(maxsize=1)
def _detector() -> Any:
    # Its models take a tenth of a second to load; most workers never need them.
    from chardet import detect

    return detect
