"""The webhook: what it is sent, what its answers mean, and that its address stays secret."""

from __future__ import annotations

import json
from functools import partial

import pytest
from tests.support.site import Reply, Site

from gossamer.planner.alerts.message import FORMS, AlertMessage, ListedAlert, as_data, from_data
from gossamer.planner.alerts.outbox import KEPT, kept, next_message
from gossamer.planner.alerts.webhook import Webhook, WebhookPost
from gossamer.settings import load

HOOK = "/services/T0SECRET/B0SECRET"
MESSAGE = AlertMessage(
    "id1",
    1e9,
    "late_round",
    "late_round",
    "site",
    "warning",
    "",
    (ListedAlert("shop", 1e9, None, "round 3"),),
    (),
    1,
    0,
)


def hook(site: Site, form: str = "alertmanager", seconds: float = 5.0) -> Webhook:
    given = {
        "GOSSAMER_ALERT_WEBHOOK": f"{site.url}{HOOK}?key=SECRETKEY",
        "GOSSAMER_ALERT_FORMAT": form,
        "GOSSAMER_ALERT_SECONDS": seconds,
    }
    found = Webhook.of(load(given, {}))
    assert found is not None
    return found


def test_each_receiver_gets_its_form() -> None:
    assert from_data(json.loads(json.dumps(as_data(MESSAGE)))) == MESSAGE
    text = "[FIRING] warning: late_round (1 site of crawl main)\n- shop: round 3"
    with Site() as site:
        for form in FORMS:
            assert hook(site, form).deliver(MESSAGE, "main").ok
        bodies = [json.loads(visit.body) for visit in site.visits]
        [first, *_] = site.visits
    assert (first.method, first.target) == ("POST", f"{HOOK}?key=SECRETKEY")
    assert first.headers["Idempotency-Key"] == "id1"
    assert first.headers["Content-Type"] == "application/json"
    whole, *chats = bodies
    assert (whole["version"], whole["status"], whole["text"], whole["id"]) == ("4", "firing", text, "id1")
    assert whole["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
    assert chats == [
        {"text": text},
        {"content": text},
        {"msgtype": "text", "text": {"content": text}},
        {"msg_type": "text", "content": {"text": text}},
    ]


@pytest.mark.parametrize(
    ("reply", "form", "refused", "says"),
    [
        (Reply(500, "out of order"), "alertmanager", False, "answered 500 (out of order)"),
        (Reply(400, "invalid_payload"), "slack", True, "answered 400 (invalid_payload)"),
        (Reply(404, f"no {HOOK} SECRETKEY here\x1b[0m"), "slack", False, "answered 404 (no /***/***/*** *** here [0m)"),
        (Reply(429, "", {"Retry-After": "7"}), "slack", False, "answered 429"),
        (Reply(302, "", {"Location": "https://elsewhere.example/SECRET?x"}), "slack", False, "redirects to https://elsewhere.example/*** (302)"),
        (Reply(307, "", {"Location": "/SECRET"}), "slack", False, "redirects (307); set GOSSAMER_ALERT_WEBHOOK to where it leads"),
        (Reply(200, '{"errcode": 310000, "errmsg": "no keyword"}'), "dingtalk", False, "answered code 310000"),
        (Reply(200, '{"code": 19024}'), "feishu", False, "answered code 19024"),
    ],
)  # fmt: skip
def test_what_is_not_taken(reply: Reply, form: str, refused: bool, says: str) -> None:
    with Site() as site:
        site.on(HOOK, reply)
        result = hook(site, form).deliver(MESSAGE, "main")
        assert len(site.visits) == 1, "a redirect is not followed"
    assert (result.ok, result.refused) == (False, refused)
    assert says in result.error
    assert "SECRET" not in result.error
    assert result.after == (7 if reply.status == 429 else 0)


def test_one_that_hangs_or_is_not_there() -> None:
    with Site() as site:
        site.hold(HOOK)
        result = hook(site, seconds=0.3).deliver(MESSAGE, "main")
        assert result.error == f"{site.url}/*** did not answer within 0.3 s"
        site.release(HOOK)
    result = hook(site).deliver(MESSAGE, "main")
    assert (result.ok, result.refused) == (False, False)
    assert "cannot be reached (Connect" in result.error
    assert "SECRET" not in result.error


def test_a_planner_that_leads_no_more_sends_nothing() -> None:
    with Site() as site:
        for leads in (False, True):
            post = WebhookPost(hook(site), MESSAGE, "main", partial(bool, leads))
            post.start()
            post.join()
            assert post.result is not None
            assert (post.result.ok, post.result.sent, len(site.visits)) == (leads, leads, int(leads))


def test_messages_that_wait_for_too_long_or_are_too_many_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    old, new = MESSAGE._replace(id="old"), MESSAGE._replace(id="new", at=MESSAGE.at + 50_000)
    assert [(one.id, one.state) for one in kept([old, new], MESSAGE.at + 90_000)] == [
        ("old", "dropped"),
        ("new", "waiting"),
    ]
    many = [MESSAGE._replace(id=f"{n}") for n in range(KEPT + 2)]
    assert [one.id for one in kept(many, MESSAGE.at)] == [one.id for one in many[2:]]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


def test_a_message_that_fails_keeps_none_of_another_rule_waiting_and_comes_before_the_next_of_its_own() -> None:
    failed = MESSAGE._replace(id="failed", tries=3)
    over, other = MESSAGE._replace(id="over"), MESSAGE._replace(id="other", rule="stuck")
    sent = MESSAGE._replace(id="sent", rule="worker_lost", state="delivered")
    assert next_message([sent, failed, over, other]) is other
    assert next_message([sent, failed, over, other._replace(tries=3)]) is failed
    assert next_message([sent, failed, over]) is failed
    assert next_message([sent]) is None
