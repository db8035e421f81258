"""Every key of a site file is in the reference, with its type, its default and its meaning."""

from __future__ import annotations

from scripts.site_reference import reference

from gossamer.sites import format
from gossamer.sites.format import SiteSpec
from gossamer.sites.format.values import SiteModel


def test_every_key_says_what_it_means() -> None:
    models = [one for one in vars(format).values() if isinstance(one, type) and issubclass(one, SiteModel)]
    assert [model.__name__ for model in models if model is not SiteModel and not model.__doc__] == []
    assert [f"{mapping.name}.{key.name}" for mapping in reference() for key in mapping.keys if not key.meaning] == []


def test_the_reference_has_every_key_with_type_and_default() -> None:
    found = {mapping.name: mapping for mapping in reference()}
    assert [key.name for key in found["Site"].keys] == [
        field.alias or name for name, field in SiteSpec.model_fields.items()
    ]
    keys = {key.name: key for key in found["FieldRule"].keys}
    assert (keys["from"].type, keys["from"].default) == ("text", "content")
    assert keys["clean"].type.endswith("or Clean, or list of them")
    assert {key.name: key.default for key in found["Seen"].keys}["scope"] == "forever"
    assert {key.name: key.type for key in found["RequestRule"].keys}["timeout"] == "duration"
    layer = found["Layer"]
    assert layer.operating < {key.name for key in layer.keys}
    assert {"fields", "follow", "records", "match", "format"}.isdisjoint(layer.operating)
    assert {"stage", "weight", "backlog"} < layer.operating
    assert found["Identity"].where == ("Site.identity", "Layer.identity")
