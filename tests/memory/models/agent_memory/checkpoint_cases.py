"""Checkpoints as the operations take them."""

from base64 import b64decode, b64encode
from typing import Any

from memrelay.memory.engine.store import Store
from memrelay.memory.models.agent_memory.checkpoint_table import pack, unpack
from tests.memory.builders import perform


def to_data(*values: bytes) -> str:
    return b64encode(b"".join(map(pack, values))).decode()


def put(
    store: Store,
    ident: str,
    parts: list[bytes] | None = None,
    *,
    runs: list[list[int]] | None = None,
    **given: Any,
) -> Any:
    """Store a checkpoint with a list of messages. `runs` are parts of the base."""
    new = parts or []
    found = [*(runs or []), *([len(pack(part))] for part in new)]
    count = sum(run[1] if len(run) == 2 else 1 for run in found)
    channels = [{"name": "messages", "type": "msgpack", "items": count}]
    values = {"thread": "t", "channels": channels} | given
    with store.transaction() as tx:
        return perform(
            tx,
            "checkpoints.put",
            id=ident,
            size=len(pack(ident.encode())),
            parts=found,
            data=to_data(ident.encode(), *new),
            **values,
        )


def write(store: Store, ident: str, *writes: tuple[int, str, bytes], **given: Any) -> Any:
    """Store writes, each (idx, channel, value)."""
    with store.transaction() as tx:
        return perform(
            tx,
            "checkpoints.write",
            id=ident,
            **{"thread": "t", "task": "k"} | given,
            writes=[
                {"idx": idx, "channel": channel, "type": "bytes", "size": len(pack(value))}
                for idx, channel, value in writes
            ],
            data=to_data(*(value for *_, value in writes)),
        )


def call(store: Store, name: str, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def get(store: Store, ident: str = "latest", **given: Any) -> Any:
    return call(store, "checkpoints.get", **{"id": ident, "thread": "t"} | given)


def values_of(found: Any) -> list[bytes]:
    """Return the checkpoint, its parts, and the values of its writes."""
    data, at, values = b64decode(found.data), 0, []
    for size in (*found.sizes, *(one.size for one in found.writes)):
        values.append(unpack(data[at : at + size]))
        at += size
    assert at == len(data) == found.total
    return values


def ids(store: Store, **given: Any) -> list[str]:
    return [one.id for one in call(store, "checkpoints.list", **given).items]


def count_rows(store: Store, table: str) -> int:
    found: int = store._connection.execute(f"SELECT count(*) FROM {table}").get
    return found
