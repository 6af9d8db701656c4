"""Kinds of objects with an id: recipes, rule engines, graph templates and view templates.

An object is a record of the built-in store `recipes`. The key of the record is the id, and its
content the object as JSON. It has no scope. The methods `declare_*` register the operations that
kinds share, each with its own input and output.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

import orjson

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound, ValueTooLarge
from memrelay.memory.models.recipes.table import RecipeRecords, RecipeTables
from memrelay.memory.operations import Access, Context, operation
from memrelay.memory.records.data import load_json
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import MOST, take_page
from memrelay.memory.records.view import version_of

View = TypeVar("View")
# The access that the operations need, by verb.
ACCESS: Mapping[str, Access] = {
    "create": "write",
    "get": "read",
    "list": "read",
    "update": "write",
    "delete": "delete",
}
# The scope of all objects.
SCOPE = ""
MAX_TEMPLATE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class KeyedKind(Generic[View]):
    """A kind of objects."""

    kind: str
    # The name in messages: "graph template".
    name: str
    # The noun of its operations: "graph_templates".
    noun: str
    # Returns the output of operations. Its annotation is their output type.
    view: Callable[[State], View]

    def table(self, tx: Transaction) -> RecipeRecords:
        return tx.table(RecipeTables).keyed[self.kind]

    def find(self, tx: Transaction, id_: str) -> StoredRecord:
        """Return a stored object. Raises RecordNotFound."""
        stored = self.table(tx).find(SCOPE, id_)
        if stored is None:
            raise RecordNotFound(
                f"no {self.name} has the id {id_[:64]!r}; {self.noun}.list lists them"
            )
        return stored

    def find_version(self, tx: Transaction, id_: str, versions: tuple[str, ...]) -> StoredRecord:
        """Return a stored object with one of these versions, () for any.

        Raises RecordNotFound and VersionConflict.
        """
        stored = self.find(tx, id_)
        check_version(stored.state.record, stored.state.extras, versions)
        return stored

    def add(
        self, tx: Transaction, id_: str, content: str, context: Context, guid: str = ""
    ) -> View:
        """Store a new object. The default `guid` is a new one. Raises NameTaken."""
        table = self.table(tx)
        if table.find_to_write(SCOPE, id_) is not None:
            raise NameTaken(
                f"a {self.name} has the id {id_!r}; use another id, or update that {self.name}"
            )
        state = new_state(guid or context.new_guid(), self.kind, context.now_ms, context.actor)
        return self.view(table.insert(state._replace(scope=SCOPE, key=id_, content=content)))

    def replace(self, tx: Transaction, stored: StoredRecord, content: str) -> View:
        """Replace a stored object. An equal one changes nothing."""
        if content == stored.state.content:
            return self.view(stored.state)
        return self.view(self.table(tx).change(stored, stored.state._replace(content=content)))

    def declare_get(self, target: type, summary: str) -> None:
        """Register the operation that returns an object."""

        def get(tx: Transaction, target: Any, context: Context) -> Any:
            return self.view(self.find(tx, target.id).state)

        self.register("get", get, target, self.output, summary)

    def declare_delete(
        self,
        target: type,
        summary: str,
        refuse_used: Callable[[Transaction, str], None] | None = None,
    ) -> None:
        """Register the operation that deletes an object. records.restore can undo it.

        `refuse_used` raises Refused if other objects need the one with an id.
        """

        def delete(tx: Transaction, target: Any, context: Context) -> Any:
            stored = self.find_version(tx, target.id, target.if_version)
            if refuse_used is not None:
                refuse_used(tx, target.id)
            tx.records.delete(stored)

        self.register("delete", delete, target, None, summary)

    @property
    def output(self) -> Any:
        return get_type_hints(self.view)["return"]

    def register(
        self, verb: str, run: Callable[..., Any], target: type, output: Any, summary: str
    ) -> None:
        """Register a function as an operation, with the types that `operation` reads from it."""
        types = {"tx": Transaction, "target": target, "context": Context, "return": output}
        run.__annotations__, run.__doc__ = types, summary
        access = ACCESS[verb]
        name, mutates = f"{self.noun}.{verb}", access != "read"
        operation(name, access=access, mutates=mutates, store="recipes")(run)


@dataclass(frozen=True, slots=True)
class TemplateKind(KeyedKind[View]):
    """A kind of templates, whose operations differ only in the fields of the object."""

    # The fields of the object, which are fields of the inputs and of the view.
    fields: tuple[str, ...]
    # Raises InvalidInput for an invalid object.
    check: Callable[[dict[str, Any]], object]

    def declare_create(self, target: type, summary: str) -> None:
        """Register the operation that stores a new object. An empty id is generated."""

        def create(tx: Transaction, target: Any, context: Context) -> Any:
            value = {name: getattr(target, name) for name in self.fields}
            self.check(value)
            guid = context.new_guid()
            return self.add(tx, target.id or guid, _encode(value), context, guid)

        self.register("create", create, target, self.output, summary)

    def declare_list(self, target: type, output: type, summary: str) -> None:
        """Register the operation that lists the objects, the newest first, in `items`."""

        def list_all(tx: Transaction, target: Any, context: Context) -> Any:
            states = [stored.state for stored in self.table(tx).page(SCOPE, "", MOST)]
            states.sort(key=lambda state: state.created_at, reverse=True)
            items, _ = take_page(map(self.view, states), MOST, context.result_bytes)
            return output(tuple(items))

        self.register("list", list_all, target, output, summary)

    def declare_update(self, target: type, summary: str) -> None:
        """Register the operation that changes the fields that are not null."""

        def update(tx: Transaction, target: Any, context: Context) -> Any:
            stored = self.find_version(tx, target.id, target.if_version)
            value = read_object(stored.state)
            for name in self.fields:
                if (new := getattr(target, name)) is not None:
                    value[name] = new
            self.check(value)
            return self.replace(tx, stored, _encode(value))

        self.register("update", update, target, self.output, summary)


def read_object(state: State) -> dict[str, Any]:
    """Return the object of a record. Raises RecordDamaged."""
    value: dict[str, Any] = load_json(state.content, state.guid)
    return value


def view_template(state: State) -> dict[str, Any]:
    return {"id": state.key or "", **read_object(state), **view_edits(state)}


def view_edits(state: State) -> dict[str, str]:
    """Return the times and the version of a record, as all views have them."""
    return {
        "created_at": format_time(state.created_at),
        "updated_at": format_time(state.updated_at),
        "version": version_of(state.record, state.extras),
    }


def _encode(value: dict[str, Any]) -> str:
    text = orjson.dumps(value).decode()
    if len(text.encode()) > MAX_TEMPLATE_BYTES:
        raise ValueTooLarge(
            f"a template has at most {MAX_TEMPLATE_BYTES} bytes as JSON; shorten it"
        )
    return text
