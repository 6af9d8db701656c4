"""What a group does to its stores beside batches. Each runs in the database thread, in transactions
of its own."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import structlog

from memrelay.memory.errors import StoreBroken, StoreDamaged
from memrelay.memory.sqlite.connection import translated
from memrelay.memory.sqlite.inbox import Pending
from memrelay.memory.sqlite.store import Store
from memrelay.memory.stores import OpenStores
from memrelay.worker.run.inputs import place_of_id

log = structlog.stdlib.get_logger(__name__)
Result = TypeVar("Result")


def take_over(stores: OpenStores, names: Sequence[str], epoch: int) -> None:
    """Fences every earlier owner of these stores. Raises StoreFenced where a later one was
    there."""
    for name in names:
        stores.take_over(name, epoch)


def take_over_former(stores: OpenStores, names: Sequence[str], epoch: int) -> tuple[str, ...]:
    """The same for stores that only earlier versions worked on. Returns those that can be used;
    nobody needs the others."""
    found = []
    for name in names:
        try:
            stores.take_over(name, epoch)
        except StoreBroken as error:
            log.warning("former_store_left_out", memory_id=name, reason=str(error))
            continue
        found.append(name)
    return tuple(found)


def stores_below(stores: OpenStores, uids: Iterable[str]) -> list[str]:
    """The stores that these pipelines ever had of their own."""
    return [name for uid in uids for name in stores.below(f"instances/{uid}")]


def kept_continuations(
    stores: OpenStores, names: Sequence[str], uids: Collection[str]
) -> list[tuple[Pending, str]]:
    """(continuation, its store): every one that these stores still have to run for these
    pipelines."""
    return [
        (pending, name)
        for name in _existing(stores, names)
        for pending in stores.get(name).pending.all()
        if pending.pipeline in uids
    ]


def with_store(stores: OpenStores, name: str, work: Callable[[Store], Result]) -> Result:
    """What `work` comes to on a store. Raises StoreBusy or StoreBroken."""
    with translated(name):
        return work(stores.get(name))


def if_there(
    stores: OpenStores, name: str, work: Callable[[Store], Result], absent: Result
) -> Result:
    """The same, or `absent` where nothing was written to the store yet: it is not made for this."""
    return with_store(stores, name, work) if stores.exists(name) else absent


def guarded(
    stores: OpenStores, work: Callable[[OpenStores], Result], names: Sequence[str]
) -> Result:
    """Runs `work` on these stores. One that turns out to be damaged is closed as it is, with a
    note, before that is raised."""
    try:
        with translated("a store"):
            return work(stores)
    except StoreDamaged as damaged:
        if damaged.noted:  # it was one that could not even be opened
            raise
        raise (
            stores.give_up_damaged(names, str(damaged.__cause__ or damaged)) or damaged
        ) from damaged
    except UnicodeDecodeError as error:  # a text that is none any more
        raise stores.give_up_damaged(names, str(error)) or StoreDamaged(str(error)) from error


def forget_continuations(stores: OpenStores, name: str, keys: Sequence[str]) -> None:
    """What these led to is committed and on the bus."""
    with stores.get(name).transaction() as store:
        store.pending.remove(keys)


def end_recovery(stores: OpenStores, names: Sequence[str]) -> dict[str, list[str]]:
    """Nothing is in flight any more: attempts are over. Returns, per store, the inputs in its
    inbox, which cannot come back.

    A continuation that some store still keeps can.
    """
    existing = _existing(stores, names)
    still = {pending.id for name in existing for pending in stores.get(name).pending.all()}
    for name in existing:
        with stores.get(name).transaction() as store:
            store.inbox.clear_attempts()
    return {
        name: [key for key in stores.get(name).inbox.numbers if key not in still]
        for name in existing
    }


def last_entries(stores: OpenStores, names: Sequence[str]) -> dict[str, str]:
    """By pipeline, the last id of an entry that the inboxes of these stores know."""
    last: dict[str, tuple[int, int]] = {}
    for name in _existing(stores, names):
        for key in stores.get(name).inbox.numbers:
            uid, _, ident = key.partition("/")
            place = place_of_id(ident)
            last[uid] = max(place, last.get(uid, place))
    return {uid: f"{ms}-{number}" for uid, (ms, number) in last.items()}


def move_ids(stores: OpenStores, uid: str, before: str, now: str, first: str) -> bool:
    """Some of what is known by ids of a pipeline's producers, from the `first` on, goes to the
    store that it works on now.

    Whether there was any. A crash between the two commits leaves it in both; then it moves once
    more, to the same end.
    """
    kept = stores.get(before).inbox.produced_in(uid, first) if stores.exists(before) else []
    if not kept:
        return False
    with stores.get(now).transaction() as store:
        for known in kept:
            store.inbox.add_produced(*known)
    with stores.get(before).transaction() as store:
        store.inbox.forget_produced([ident for ident, _, _ in kept])
    return True


def close_stores(stores: OpenStores, names: Sequence[str]) -> None:
    """Checkpoints and closes; the stores may belong to another thread from now on."""
    for name in names:
        stores.close(name)


def _existing(stores: OpenStores, names: Sequence[str]) -> list[str]:
    return [name for name in names if stores.exists(name)]
