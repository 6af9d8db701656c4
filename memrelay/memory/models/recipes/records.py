"""Records of the home `recipes`: their key is unique within kind and scope (migration 0026)."""

from collections.abc import Iterator
from typing import Any

from memrelay.memory.engine.keyed_table import KeyedTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.models.recipes import (
    DOCUMENT_KIND,
    GRAPH_TEMPLATE_KIND,
    INSTANCE_KIND,
    NODE_KIND,
    RECIPE_KIND,
    RULE_ENGINE_KIND,
    VIEW_TEMPLATE_KIND,
)
from memrelay.memory.models.recipes.graph.table import GraphTable
from memrelay.memory.models.recipes.sources.event_table import EventTable
from memrelay.memory.models.recipes.sources.kv_table import KvTable

# SQLite uses the index only for a query with these comparisons.
BY_INDEX = " INDEXED BY recipe_keys WHERE r.kind >= 'recipe.' AND r.kind < 'recipe/'"


class RecipeRecords(KeyedTable):
    """Finds and writes the records of one kind inside the store's open transaction."""

    def __init__(self, store: Store, kind: str) -> None:
        super().__init__(store, kind, "recipe_keys")
        self._of_kind = f"{BY_INDEX} AND r.kind = '{kind}'"
        self._at_key = f"{self._of_kind} AND r.scope = ? AND r.key = ?"

    def page(self, scope: str, after: str, limit: int) -> Iterator[StoredRecord]:
        """Yield the records of a scope whose key is greater than `after`, in order of their key."""
        self._records.flush()
        clauses = f"{self._of_kind} AND r.scope = ? AND r.key > ? ORDER BY r.key LIMIT ?"
        return stored_records(self._connection, clauses, [scope, after, limit])

    def count(self, scope: str) -> int:
        """Return the number of records with a key in a scope."""
        self._records.flush()
        query = f"SELECT count(*) FROM records AS r{self._of_kind} AND r.scope = ?"
        return int(self._connection.execute(f"{query} AND r.key IS NOT NULL", (scope,)).get)


class DocumentRecords(RecipeRecords):
    """Finds and writes the chunks of documents.

    The chunks of a document share a thread. Only the first one has a key: the uri.
    """

    def chunks(self, thread: str) -> list[StoredRecord]:
        """Return the chunks of a document in order, none if it does not exist."""
        self._records.flush()
        clauses = f" WHERE r.thread = ? AND r.kind = '{DOCUMENT_KIND}' ORDER BY r.seq"
        return list(stored_records(self._connection, clauses, [thread]))

    def has_scope(self, scope: str) -> bool:
        """Return whether there is a chunk with that scope."""
        self._records.flush()
        query = f"SELECT EXISTS (SELECT 1 FROM records AS r{self._of_kind} AND r.scope = ?)"
        return bool(self._connection.execute(query, (scope,)).get)

    def any(self) -> bool:
        """Return whether there is a document."""
        self._records.flush()
        query = f"SELECT EXISTS (SELECT 1 FROM records AS r{self._of_kind})"
        return bool(self._connection.execute(query).get)

    def count_by_scope(self) -> list[tuple[str, int, int]]:
        """Return (scope, number of documents, number of chunks), in order of the scope."""
        self._records.flush()
        query = f"SELECT r.scope, count(r.key), count(*) FROM records AS r{self._of_kind}"
        return list(self._connection.execute(f"{query} GROUP BY r.scope ORDER BY r.scope"))


class RecipeTables(StoreTable):
    """The tables of the home `recipes`."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)

        def of_kind(kind: str) -> RecipeRecords:
            return RecipeRecords(store, kind)

        self.graph = GraphTable(store.connection, store.records)
        self.kv, self.events = KvTable(store.connection), EventTable(store.connection)
        self.definitions = of_kind(RECIPE_KIND)
        # Compiled definitions by guid, number and time of the change; recipes.compile fills it.
        self.compiled: dict[tuple[str, int, int], Any] = {}
        self.documents = DocumentRecords(store, DOCUMENT_KIND)
        self.instances = of_kind(INSTANCE_KIND)
        self.rule_engines = of_kind(RULE_ENGINE_KIND)
        self.nodes = of_kind(NODE_KIND)
        self.graph_templates = of_kind(GRAPH_TEMPLATE_KIND)
        self.view_templates = of_kind(VIEW_TEMPLATE_KIND)
        self._keyed = {
            table.kind: table
            for table in (
                self.definitions,
                self.documents,
                self.instances,
                self.rule_engines,
                self.nodes,
                self.graph_templates,
                self.view_templates,
            )
        }

    def reset(self) -> None:
        """Forget the compiled definitions: one that was rolled back may be written differently."""
        self.compiled.clear()

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of a record, None if it is free."""
        table = self._keyed.get(state.kind)
        return None if table is None else table.holder(state)


def has_documents(store: Store) -> bool:
    """Return whether a store has documents, which are searched by meaning."""
    return bool(store.table(RecipeTables).documents.any())
