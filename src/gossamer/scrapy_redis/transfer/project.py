"""What the workers of a project would make of requests that are not theirs yet: the Scrapy project in this directory is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from scrapy import Spider
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings

from gossamer.errors import SettingError, UnknownClass
from gossamer.frontier import codec
from gossamer.scrapy.request.objects import ObjectCodec, packages
from gossamer.scrapy_redis.transfer.requests import payload_of


class ProjectWorkers:
    """Of the spider `kind`. Only what its class says is known: it is not made."""

    def __init__(self, kind: type[Spider], objects: ObjectCodec) -> None:
        self._kind, self._objects = kind, objects

    def refusal(self, fields: Mapping[str, Any]) -> str:
        """Why a worker would make a dead letter of a request; "" if it would not."""
        for field in ("callback", "errback"):
            name = fields.get(field)
            if isinstance(name, str) and name != "NO_CALLBACK" and not callable(getattr(self._kind, name, None)):
                return f"{field} {name!r}: the spider {self._kind.name} has no such method"
        try:
            codec.decode_request(payload_of(fields), build=self._objects.make)
        except UnknownClass as error:
            return str(error)
        return ""


def workers_here(spider: str, more: str = "") -> ProjectWorkers | None:
    """Those of a spider of the project in this directory, with what GOSSAMER_OBJECT_MODULES names; None: there is no such spider."""
    settings = get_project_settings()
    if not settings.getlist("SPIDER_MODULES"):
        return None
    try:
        loader = load_object(settings["SPIDER_LOADER_CLASS"]).from_settings(settings.frozencopy())
        kind = loader.load(spider)
    except KeyError:
        return None
    except Exception as error:
        raise SettingError(
            f"The project's spiders cannot be imported: {type(error).__name__}: {error}. Correct them, or go to another directory."
        ) from error
    modules = packages(kind, settings, os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
    return ProjectWorkers(kind, ObjectCodec.named(modules, more))
