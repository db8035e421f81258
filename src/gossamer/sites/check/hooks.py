"""The Python functions that a site names: which they are and, when asked, whether they can be imported."""

from __future__ import annotations

import sys

from gossamer.sites.file.functions import NotAllowed, function
from gossamer.sites.file.grant import Grant
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import Problem, did_you_mean
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import Hooks, SiteSpec


def hooks_of(site: SiteSpec) -> dict[str, list[str]]:
    """Every Python function that a site names, with the paths where it is named: what `site check --hooks` imports."""
    found: dict[str, list[str]] = {}

    def take(hooks: Hooks, where: str) -> None:
        for name in type(hooks).model_fields:
            if (entry := getattr(hooks, name)) is not None:
                found.setdefault(entry, []).append(f"{where}.{name}")

    take(site.hooks, "hooks")
    for name, layer in site.layers.items():
        take(layer.hooks, f"layers.{name}.hooks")
        if layer.handler is not None:
            found.setdefault(layer.handler, []).append(f"layers.{name}.handler")
    return found


def check_hooks(site: SiteSpec, spot: Spot, grant: Grant) -> list[Problem]:
    """Import every function that a site names and may name. This runs their modules."""
    problems = []
    for entry, places in hooks_of(site).items():
        module, _, name = entry.partition(":")
        try:
            function(entry, grant)
            continue
        except NotAllowed as error:
            message, hint = error.message, error.hint
        except LookupError as error:
            message = f"{error}" if module in sys.modules else f"{module} cannot be imported: {error!r}"
            hint = did_you_mean(name, _functions(module))
        except Exception as error:
            message, hint = (
                f"{module} cannot be imported: {type(error).__name__}: {error}",
                "is it installed, or in the working directory?",
            )
        problems += [problem_at(spot, tuple(place.split(".")), message, hint) for place in places]
    return problems


def _functions(module: str) -> list[str]:
    names = vars(sys.modules[module]) if module in sys.modules else {}
    return [word for word, thing in names.items() if callable(thing) and word[0] != "_"]
