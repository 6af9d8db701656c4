"""Changes of a memory go to the endpoints of its pipeline, signed, once each under a stable id."""

from collections.abc import Iterator
from typing import Any

import pytest
from cloudevents.http import from_http
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Reply, WebhookReceiver

NOTES = "instances/${pipeline_uid}/notes"


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["endpoints"], "max_hops": 20})
        yield system


def deploy(system: TestSystem) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *make_commands(NOTES)))
    return uid


def create(system: TestSystem, uid: str, url: str, **fields: Any) -> Any:
    return call(system, uid, "endpoints.create", {"url": url, **fields})


def write(system: TestSystem, uid: str, text: str) -> str:
    return str(call(system, uid, "records.create", {"content": text})["guid"])


def list_deliveries(system: TestSystem, uid: str, **which: Any) -> list[dict[str, Any]]:
    return list(call(system, uid, "deliveries.list", which)["items"])


def await_states(system: TestSystem, uid: str, *states: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def has_states() -> bool:
        found[:] = list_deliveries(system, uid)
        return [one["state"] for one in found] == list(states)

    wait_for(has_states, f"the deliveries are {states}: {found}")
    return found


def test_a_change_is_delivered_with_a_valid_signature(system: TestSystem) -> None:
    uid = deploy(system)
    write(system, uid, "before the endpoint")
    with WebhookReceiver() as receiver:
        created = create(system, uid, receiver.url)
        guid = write(system, uid, "The meeting is at 3pm")
        (request,) = receiver.wait(1)
        Webhook(created["secret"]).verify(request.body, request.headers)
        event = request.json
        assert event["type"] == "record.created"
        assert event["data"]["guid"] == guid
        assert event["data"]["content"] == "The meeting is at 3pm"
        assert event["data"]["store"] == f"instances/{uid}/notes"
        (delivery,) = await_states(system, uid, "delivered")
        assert delivery["id"] == request.id
        tries = call(system, uid, "deliveries.get", {"id": request.id})["tries"]
        assert [(one["number"], one["status"], one["answer"]) for one in tries] == [(1, 200, "ok")]


def test_messages_to_agents_are_delivered_too(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        create(system, uid, receiver.url, events=["record.*"])
        system.client.enter_together(uid, [f"/write note {number}" for number in range(20)])
        requests = receiver.wait(20)
        assert sorted(one.json["data"]["content"] for one in requests) == sorted(
            f"note {number}" for number in range(20)
        )
        assert len({one.id for one in requests}) == 20


def test_a_delivery_counts_the_messages_that_led_to_it(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        create(system, uid, receiver.url)
        for text, hop in (("one", ""), ("two", "4"), ("three", "20"), ("four", ""), ("five", "19")):
            system.client.enter(uid, f"/write {text}", hop=hop)
        hops = {
            one.json["data"]["content"]: one.headers["memrelay-hop"] for one in receiver.wait(4)
        }
        assert hops == {"one": "1", "two": "5", "four": "1", "five": "20"}
        failed = wait_for(
            lambda: list_deliveries(system, uid, state="failed"), "a delivery has failed"
        )
        (tried,) = call(system, uid, "deliveries.get", {"id": failed[0]["id"]})["tries"]
        assert "worker.max_hops is 20" in tried["answer"]
        (listed,) = call(system, uid, "endpoints.list")["items"]
        assert listed["failures"] == 0


def test_only_events_that_match_are_sent(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        create(system, uid, receiver.url, events=["record.deleted"])
        only_long = {"content": {"contains": "urgent"}}
        create(system, uid, receiver.url + "/filtered", filter=only_long)
        guid = write(system, uid, "quiet")
        write(system, uid, "urgent: the pump fails")
        call(system, uid, "records.delete", {"guid": guid})
        requests = receiver.wait(2)
        assert sorted((one.path, one.json["type"]) for one in requests) == [
            ("/hook/secret-path", "record.deleted"),
            ("/hook/secret-path/filtered", "record.created"),
        ]


def test_a_failed_try_is_repeated_under_its_id(system: TestSystem) -> None:
    uid = deploy(system)
    busy = Reply(503, b"busy", (("Retry-After", "1"),))
    with WebhookReceiver(busy) as receiver:
        create(system, uid, receiver.url)
        write(system, uid, "again")
        first, second = receiver.wait(2)
        assert first.id == second.id
        (delivery,) = await_states(system, uid, "delivered")
        tries = call(system, uid, "deliveries.get", {"id": delivery["id"]})["tries"]
        assert [(one["status"], one["answer"]) for one in tries] == [(503, "busy"), (200, "ok")]


def test_410_switches_the_endpoint_off_and_enable_sends_again(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver(Reply(410, b"gone")) as receiver:
        endpoint = create(system, uid, receiver.url)["endpoint"]["id"]
        write(system, uid, "one")
        await_states(system, uid, "failed")
        (listed,) = call(system, uid, "endpoints.list")["items"]
        assert (listed["active"], listed["disabled"]) == (
            False,
            "the receiver answered 410: it is gone",
        )
        write(system, uid, "two")
        await_states(system, uid, "waiting", "failed")
        call(system, uid, "endpoints.enable", {"id": endpoint})
        await_states(system, uid, "delivered", "failed")
        call(system, uid, "deliveries.redeliver_many", {"endpoint": endpoint})
        await_states(system, uid, "delivered", "delivered")
        ids = [one.id for one in receiver.wait(3)]
        assert ids[0] == ids[2]


def test_a_template_makes_the_body(system: TestSystem) -> None:
    uid = deploy(system)
    template = {"title": "{{ type }}: {{ data.content }}", "tags": "{{ data.tags }}", "fixed": 1}
    with WebhookReceiver() as receiver:
        created = create(system, uid, receiver.url, template=template)
        call(system, uid, "records.create", {"content": 'say "hi"', "tags": ["a", "b"]})
        (request,) = receiver.wait(1)
        Webhook(created["secret"]).verify(request.body, request.headers)
        expected = {"title": 'record.created: say "hi"', "tags": ["a", "b"], "fixed": 1}
        assert request.json == expected
        change = {"id": created["endpoint"]["id"], "template": {"size": "{{ data.seq | round }}"}}
        assert call(system, uid, "endpoints.update", change)["template"] == change["template"]
        write(system, uid, "no number")
        failing = wait_for(
            lambda: [one for one in list_deliveries(system, uid) if one["tries"] and one["due"]],
            "a template fails",
        )
        (tried,) = call(system, uid, "deliveries.get", {"id": failing[0]["id"]})["tries"]
        assert (tried["status"], "round" in tried["answer"]) == (0, True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"template": {"a": "{{ data.content"}}, "template"),
        ({"template": {"a": "{% for x in data %}{% endfor %}"}}, "template"),
        ({"template": {"a": "x" * 17_000}}, "at most 16384"),
        ({"template": {"a": "{{ type }}"}, "format": "slack"}, "leave out the format slack"),
    ],
)
def test_a_wrong_template_is_refused(system: TestSystem, fields: Any, reason: str) -> None:
    uid = deploy(system)
    with pytest.raises(AssertionError, match=reason):
        create(system, uid, "https://example.com", **fields)


def test_recover_sends_failed_and_missing_events_of_a_period(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver(Reply(410, b"gone")) as receiver, WebhookReceiver() as late:
        first = create(system, uid, receiver.url)["endpoint"]["id"]
        write(system, uid, "one")
        (failed,) = await_states(system, uid, "failed")
        call(system, uid, "endpoints.enable", {"id": first})
        later = {"id": first, "since": "2100-01-01T00:00:00Z"}
        assert call(system, uid, "endpoints.recover", later)["count"] == 0
        assert call(system, uid, "endpoints.recover", {"id": first}) == {"count": 1, "more": False}
        await_states(system, uid, "delivered")
        assert [one.id for one in receiver.wait(2)] == [failed["id"], failed["id"]]

        write(system, uid, "two")
        await_states(system, uid, "delivered", "delivered")
        given = {"events": ["record.created"], "ordered": True}
        second = create(system, uid, late.url, **given)["endpoint"]["id"]
        for _ in range(2):  # the second one finds nothing that is missing
            call(system, uid, "endpoints.recover", {"id": second, "missing": True})
            sent = late.wait(2)
            assert [one.json["data"]["content"] for one in sent] == ["one", "two"]
        write(system, uid, "three")
        texts = [one.json["data"]["content"] for one in late.wait(3)]
        assert texts == ["one", "two", "three"]


def test_an_endpoint_is_changed_and_switched_off_and_on(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        given = {"headers": {"X-Team": "a"}, "description": "first"}
        endpoint = create(system, uid, receiver.url, **given)["endpoint"]["id"]
        change = {"id": endpoint, "events": ["record.created"], "active": False}
        changed = call(system, uid, "endpoints.update", change)
        assert (changed["events"], changed["active"]) == (["record.created"], False)
        assert (changed["headers"], changed["description"]) == ({"X-Team": "…"}, "first")
        write(system, uid, "tea")
        await_states(system, uid, "waiting")
        call(system, uid, "endpoints.update", {"id": endpoint, "active": True})
        await_states(system, uid, "delivered")
        assert receiver.requests[0].headers["x-team"] == "a"


def test_both_secrets_sign_until_the_end_of_a_rotation(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        created = create(system, uid, receiver.url)
        endpoint = created["endpoint"]["id"]
        rotated = call(system, uid, "endpoints.rotate", {"id": endpoint})
        call(system, uid, "endpoints.test", {"id": endpoint})
        (request,) = receiver.wait(1)
        assert request.json["type"] == "endpoint.test"
        for secret in (created["secret"], rotated["secret"]):
            Webhook(secret).verify(request.body, request.headers)
        last = call(system, uid, "endpoints.rotate", {"id": endpoint, "overlap_s": 0})
        call(system, uid, "endpoints.test", {"id": endpoint})
        request = receiver.wait(2)[1]
        Webhook(last["secret"]).verify(request.body, request.headers)
        for secret in (created["secret"], rotated["secret"]):
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(request.body, request.headers)


def test_an_erased_text_is_not_sent(system: TestSystem) -> None:
    uid = deploy(system)
    with WebhookReceiver(usual=Reply(500, b"xyzzy-plugh is not welcome")) as receiver:
        create(system, uid, receiver.url)
        guid = write(system, uid, "xyzzy-plugh")
        receiver.wait(1)
        call(system, uid, "records.erase", {"guids": [guid]})
        wait_for(
            lambda: b"xyzzy" not in system.store_file(uid, "endpoints").read_bytes(),
            "the answer is gone",
        )
        receiver.usual = Reply()
        (delivery, *_) = list_deliveries(system, uid, type="record.created")
        call(system, uid, "deliveries.redeliver", {"id": delivery["id"]})
        left = {"id": guid, "guid": guid, "store": f"instances/{uid}/notes", "erased": True}
        whole = {"type": "record.created", "timestamp": delivery["at"], "data": left}
        wait_for(
            lambda: (delivery["id"], whole) in [(one.id, one.json) for one in receiver.requests],
            "it is sent",
        )


@pytest.mark.parametrize(
    ("format_", "body"),
    [
        ("slack", {"text": "&lt;!channel&gt; a &amp; b"}),
        ("discord", {"content": "<!channel> a & b", "allowed_mentions": {"parse": []}}),
    ],
)
def test_chat_products_get_the_text_without_mentions(
    system: TestSystem, format_: str, body: dict[str, Any]
) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        create(system, uid, receiver.url, format=format_)
        write(system, uid, "<!channel> a & b")
        (request,) = receiver.wait(1)
        assert request.json == body


@pytest.mark.parametrize("format_", ["cloudevents", "cloudevents-binary"])
def test_cloudevents_are_signed_too(system: TestSystem, format_: str) -> None:
    uid = deploy(system)
    with WebhookReceiver() as receiver:
        created = create(system, uid, receiver.url, format=format_)
        guid = write(system, uid, "tea")
        (request,) = receiver.wait(1)
        Webhook(created["secret"]).verify(request.body, request.headers)
        event = from_http(request.headers, request.body)
        assert event["id"] == request.id
        assert (event["type"], event["subject"]) == ("memrelay.record.created", guid)
        assert event.data["content"] == "tea"


def test_a_secret_goes_only_to_its_hosts() -> None:
    with TestSystem() as system, WebhookReceiver() as receiver:
        secret = "whsec_" + "c2VjcmV0" * 4
        environment = {"SIGNING": secret, "OTHER": secret}
        rules = {"open_for": ["endpoints"]} | {
            "secrets": [("env:SIGNING", ["127.0.0.1"]), ("env:OTHER", ["example.com"])]
        }
        system.start_worker(outgoing=rules, environment=environment)
        uid = deploy(system)
        create(system, uid, receiver.url, secret="env:SIGNING")
        create(system, uid, receiver.url, secret="env:OTHER")
        write(system, uid, "tea")
        (request,) = receiver.wait(1)
        Webhook(secret).verify(request.body, request.headers)
        wait_for(
            lambda: any(
                "env:OTHER" in one["last_answer"]
                for one in call(system, uid, "endpoints.list")["items"]
            ),
            "the other secret is refused",
        )
