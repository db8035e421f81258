"""Files of alert rules: what they may say, and how they say what is wrong."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gossamer.planner.alerts.file import load_bytes, load_rules
from gossamer.planner.alerts.rules import DEFAULT, KINDS, DeadLetters, ItemRate, LateRound, Rate
from gossamer.sites.file.problems import SiteErrors


def problems(text: str) -> list[str]:
    with pytest.raises(SiteErrors) as caught:
        load_rules(dedent(text), "alerts.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_an_empty_file_says_what_the_defaults_say() -> None:
    assert load_rules("", "f") == load_rules("rules: {}", "f") == DEFAULT
    assert set(DEFAULT.rules) == set(KINDS) - {"item_rate"}, "which items per hour are too few only its owner knows"


def test_a_file_changes_adds_and_leaves_out_rules() -> None:
    text = """
        cooldown: 2h
        gather: 1m
        every: 5s
        rules:
          late_round: {after: 2h, severity: critical, note: "call Kim", for: 1m}
          item_rate: {below: 100/h, only: shop}
          host_blocked: {active: false}
          worker_lost:
          forum_dead: {kind: dead_letters, only: ["forum*"], except: [forum-test], above: 5, cooldown: 10m}
    """
    found = load_rules(dedent(text), "alerts.yaml")
    assert (found.every, found.gather) == (5, 60)
    late, rate, dead = (found.rules[name] for name in ("late_round", "item_rate", "forum_dead"))
    assert isinstance(late, LateRound)
    assert (late.after, late.severity, late.note, late.wait, late.cooldown) == (7200, "critical", "call Kim", 60, 7200)
    assert isinstance(rate, ItemRate)
    assert rate.below == Rate(100 / 3600, None)
    assert rate.only == ("shop",)
    assert isinstance(dead, DeadLetters)
    assert (dead.above, dead.cooldown) == (5, 600)
    assert [dead.concerns(name) for name in ("forum", "forum-test", "shop")] == [True, False, False]
    assert "host_blocked" not in found.rules
    assert found.rules["worker_lost"].cooldown == 7200


def test_all_that_is_wrong_is_said_at_once_with_its_place_and_a_remedy() -> None:
    text = """\
        colldown: 1h
        gather: soon
        rules:
          late_rounds: {}
          dead_letters: {abve: 5, above: -1}
          item_rate: {below: many}
          mine: {kind: dead_letter}
          paused: {kind: no_items}
          no_items: {window: 10s, cooldown: 2d}
          worker_lost: off
    """
    assert problems(text) == [
        "alerts.yaml:1:1: colldown: unknown key colldown (did you mean cooldown?)",
        "alerts.yaml:2:9: gather: 'soon' is not a duration (write 0.5s, 10m, 1h30m or 7d)",
        "alerts.yaml:4:3: rules.late_rounds: late_rounds is no kind of alert, and the rule names none (did you mean late_round?)",
        "alerts.yaml:5:18: rules.dead_letters.abve: unknown key abve (did you mean above?)",
        "alerts.yaml:5:34: rules.dead_letters.above: above is -1; it must be at least 0",
        "alerts.yaml:6:22: rules.item_rate.below: 'many' is not a rate (write 100/h (per s, m, h or d), or 20% of the usual rate)",
        "alerts.yaml:7:16: rules.mine.kind: there is no kind of alert 'dead_letter' (did you mean dead_letters?)",
        "alerts.yaml:8:18: rules.paused.kind: a rule named paused is of that kind (give it another name)",
        "alerts.yaml:9:22: rules.no_items.window: window is '10s'; it must be at least 60",
        "alerts.yaml:10:16: rules.worker_lost: a rule is a mapping (write worker_lost: {active: false})",
    ]
    assert problems("rules: {item_rate: {}}") == [
        "alerts.yaml:1:20: rules.item_rate.below: below is missing (write below: …)"
    ]
    assert problems("rules: {paused: {cooldown: 2d, repeat: 1h}}") == [
        "alerts.yaml:1:40: rules.paused.repeat: it is shorter than the cool-down (raise it, lower cooldown, or write 0 for never)"
    ]
    # Never true: no look was in the window.
    assert problems("every: 10m\nrules: {dead_letters: {window: 15m}}") == [
        "alerts.yaml:1:8: every: the rule dead_letters looks back 15 min (lower it to half of that, or raise the window of dead_letters)"
    ]
    load_rules("every: 10m\nrules: {dead_letters: {window: 15m, active: false}}", "alerts.yaml")
    assert "this is not a mapping" in problems("- late_round")[0]
    assert "more than one document" in problems("every: 1m\n---\nevery: 2m")[0]
    with pytest.raises(SiteErrors, match="is not UTF-8"):
        load_bytes(b"rules: {\xff}", "alerts.yaml")
