"""Delivery of messages to a webhook: one POST at a time, in a thread of its own, so that the planner never waits for it.

The address is a secret (anyone who has it can write to the chat): messages and logs name its host alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gossamer import __version__
from gossamer.planner.alerts.message import FORMS, AlertMessage
from gossamer.settings import Settings, host_only

BODY = 2000
"""The most bytes of an answer that are read."""
SHOWN = 120
RETRIED = (401, 403, 404, 407, 408, 425, 429)
"""Statuses that are about the address or the moment, not about the message: it is sent again. Any other below 500 refuses the message."""


class DeliveryResult(NamedTuple):
    """How a POST ended. `refused`: the receiver does not want this message, and will not want it later. `after`: the seconds that it asked
    to be left alone for. `sent`: False if it was not even tried, since another planner leads."""

    ok: bool
    error: str = ""
    refused: bool = False
    after: float = 0.0
    sent: bool = True


class Webhook:
    """Where messages go, in which form, and how long an answer may take."""

    def __init__(self, address: str, form: str, seconds: float) -> None:
        self._address, self._form, self._seconds = address, FORMS[form], seconds
        self._form_name = form
        self.shown = host_only(address)

    @classmethod
    def of(cls, settings: Settings) -> Webhook | None:
        """As the settings say; None if they name none."""
        address = settings["GOSSAMER_ALERT_WEBHOOK"]
        form, seconds = settings["GOSSAMER_ALERT_FORMAT"], settings["GOSSAMER_ALERT_SECONDS"]
        return cls(address, form, max(seconds, 0.1)) if address else None

    def deliver(self, message: AlertMessage, crawl: str) -> DeliveryResult:
        """Send a message and wait for the answer. Never raises."""
        body = json.dumps(self._form(message, crawl)).encode()
        try:
            return asyncio.run(self._post(body, message.id))
        except Exception as error:  # whatever it is, the planner goes on and the message is sent again
            # Not its words: they may have the address in them.
            return DeliveryResult(False, f"{self.shown} could not be asked ({type(error).__name__})")

    async def _post(self, body: bytes, identity: str) -> DeliveryResult:
        import aiohttp

        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"gossamer/{__version__}",
            "Idempotency-Key": identity,
        }
        limit = aiohttp.ClientTimeout(total=self._seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
                session.post(self._address, data=body, headers=headers, allow_redirects=False) as response,
            ):
                text = (await response.content.read(BODY)).decode("utf-8", "replace")
                return self._result(response.status, dict(response.headers), text)
        except TimeoutError:
            return DeliveryResult(False, f"{self.shown} did not answer within {self._seconds:g} s")
        except aiohttp.ClientConnectorError as error:
            said = error.os_error.strerror or type(error.os_error).__name__
            return DeliveryResult(False, f"{self.shown} cannot be reached ({said})")

    def _result(self, status: int, headers: dict[str, str], text: str) -> DeliveryResult:
        said = self._without_address(" ".join(text.split()))[:SHOWN]
        said = f" ({said})" if said else ""
        if 300 <= status < 400:
            where = headers.get("Location", "")
            to = f" to {host_only(where)}" if "://" in where else ""
            return DeliveryResult(
                False, f"{self.shown} redirects{to} ({status}); set GOSSAMER_ALERT_WEBHOOK to where it leads"
            )
        if status >= 400:
            after = headers.get("Retry-After", "")
            return DeliveryResult(
                False,
                f"{self.shown} answered {status}{said}",
                refused=status < 500 and status not in RETRIED,
                after=min(float(after), 3600.0) if after.isdigit() else 0.0,
            )
        if self._form_name in CODES and (code := _code(text, CODES[self._form_name])):
            return DeliveryResult(False, f"{self.shown} answered code {code}{said}")
        return DeliveryResult(True)

    def _without_address(self, text: str) -> str:
        """A text from outside without what is secret of the address, and in one printable line."""
        parts = urlsplit(self._address)
        values = re.split("[/&=]", f"{parts.path}/{parts.query}")
        for secret in (self._address, *values, parts.username, parts.password):
            if secret and len(secret) > 3:
                text = text.replace(secret, "***")
        return "".join(sign if sign.isprintable() else " " for sign in text)


CODES = {"dingtalk": "errcode", "feishu": "code"}
"""Receivers that answer 200 whatever happens, and the field that says so."""


def _code(text: str, name: str) -> Any:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    return told.get(name) if isinstance(told, dict) else None


class WebhookPost(threading.Thread):
    """One delivery under way. `result` is None until it has ended. `leads` is asked right before the message goes: a planner that was frozen
    and leads no more sends nothing."""

    def __init__(self, webhook: Webhook, message: AlertMessage, crawl: str, leads: Callable[[], bool]) -> None:
        super().__init__(name="alert-webhook", daemon=True)
        self.message = message
        self._webhook, self._crawl, self._leads = webhook, crawl, leads
        self.result: DeliveryResult | None = None

    def run(self) -> None:
        if self._leads():
            self.result = self._webhook.deliver(self.message, self._crawl)
        else:
            self.result = DeliveryResult(False, sent=False)
