"""How to check certificates: by the system's authorities, not at all, or by a file of authorities."""

from __future__ import annotations

import ssl

from gossamer.model.fetch import TLS, FetchError

REMEDY = (
    "name the file of its authority with `request.verify: FILE`, or do without the check with `request.verify: false`"
)

_contexts: dict[bool | str, ssl.SSLContext] = {}


def context(verify: bool | str) -> ssl.SSLContext:
    """One context for each setting, so that connections can be shared."""
    try:
        found = _contexts.get(verify)
        if found is None:
            found = _contexts[verify] = _made(verify)
        return found
    except (OSError, ssl.SSLError) as error:
        why = f"the certificate authorities of `request.verify` cannot be read from {verify}: {error}"
        raise FetchError(TLS, why, False) from error


def _made(verify: bool | str) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if verify is False:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    made.set_alpn_protocols(["http/1.1"])
    return made
