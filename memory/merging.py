"""What is merged of a store's indexes beside its batches: each step is a short transaction of its
own, under the fence."""

from memory.sqlite.store import Store


def merge_some(store: Store) -> bool:
    """Merges some pages of what is worth it; whether there is more to do."""
    index = store.segments.to_merge()
    if not index:
        return False
    with store.transaction() as tx:
        merged = tx.segments.merge(index)
    return merged or store.segments.to_merge() not in ("", index)
