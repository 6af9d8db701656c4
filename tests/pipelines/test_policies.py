"""The policies that a bundle declares: their faults, and what a worker makes of them."""

from pathlib import Path
from typing import Any

from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.pipelines.check import Checked, check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.inputs import Entry
from memrelay.worker.run.store_features import compose_stores, open_declared
from tests.support.bundles import make_bundle, make_memory, make_relay
from tests.worker.test_batch import make_batch

STORE, OTHER = "instances/p/memories", "instances/p/other"
CARD = "4012 8888 8888 1881"
SECRETS = {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"}
CARDS = {"name": "cards", "match": {"find": "credit_card"}, "action": "refuse"}


def check_with(*policies: Any, stores: tuple[str, ...] = (STORE,), at: str = STORE) -> Checked:
    relay = make_relay("write", "^/write (.+)")
    blocks = [
        make_memory("write", memory_id=name, alias=f"w{number}")
        for number, name in enumerate(stores)
    ]
    declared = [{"memory_id": at, "policies": list(policies)}] if policies else []
    return check(make_bundle("p", relay, *blocks, stores=declared))


def list_store_warnings(checked: Checked) -> list[str]:
    return [one.rule for one in checked.warnings if one.pointer.startswith("/stores")]


def test_all_faults_of_policies_are_reported_at_once() -> None:
    pattern = {"name": "own", "match": {"find": {"pattern": "(tea"}}, "action": "redact"}
    unknown = {"name": "set", "match": {"find": "sekrets"}, "action": "refuze"}
    checked = check_with(CARDS, pattern, unknown, {"name": "f", "match": {}, "action": "redact"})
    assert [fault.pointer for fault in checked.faults] == [
        "/stores/0/policies/1/match/find",
        "/stores/0/policies/2/action",
        "/stores/0/policies/2/match/find",
        "/stores/0/policies/3/action",
    ]


def test_a_name_is_used_once_in_a_store() -> None:
    (fault,) = check_with(CARDS, CARDS).faults
    assert fault.pointer == "/stores/0/policies/1/name"


def test_a_store_that_keeps_what_another_one_hides_is_a_warning() -> None:
    assert list_store_warnings(check_with(CARDS)) == []
    (warning,) = list_store_warnings(check_with(CARDS, stores=(STORE, OTHER)))
    assert OTHER in warning


def test_a_built_in_store_may_have_policies() -> None:
    checked = check_with({"name": "a", "match": {}, "action": "drop"}, at="instances/p/stores")
    assert (checked.faults, list_store_warnings(checked)) == ((), [])


def make_plan(*policies: Any) -> Plan:
    checked = check_with(*policies)
    assert checked.bundle is not None, checked
    return Plan(checked.bundle)


def test_the_file_has_the_policies_of_the_bundle_in_service(tmp_path: Path) -> None:
    def list_policies(*policies: Any) -> list[Any]:
        stores = OpenStores(tmp_path, 10)
        plan = make_plan(*policies)
        compose_stores([plan], stores)
        open_declared([plan], stores)
        stores.get(STORE)
        stores.close_all()
        store = Store(STORE, tmp_path / f"{STORE}.db")
        found = store.table(PolicyTable).declared_by("p")
        assert store.has_feature("policies") == bool(found)
        store.close()
        return found

    assert list_policies(CARDS, SECRETS) == [CARDS, SECRETS]
    assert list_policies(SECRETS) == [SECRETS]
    assert list_policies() == []


def test_a_block_cannot_write_what_a_policy_refuses(tmp_path: Path) -> None:
    drop = {"name": "nonsense", "match": {"find": {"pattern": "blah"}}, "action": "drop"}
    stores, plan = OpenStores(tmp_path, 10), make_plan(CARDS, drop)
    compose_stores([plan], stores)

    def run(number: int, text: str) -> str:
        data = encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))
        entry = Entry(f"1700000000000-{number}", plan, [b"swarm", b"chat", b"data", data])
        (outcome,) = make_batch(entry).run(stores).outcomes
        return b" ".join(message for _, message in outcome.messages).decode()

    assert "'cards'" in run(1, f"/write pay with {CARD}") and CARD not in run(2, f"/write {CARD}")
    assert '{"dropped":"nonsense"}' in run(3, "/write blah").replace("\\", "")
    run(4, "/write tea")
    store = stores.get(STORE)
    rows = store.connection.execute("SELECT content FROM records")
    assert [content for (content,) in rows] == ["tea"]
    assert store.table(PolicyTable).counts() == [
        ("cards", "refuse", 2, 1_700_000_000_000),
        ("nonsense", "drop", 1, 1_700_000_000_000),
    ]
    stores.close_all()
