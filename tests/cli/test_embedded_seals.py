"""Sealed values of an embedded store: with the keys they work, without they are refused."""

import asyncio
from pathlib import Path

import orjson
import pytest

from memrelay import open_store
from memrelay.memory.errors import Refused, SealBroken, SealKeyMissing
from memrelay.memory.models.shared_stores.seals import ItemSealKeys
from tests.memory.models.shared_stores.test_sealing import Texts

KEY, OTHER = bytes(range(32)).hex(), bytes(range(1, 33)).hex()
SECRET = "plaintext-canary"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "owner.lock").touch()
    return tmp_path / "instances" / "p1" / "stores.db"


def fill(file: Path) -> None:
    with open_store(file, seal_keys=[KEY]) as store:
        store.items.put("a1", "token", [SECRET], agent="a1", in_context=False)
        assert store.items.get("a1", "token", agent="a1", internal=True).value == [SECRET]
        store.items.put("a1", "drink", "tea", agent="a1")


def test_an_internal_value_is_sealed_as_an_interface_seals_it(file: Path) -> None:
    fill(file)

    assert not [one for one in file.parent.iterdir() if SECRET.encode() in one.read_bytes()]
    with open_store(file, seal_keys=[OTHER, KEY]) as store:
        assert store.items.get("a1", "token", agent="a1", internal=True).value == [SECRET]
    with open_store(file, seal_keys=[OTHER]) as store, pytest.raises(SealKeyMissing):
        store.items.get("a1", "token", agent="a1", internal=True)


def test_a_value_of_the_web_server_opens_with_its_key_in_its_pipeline_only(file: Path) -> None:
    keys = ItemSealKeys(["env:K"], Texts({"env:K": KEY}))
    given = {"agent": "a1", "store": "a1", "key": "k", "value": 7, "in_context": False}
    sealed = orjson.loads(asyncio.run(keys.seal_input("p1", "items.put", orjson.dumps(given))))
    with open_store(file) as store:
        store.items.put("a1", "k", sealed["value"], agent="a1", in_context=False)
        with pytest.raises(SealKeyMissing, match="'k' is sealed; pass the keys"):
            store.items.get("a1", "k", agent="a1", internal=True)

    with open_store(file, seal_keys=[KEY]) as store:
        assert store.items.get("a1", "k", agent="a1", internal=True).value == 7
    elsewhere = file.parent.parent / "p2" / "stores.db"
    elsewhere.parent.mkdir()
    file.rename(elsewhere)
    with open_store(elsewhere, seal_keys=[KEY]) as store, pytest.raises(SealBroken):
        store.items.get("a1", "k", agent="a1", internal=True)


def test_without_a_key_an_internal_value_is_not_stored_beside_sealed_ones(file: Path) -> None:
    with open_store(file) as store:
        store.items.put("a2", "plain", 1, agent="a2", in_context=False)
    fill(file)

    with open_store(file) as store:
        with pytest.raises(Refused, match=r"has sealed values.*seal_keys="):
            store.items.put("a2", "other", SECRET, agent="a2", in_context=False)
        store.items.put("a2", "mine", "x", agent="a2", in_context=False, encrypted=True)
        store.items.put("a2", "visible", "x", agent="a2")
        assert store.items.get("a2", "plain", agent="a2", internal=True).value == 1


def test_a_malformed_key_is_refused(file: Path) -> None:
    with (
        pytest.raises(Refused, match="`seal_keys`: a seal key must have 64 hexadecimal"),
        open_store(file, seal_keys=["short"]),
    ):
        pass
