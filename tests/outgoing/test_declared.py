"""Endpoints that a bundle declares: its faults, and what a deploy changes."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from memrelay.bus.errors import NoOwner
from memrelay.guarded_http.rules import OutgoingRules, SecretBinding
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.table import NO_LONGER_DECLARED, EndpointTable, Secret
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.auth.authorizer import Caller
from memrelay.web.server.errors import NotAllowed
from memrelay.worker.endpoints.declared import synchronize
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.calls import call, refused
from tests.support.run_worker import deploy
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import WebhookReceiver

NOTES = "instances/${pipeline_uid}/notes"
SIGNING = "whsec_" + "c2VjcmV0" * 4
WORKER: dict[str, Any] = {
    "outgoing": {"open_for": ["endpoints"], "secrets": [("env:SIGNING", ["127.0.0.1"])]},
    "environment": {"SIGNING": SIGNING},
}
LARGE = {name: f"{name}{{{{ type }}}}{'x' * 9_000}" for name in "abcd"}
HOOK = "https://example.com/hook"


def make_declaring(uid: str, *endpoints: dict[str, Any]) -> dict[str, Any]:
    return make_bundle(uid, *make_commands(NOTES), endpoints=list(endpoints))


@pytest.mark.parametrize(
    ("fields", "place", "rule"),
    [
        ({"url": "ftp://example.com"}, "url", "the url is https://HOST/PATH"),
        ({"url": "https://ann:tea@example.com"}, "url", "the url has a user or a password"),
        ({"url": None}, "url", "an endpoint needs a URL"),
        ({"events": ["record.creatd"]}, "events/0", "matches no type of events"),
        ({"headers": {"Host": "x"}}, "headers", "is set by the delivery itself"),
        ({"filter": {"no": {"eq": 1}}}, "filter/no", "unknown field"),
        ({"format": "xml"}, "format", "must be 'standard'"),
        ({"template": {"text": "{{ data. }}"}}, "template", "expected name"),
        (
            {"template": {str(n): "{{ type }}" + "x" * 9_000 + str(n) for n in range(4)}},
            "template",
            "together",
        ),
        ({"template": {"text": "x"}, "format": "slack"}, "format", "a body of its own"),
        ({"rate": -1}, "rate", "must be greater than or equal to 0"),
        ({"secret": SIGNING}, "secret", "a bundle must not contain a secret"),
        ({"secret": ["env:A", "env:B", "env:C"]}, "secret", "at most 2 secrets"),
        ({"secret": "env:OTHER"}, "secret", "may not be sent to example.com"),
        ({"url": "env:OTHER"}, "url", "may not be sent anywhere"),
        ({"name": "a b"}, "name", "a name has 1 to 50 letters"),
        ({"name": "ep_crm"}, "name", "does not begin with"),
        ({"name": None}, "name", "a name has 1 to 50 letters"),
        ({"name": "crm"}, "name", "endpoints[0] already has the name"),
        ({"filtr": {}}, "filtr", "unknown key"),
    ],
)
def test_a_deploy_reports_faults(fields: dict[str, Any], place: str, rule: str) -> None:
    second = {"name": "second", "url": HOOK} | fields
    secrets = SecretResolver(Path("/nowhere"), {"OTHER": SIGNING})
    checked = check(make_declaring("u1", {"name": "crm", "url": HOOK}, second), secrets=secrets)
    (fault,) = checked.faults
    assert (fault.pointer, rule in fault.rule) == (f"/endpoints/1/{place}", True), fault


def test_a_limited_key_may_not_name_any_secret() -> None:
    rules = OutgoingRules(secrets=(SecretBinding("env:SIGNING", frozenset({"example.com"})),))
    secrets = SecretResolver(Path("/nowhere"), {"SIGNING": SIGNING}, outgoing=rules)
    endpoint = {"name": "crm", "url": HOOK, "secret": "env:SIGNING"}
    bundle = check(make_declaring("u1", endpoint), secrets=secrets).accepted()
    Caller(frozenset({"deploy"}), frozenset({"*"})).check_bundle(bundle, secrets)
    with pytest.raises(NotAllowed, match="endpoint crm: the key is limited"):
        Caller(frozenset({"deploy"}), frozenset({"u1"})).check_bundle(bundle, secrets)


def make_plan(*endpoints: dict[str, Any]) -> Plan:
    return Plan(check(make_declaring("u1", *endpoints)).accepted())


def test_only_a_new_or_changed_declaration_is_written(tmp_path: Path) -> None:
    stores = OpenStores(tmp_path, 10)
    name = "instances/u1/endpoints"
    plain = {"name": "plain", "url": HOOK}
    full = plain | {
        **{"name": "full", "secret": ["env:NEW", "env:OLD"], "events": ["record.*"], "rate": 5},
        **{"filter": {"or": [{"seq": {"gt": 1.5}}]}, "headers": {"X-A": "b"}, "ordered": True},
        **{"format": "slack", "description": "Müller"},
    }
    synchronize(stores, make_plan(plain, full), 1000)
    connection, table = stores.get(name).connection, stores.get(name).table(EndpointTable)
    before, made = table.all(), connection.total_changes()
    assert [(one.id, one.created_at) for one in before] == [("full", 1000), ("plain", 1000)]
    assert before[0].secrets == (Secret("env:NEW"), Secret("env:OLD"))
    assert before[1].secrets[0].value.startswith("whsec_")

    synchronize(stores, make_plan(full, plain), 2000)
    assert (table.all(), connection.total_changes()) == (before, made)

    synchronize(stores, make_plan(full, plain | {"rate": 1}), 3000)
    (same, changed) = table.all()
    assert (same, changed.spec.rate, changed.updated_at) == (before[0], 1, 3000)
    assert (changed.created_at, changed.secrets) == (1000, before[1].secrets)

    synchronize(stores, make_plan(), 4000)
    off, made = table.all(), connection.total_changes()
    assert [one.disabled for one in off] == [NO_LONGER_DECLARED] * 2
    synchronize(stores, make_plan(), 5000)
    assert (table.all(), connection.total_changes()) == (off, made)
    stores.close_all()


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(**WORKER)
        yield system


def write(system: TestSystem, uid: str, text: str) -> None:
    call(system, uid, "records.create", {"content": text})


def await_endpoint(system: TestSystem, uid: str, **fields: Any) -> dict[str, Any]:
    """Return the only endpoint when it has these values."""
    found: list[dict[str, Any]] = []

    def has_values() -> bool:
        with suppress(NoOwner):  # while the pipeline is deployed
            found[:] = call(system, uid, "endpoints.list")["items"]
        return [{name: one[name] for name in fields} for one in found] == [fields]

    wait_for(has_values, f"the endpoint has {fields}")
    return found[0]


def await_contents(receiver: WebhookReceiver, *wanted: str) -> None:
    """Wait for events with these contents, in any order. A deploy may interrupt a request, which is
    then made again under its id.
    """

    def has_all() -> bool:
        found = {one.id: one.json["data"]["content"] for one in receiver.requests}
        return sorted(found.values()) == sorted(wanted)

    wait_for(has_all, f"{wanted} arrive")


def test_a_deploy_declares_changes_and_ends_an_endpoint(system: TestSystem) -> None:
    uid = make_uid()
    with WebhookReceiver() as receiver:
        declared = {
            "name": "crm",
            "url": receiver.url,
            "events": ["record.*"],
            "secret": "env:SIGNING",
        }
        system.deploy(make_declaring(uid, declared))
        write(system, uid, "first")
        (request,) = receiver.wait(1)
        Webhook(SIGNING).verify(request.body, request.headers)
        assert request.json["data"]["content"] == "first"
        assert await_endpoint(system, uid, id="crm", active=True)["declared"]

        filtered = {"headers": {"X-Team": "a"}, "filter": {"content": {"contains": "urgent"}}}
        system.deploy(make_declaring(uid, declared | filtered))
        await_endpoint(system, uid, headers={"X-Team": "…"})
        write(system, uid, "quiet")
        write(system, uid, "urgent")
        await_contents(receiver, "first", "urgent")

        system.deploy(make_declaring(uid))
        ended = {"active": False, "disabled": "no longer declared in the bundle"}
        assert not await_endpoint(system, uid, id="crm", **ended)["declared"]
        write(system, uid, "urgent, but unheard")
        assert "no longer" in refused(system, uid, "endpoints.enable", {"id": "crm"})[1]

        system.deploy(make_declaring(uid, declared))
        await_endpoint(system, uid, active=True, declared=True)
        write(system, uid, "heard again")
        await_contents(receiver, "first", "urgent", "heard again")
        system.deploy(make_declaring(uid))
        await_endpoint(system, uid, active=False)
        assert len(call(system, uid, "deliveries.list")["items"]) == 3
        call(system, uid, "endpoints.delete", {"id": "crm"})
        assert call(system, uid, "endpoints.list")["items"] == []


def test_messages_before_the_first_and_after_a_second_start_are_sent(system: TestSystem) -> None:
    uid = make_uid()
    with WebhookReceiver() as receiver:
        bundle = make_declaring(uid, {"name": "crm", "url": receiver.url, "events": ["record.*"]})
        asyncio.run(deploy(system.root, bundle))
        system.client.enter_together(uid, [f"/write note {number}" for number in range(3)])
        system.announce()
        sent = {one.json["data"]["content"] for one in receiver.wait(3)}
        assert sent == {"note 0", "note 1", "note 2"}

        before = await_endpoint(system, uid, delivered=3)
        system.workers[-1].stop()
        system.start_worker(**WORKER)
        write(system, uid, "after a restart")
        assert receiver.wait(4)[3].json["data"]["content"] == "after a restart"
        after = await_endpoint(system, uid, delivered=4)
        assert after["updated_at"] == before["updated_at"]


def test_only_a_deploy_changes_a_declared_endpoint(system: TestSystem) -> None:
    uid = make_uid()
    with WebhookReceiver() as receiver:
        system.deploy(
            make_declaring(uid, {"name": "crm", "url": receiver.url, "events": ["record.*"]})
        )
        await_endpoint(system, uid, id="crm")
        changes: dict[str, Any] = {"update": {"rate": 1}, "delete": {}}
        changes["rotate"] = {"secret": SIGNING}
        for name, fields in changes.items():
            _, error = refused(system, uid, f"endpoints.{name}", {"id": "crm", **fields})
            assert "declared in the bundle; change it there" in error
        secret = call(system, uid, "endpoints.rotate", {"id": "crm"})["secret"]
        call(system, uid, "endpoints.test", {"id": "crm"})
        (request,) = receiver.wait(1)
        Webhook(secret).verify(request.body, request.headers)
        call(system, uid, "endpoints.enable", {"id": "crm"})
