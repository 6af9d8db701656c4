"""The entries that a tool call reads and changes, through the functions of the operations."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from memrelay.memory.engine.identity import Identity
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.shared_stores.access import Level, require
from memrelay.memory.models.shared_stores.grants import (
    RemoveGrant,
    SetGrant,
    delete_grant,
    put_grant,
)
from memrelay.memory.models.shared_stores.item import ItemView
from memrelay.memory.models.shared_stores.items import (
    DeleteItem,
    EditItem,
    EditResult,
    GetItem,
    ItemHit,
    ItemPage,
    ListItems,
    PutItem,
    RenameItem,
    SearchItems,
    delete_item,
    edit_item,
    get_item,
    list_items,
    rename_item,
    search_items,
    store_item,
)
from memrelay.memory.models.shared_stores.stores import ListStores, StorePage, list_stores
from memrelay.memory.models.shared_stores.table import ItemSize, ItemTable
from memrelay.memory.models.shared_stores.tool.arguments import Address
from memrelay.memory.operations import Context

Input = TypeVar("Input")
Output = TypeVar("Output")


class Entries:
    """The entries that one agent can use, in one transaction.

    All methods raise the errors of the operations that they call. An internal entry does not
    exist, except where a method states it.
    """

    def __init__(
        self, tx: Transaction, identity: Identity, context: Context, default_ttl_s: float = 0
    ) -> None:
        self._tx, self._context = tx, context
        # Seconds until a new entry expires, None for never.
        self.default_ttl_s = default_ttl_s or None
        self.agent = identity.agent
        self._identity: dict[str, Any] = {
            "agent": identity.agent,
            "user": identity.user,
            "chat": identity.chat,
            "vouched": identity.vouched,
        }

    def get(self, store: str, key: str, *, internal: bool = False) -> ItemView | None:
        """Return the entry of a key, None if there is none."""
        try:
            return self._call(get_item, GetItem, store=store, key=key, internal=internal)
        except RecordNotFound:
            return None

    def find(self, address: Address) -> ItemView | None:
        """Return the entry at an address: of its key, else of its short key."""
        entry = self.get(address.store, address.key)
        if entry is None and address.short_key:
            return self.get(address.store, address.short_key)
        return entry

    def choose_key(self, address: Address) -> str:
        """Return the key of a new entry: the short one, unless the whole key is in use."""
        if not address.short_key:
            return address.key
        used = self.get(address.store, address.key, internal=True) is not None
        return address.key if used else address.short_key

    def put(self, store: str, key: str, value: Any, ttl_s: float | None = None) -> None:
        """Write the agent's own entry."""
        self._call(store_item, PutItem, store=store, key=key, value=value, ttl_s=ttl_s)

    def edit(self, view: ItemView, old: str, new: str) -> EditResult:
        """Replace the only occurrence of a text in an entry."""
        texts = {"old_str": old, "new_str": new}
        return self._call(edit_item, EditItem, store=view.store, key=view.key, **texts)

    def rename(self, store: str, key: str, *, to_store: str, to_key: str) -> None:
        """Move the agent's own entry."""
        rename = partial(rename_item, internal=False)
        self._call(rename, RenameItem, store=store, key=key, to_store=to_store, to_key=to_key)

    def delete(self, store: str, key: str) -> bool:
        """Delete the agent's own entry, and return whether there was one."""
        delete = partial(delete_item, internal=False)
        return self._call(delete, DeleteItem, store=store, key=key).deleted

    def page(
        self,
        store: str,
        prefix: str,
        *,
        namespace: str | None = "",
        limit: int = 100,
        cursor: str = "",
    ) -> ItemPage:
        """Return entries by key. `namespace` None stands for all."""
        listed = {"store": store, "namespace": namespace, "prefix": prefix}
        return self._call(list_items, ListItems, **listed, limit=limit, cursor=cursor)

    def sizes(self, store: str, prefix: str) -> Iterator[ItemSize]:
        """Return the sizes of all entries with a prefix, by key and owner."""
        require(self._tx, Identity(**self._identity), store, Level.READ)
        return self._tx.table(ItemTable).sizes(store, prefix)

    def search(self, query: str, stores: tuple[str, ...], limit: int) -> tuple[ItemHit, ...]:
        """Return the entries that match a query, best first."""
        return self._call(search_items, SearchItems, query=query, stores=stores, limit=limit).items

    def stores(self, cursor: str, limit: int = 100) -> StorePage:
        """Return a page of the stores that the agent can use."""
        return self._call(list_stores, ListStores, cursor=cursor, limit=limit)

    def share(self, store: str, grantee: str, level: Any, ttl_s: float | None) -> bool:
        """Give another agent access to a store. Returns whether it had more before."""
        access = {"level": level, "ttl_s": ttl_s}
        return self._call(put_grant, SetGrant, store=store, grantee=grantee, **access).lowers

    def unshare(self, store: str, grantee: str) -> None:
        """End the access of another agent to a store."""
        self._call(delete_grant, RemoveGrant, store=store, grantee=grantee)

    def _call(
        self,
        run: Callable[[Transaction, Input, Context], Output],
        make_input: Callable[..., Input],
        **fields: Any,
    ) -> Output:
        """Run an operation as the agent."""
        return run(self._tx, make_input(**self._identity, **fields), self._context)
