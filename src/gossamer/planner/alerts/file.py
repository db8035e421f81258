"""Files of alert rules: read, checked, with all that is wrong at once."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from pydantic import BaseModel, ValidationError

from gossamer.planner.alerts.conditions import duration
from gossamer.planner.alerts.rules import KINDS, RULES_MAX, AlertFile, AlertRule, RuleSet, default_rules
from gossamer.sites.file.messages import problem_at, problems_of
from gossamer.sites.file.problems import Path, Problem, SiteErrors, did_you_mean, errors_of, listed
from gossamer.sites.file.yaml import InvalidYaml, Spot, decoded, read

SHARED = ("clear", "cooldown", "repeat")
"""What the file may say for all rules."""


def load_bytes(content: bytes, file: str) -> tuple[str, RuleSet]:
    """The text of a file, and its rules; SiteErrors with all that is wrong."""
    try:
        text = decoded(content, file)
    except InvalidYaml as error:
        raise SiteErrors([error.problem]) from None
    return text, load_rules(text, file)


def load_rules(text: str, file: str) -> RuleSet:
    """The rules in force with this text; SiteErrors with all that is wrong."""
    try:
        documents = [document for document in read(text, file) if document.data is not None]
    except InvalidYaml as error:
        raise SiteErrors([error.problem]) from None
    if len(documents) > 1:
        place = documents[1].spot
        raise SiteErrors([Problem(file, place.line, place.column, "", "there is more than one document", "remove ---")])
    if not documents:
        return RuleSet(AlertFile().every, AlertFile().gather, default_rules())
    [document] = documents
    reader = _Reader(document.spot)
    found = reader.read(document.data)
    if wrong := errors_of([*document.problems, *reader.problems]):
        raise SiteErrors(wrong)
    return found


class _Reader:
    """Reads one document; `problems` has what is wrong with it."""

    def __init__(self, spot: Spot) -> None:
        self._spot = spot
        self.problems: list[Problem] = []

    def read(self, data: Any) -> RuleSet:
        if not isinstance(data, dict):
            self._add((), "this is not a mapping", "write rules: and the rules below it")
            return RuleSet(0, 0, {})
        known = self._known(AlertFile, data, ())
        top = self._validated(AlertFile, known, ()) or AlertFile()
        given = {name: value for name in SHARED if (value := getattr(top, name)) is not None}
        rules = default_rules(**given)
        named = known.get("rules") if isinstance(known.get("rules"), dict) else {}
        for name, said in (named or {}).items():
            rule = self._rule(str(name), said, given, ("rules", name))
            if rule is not None:
                rules[str(name)] = rule
        if len(rules) > RULES_MAX:
            self._add(
                ("rules",), f"there are {len(rules)} rules", f"{RULES_MAX} can be evaluated; join some with `only`"
            )
        rules = {name: rule for name, rule in rules.items() if rule.active}
        for name, rule in rules.items():
            if min(rule.windows, default=inf) < 2 * top.every:
                # A window needs a look in it and one before.
                hint = f"lower it to half of that, or raise the window of {name}"
                self._add(("every",), f"the rule {name} looks back {duration(min(rule.windows))}", hint)
                break
        return RuleSet(top.every, top.gather, rules)

    def _rule(self, name: str, said: Any, given: Mapping[str, float], path: Path) -> AlertRule | None:
        if said is None:
            said = {}
        if not isinstance(said, dict):
            hint = (
                f"write {name}: {{active: false}}"
                if str(said).lower() in ("false", "off", "no")
                else f"write {name}: {{…}}"
            )
            self._add(path, "a rule is a mapping", hint)
            return None
        kind = said.get("kind", name if name in KINDS else None)
        if kind is None:
            hint = did_you_mean(name, KINDS)
            hint = hint if hint.startswith("did") else f"write kind: and one of {listed(list(KINDS), 'or')}"
            self._add(path, f"{name} is no kind of alert, and the rule names none", hint, key=True)
            return None
        if not isinstance(kind, str) or kind not in KINDS:
            self._add(
                (*path, "kind"),
                f"there is no kind of alert {kind!r}",
                did_you_mean(kind, KINDS) or f"there are {listed(list(KINDS))}",
            )
            return None
        if name in KINDS and kind != name:
            self._add((*path, "kind"), f"a rule named {name} is of that kind", "give it another name")
            return None
        model = KINDS[kind]
        own = self._known(model, {key: value for key, value in said.items() if key != "kind"}, path)
        rule: AlertRule | None = self._validated(model, {**given, **own}, path, inside=own)
        if rule is not None:
            self._check(rule, own, path)
        return rule

    def _check(self, rule: AlertRule, own: Mapping[Any, Any], path: Path) -> None:
        if "repeat" in own and 0 < rule.repeat < rule.cooldown:
            hint = "raise it, lower cooldown, or write 0 for never"
            self._add((*path, "repeat"), "it is shorter than the cool-down", hint)

    def _known(self, model: type[BaseModel], data: Mapping[Any, Any], path: Path) -> dict[Any, Any]:
        """What of a mapping the model knows; the rest is reported."""
        names = [field.alias or name for name, field in model.model_fields.items()]
        names += ["kind"] if path else []
        for key in data:
            if key not in names:
                hint = did_you_mean(key, names) or f"there are {listed(names)}"
                self._add((*path, key), f"unknown key {key}", hint, key=True)
        return {key: value for key, value in data.items() if key in names}

    def _validated(self, model: type[Any], data: Mapping[Any, Any], path: Path, inside: Any = None) -> Any:
        try:
            return model.model_validate(dict(data), by_alias=True, by_name=False)
        except ValidationError as error:
            spot = self._spot.find(path).spot
            around = data if inside is None else inside
            self.problems += [
                problem._replace(path=".".join(filter(None, (*map(str, path), problem.path))))
                for problem in problems_of(error, around, spot)
            ]
            return None

    def _add(self, path: Path, message: str, hint: str, *, key: bool = False) -> None:
        self.problems.append(problem_at(self._spot, path, message, hint, key=key))
