"""Seeds: what producers push to a key, and the request that scrapy-redis makes of it."""

from __future__ import annotations

import json
from typing import Any

from scrapy import FormRequest

from gossamer.errors import BadTask


def request_of(text: str) -> FormRequest | None:
    """The request of a URL, or of a JSON object with `url`, `method`, `meta` and form data under every other key.

    None for an object without a url; `BadTask` for what is neither.
    """
    try:
        seed = json.loads(text)
    except ValueError:
        seed = text
    if isinstance(seed, str):
        return _made(url=seed.strip())
    if not isinstance(seed, dict):
        raise BadTask(f"The seed is {text!r:.200}; it must be a URL or a JSON object with a url.")
    if seed.get("url") is None:
        return None
    url, method, meta = seed.pop("url"), seed.pop("method", "GET"), seed.pop("meta", {})
    if not isinstance(method, str) or not isinstance(meta, dict | None):
        raise BadTask(f"The seed's method or meta cannot be used: {method!r:.100}, {meta!r:.100}.")
    return _made(url=url, method=method.upper(), meta=meta, formdata={name: _form(seed[name]) for name in seed})


def _form(value: Any) -> Any:
    if isinstance(value, list):
        return [_form(one) for one in value]
    return str(value) if isinstance(value, int | float) else value


def _made(**fields: Any) -> FormRequest:
    try:
        return FormRequest(dont_filter=True, **fields)
    except (TypeError, ValueError) as error:
        raise BadTask(f"No request can be made of the seed: {error}.") from None
