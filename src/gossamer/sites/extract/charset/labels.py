"""The names by which pages call character sets: those of the Encoding Standard, and what Python calls the same."""

from __future__ import annotations

import codecs
from functools import lru_cache

from w3lib.encoding import resolve_encoding

# Codecs of Python that are no character sets of pages; some of them are dangerous to run on what strangers send.
NO_CHARSETS = frozenset(
    {
        "hz", "idna", "iso2022_kr", "mbcs", "oem", "palmos", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"
    }
)  # fmt: skip
# Labels of the Encoding Standard that Python does not know.
_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff",
    "utf-16-be": "unicodefffe",
    "iso8859-2": "iso88592",
    "iso8859-3": "iso88593",
    "iso8859-4": "iso88594",
    "iso8859-5": "iso88595",
    "iso8859-6": "csiso88596e csiso88596i iso-8859-6-e iso-8859-6-i iso88596",
    "iso8859-7": "iso88597 sun_eu_greek",
    "iso8859-8": "csiso88598e csiso88598i iso-8859-8-e iso-8859-8-i iso88598 logical visual",
    "iso8859-10": "iso885910",
    "iso8859-13": "iso885913",
    "iso8859-14": "iso885914",
    "iso8859-15": "csisolatin9 iso885915",
    "koi8-r": "koi koi8",
    "koi8-u": "koi8-ru",
    "mac-roman": "csmacintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "dos-874 iso885911",
    "cp1250": "x-cp1250",
    "cp1251": "x-cp1251",
    "cp1252": "iso88591 x-cp1252",
    "cp1253": "x-cp1253",
    "cp1254": "iso88599 x-cp1254",
    "cp1255": "x-cp1255",
    "cp1256": "x-cp1256",
    "cp1257": "x-cp1257",
    "cp1258": "x-cp1258",
    "gb18030": "csgb2312 gb_2312 x-gbk",
    "big5hkscs": "cn-big5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese x-euc-jp",
    "cp949": "cseuckr csksc56011987 iso-ir-149 ks_c_5601-1989 ksc_5601 windows-949",
}
_NAMES = {label.replace("-", "_"): name for name, labels in _LABELS.items() for label in labels.split()}


def _codec_of(label: str) -> codecs.CodecInfo | None:
    name = _NAMES.get(label.replace("-", "_"))
    return None if name is None else codecs.lookup(name)


codecs.register(_codec_of)  # Thus w3lib knows them, too, where it looks for what a page declares.


@lru_cache(maxsize=512)
def known(label: str) -> str | None:
    """The codec for a label as pages write it, with the supersets that browsers use (gb2312 is gb18030); None if there is none."""
    try:
        name = resolve_encoding(label.strip())
        if name is None or name.replace("-", "_") in NO_CHARSETS or not codecs.lookup(name)._is_text_encoding:
            return None
    except (LookupError, ValueError):
        return None
    return {"utf-8-sig": "utf-8"}.get(name, name)


@lru_cache(maxsize=64)
def table_of(name: str) -> str | None:
    """The 256 characters of a character set with one byte for each, U+FFFD where there is none; None for all others. As in browsers, bytes
    from 80 to 9F that have no character are control characters."""
    try:
        letters = [bytes([byte]).decode(name, "replace") for byte in range(256)]
    except LookupError:
        return None
    if name.startswith(("utf", "iso2022", "hz")) or any(len(letter) != 1 for letter in letters) or _is_multibyte(name):
        return None
    return "".join(
        chr(byte) if letter == "\ufffd" and 0x80 <= byte < 0xA0 else letter for byte, letter in enumerate(letters)
    )


def _is_multibyte(name: str) -> bool:
    return name.startswith(("gb", "big5", "cp932", "cp949", "cp950", "euc", "shift", "johab"))
