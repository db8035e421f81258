"""What a query may be that others write for us: one statement that only reads."""

from __future__ import annotations

import re

_READS = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)


def single_query(sql: str) -> str:
    """The query without the ; at its end. ValueError says why it is not a query."""
    text = sql.rstrip().removesuffix(";")
    if _READS.match(text) is None:
        raise ValueError("this is not a query; write SELECT … FROM …")
    if ";" in text:
        raise ValueError("there is more than one statement; write a single query, without ;")
    return text
