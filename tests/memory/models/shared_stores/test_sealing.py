"""Sealed values: what they are bound to, which keys open them, and what an interface does."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from memrelay.memory.errors import Refused, SealBroken, SealKeyMissing, ValueTooLarge
from memrelay.memory.models.shared_stores.sealing import MAX_VALUE_BYTES, Sealer, parse_key
from memrelay.memory.models.shared_stores.seals import ItemSealKeys, SealAddress, is_sealed

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
PLACE = SealAddress("p1", "s1", "a1", "", "token")


class Texts:
    """A resolver of references with fixed values."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)

    async def resolve(self, reference: str) -> str:
        """Return the value. Raises LookupError."""
        return self.values[reference]


def make_keys(*keys: bytes) -> ItemSealKeys:
    texts = {f"env:K{at}": key.hex() for at, key in enumerate(keys)}
    return ItemSealKeys(tuple(texts), Texts(texts))


def seal(keys: ItemSealKeys, idempotency_key: str = "", **fields: Any) -> dict[str, Any]:
    given = {"agent": "a1", "store": "s1", "key": "token", "value": "secret", "in_context": False}
    data = orjson.dumps(given | fields)
    sealed: dict[str, Any] = orjson.loads(
        asyncio.run(keys.seal_input("p1", "items.put", data, idempotency_key))
    )
    return sealed


def view(value: Any, **fields: Any) -> dict[str, Any]:
    entry = {"store": "s1", "owner": "a1", "namespace": "", "key": "token", "value": value}
    return entry | {"in_context": False, "encrypted": False} | fields


def opened(keys: ItemSealKeys, value: Any, **fields: Any) -> Any:
    return asyncio.run(keys.open_output("p1", "items.get", view(value, **fields)))["value"]


@pytest.mark.parametrize("value", ["", "é\x00", "v1.x", None, False, 0, [1, {"x": None}], "a" * 9])
def test_any_value_opens_again(value: Any) -> None:
    keys = make_keys(NEW)
    sealed = seal(keys, value=value)["value"]

    assert is_sealed(sealed)
    assert opened(keys, sealed) == value


def test_only_internal_values_that_the_client_did_not_encrypt_are_sealed() -> None:
    keys = make_keys(NEW)

    assert seal(keys, in_context=None)["value"] == "secret"
    assert seal(keys, in_context=True)["value"] == "secret"
    assert seal(keys, encrypted=True)["value"] == "secret"
    assert seal(ItemSealKeys())["value"] == "secret"
    # An unsealed or encrypted value is returned as it is.
    assert opened(keys, "secret") == "secret"
    sealed = seal(keys)["value"]
    assert opened(keys, sealed, encrypted=True) == sealed


@pytest.mark.parametrize("field", SealAddress._fields)
def test_a_value_opens_only_at_its_place(field: str) -> None:
    sealer = Sealer([NEW])
    text = sealer.seal("secret", PLACE)

    with pytest.raises(SealBroken, match="does not open"):
        sealer.open(text, PLACE._replace(**{field: "other"}))


def test_a_changed_text_does_not_open() -> None:
    keys = make_keys(NEW)
    sealed = seal(keys)["value"]
    for changed in (sealed[:-1] + ("A" if sealed[-1] != "A" else "Q"), sealed[:-4]):
        with pytest.raises(SealBroken, match="'token' does not open"):
            opened(keys, changed)


def test_the_first_key_seals_and_all_open() -> None:
    old = seal(make_keys(OLD))["value"]
    new = seal(make_keys(NEW, OLD))["value"]

    assert opened(make_keys(NEW, OLD), old) == "secret"
    assert opened(make_keys(NEW), new) == "secret"
    with pytest.raises(SealKeyMissing, match=r"'token' is sealed with the key [0-9a-f]{16}, which"):
        opened(make_keys(NEW), old)
    with pytest.raises(SealKeyMissing, match=r"memory\.seal_keys is empty"):
        opened(ItemSealKeys(), old)


def test_a_key_that_cannot_be_read_seals_nothing() -> None:
    for texts in ({}, {"env:K": "short"}):
        with pytest.raises(SealKeyMissing, match="`memrelay doctor`"):
            seal(ItemSealKeys(["env:K"], Texts(texts)))


def test_a_retry_with_an_idempotency_key_gives_the_same_text() -> None:
    keys = make_keys(NEW)

    assert seal(keys, "id1") == seal(keys, "id1")
    different = [seal(keys, "id2"), seal(keys, "id1", value="other"), seal(keys, "id1", key="k")]
    texts = [one["value"] for one in (seal(keys, "id1"), *different, seal(keys), seal(keys))]
    assert len({text.split(".")[2] for text in texts}) == len(texts)


def test_a_value_of_44_kib_is_the_largest() -> None:
    keys = make_keys(NEW)

    assert len(seal(keys, value="x" * MAX_VALUE_BYTES)["value"]) < 64 << 10
    with pytest.raises(ValueTooLarge, match="at most 45056"):
        seal(keys, value="x" * (MAX_VALUE_BYTES + 1))


def test_a_key_is_hexadecimal_or_base64() -> None:
    assert parse_key(f"{NEW.hex()}\n") == NEW
    assert parse_key(base64.b64encode(NEW).decode()) == NEW
    for text in ("", "x" * 32, "00" * 31, "é" * 64, base64.b64encode(NEW[1:]).decode()):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            parse_key(text)


def test_an_import_refuses_values_that_were_sealed_for_another_pipeline() -> None:
    keys = make_keys(NEW)
    stored = orjson.dumps({"value": seal(keys)["value"]}).decode()
    record = {"guid": "g", "scope": "s1", "kind": "store.item", "key": "token", "owner": "a1"}
    line = orjson.dumps({"record": record | {"data": stored}}).decode()
    lines = [line, '{"version": {}}', "store.item", '["store.item"]']
    data = orjson.dumps({"lines": lines})

    assert asyncio.run(keys.seal_input("p1", "records.import", data)) == data
    with pytest.raises(Refused, match="'token' in store 's1' was sealed for another pipeline"):
        asyncio.run(keys.seal_input("p2", "records.import", data))
    with pytest.raises(SealKeyMissing):
        asyncio.run(ItemSealKeys().seal_input("p1", "records.import", data))


def test_an_import_seals_internal_values_like_a_put() -> None:
    keys = make_keys(NEW)
    entry = {"guid": "g", "kind": "store.item", "key": "token", "owner": "a1"}
    internal = entry | {"scope": "chat:${pipeline_uid}/x", "data": '{"namespace":"n","value":[1]}'}
    visible = entry | {"scope": "s1", "in_context": 1, "content": "tea"}
    encrypted = entry | {"scope": "s1", "encrypted": 1, "data": '{"value":"mine"}'}
    lines = [
        {"record": internal},
        {"version": internal},
        {"record": visible},
        {"record": encrypted},
    ]
    data = orjson.dumps({"lines": [orjson.dumps(one).decode() for one in lines], "replace": False})

    sealed = asyncio.run(keys.seal_input("p1", "records.import", data))

    assert sealed == asyncio.run(keys.seal_input("p1", "records.import", data))
    assert sealed == asyncio.run(keys.seal_input("p1", "records.import", sealed))
    read = [orjson.loads(line) for line in orjson.loads(sealed)["lines"]]
    assert read[2:] == lines[2:]
    for line in (read[0]["record"], read[1]["version"]):
        stored = orjson.loads(line["data"])
        place = {"store": "chat:p1/x", "namespace": "n"}
        assert list(stored) == ["namespace", "value"] and is_sealed(stored["value"])
        assert opened(keys, stored["value"], **place) == [1]
    with pytest.raises(ValueTooLarge, match="'token' in store 's1': the value has"):
        huge = entry | {"scope": "s1", "data": orjson.dumps({"value": "x" * 50_000}).decode()}
        line = orjson.dumps({"record": huge}).decode()
        asyncio.run(keys.seal_input("p1", "records.import", orjson.dumps({"lines": [line]})))
