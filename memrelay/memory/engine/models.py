"""The manifests of the memory models, and the only place that loads a module by its name.

A model is a folder that declares `MODEL` in its `__init__.py`. The engine, records and search know
no model by name: they ask the manifests. A manifest names modules as `module` or `module:name`,
relative to its folder, and they are loaded when they are needed. So a worker that uses one model
does not load the others.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

# Records and search come first. Each of the others can be removed together with its line here.
MODELS = (
    "memrelay.memory.records",
    "memrelay.memory.models.named_memories",
    "memrelay.memory.models.shared_stores",
    "memrelay.memory.models.langgraph",
    "memrelay.memory.models.agent_memory",
    "memrelay.memory.models.recipes",
    "memrelay.memory.models.endpoints",
    "memrelay.memory.models.inputs",
    "memrelay.memory.models.rehearsals",
    "memrelay.memory.models.receipts",
    "memrelay.memory.models.provenance",
    "memrelay.memory.models.policies",
    "memrelay.memory.models.reviews",
    "memrelay.memory.models.views",
    "memrelay.memory.models.consolidation",
    "memrelay.memory.models.turns",
    "memrelay.memory.models.extraction",
    "memrelay.memory.models.capture",
    "memrelay.memory.models.subjects",
)


@dataclass(frozen=True, slots=True)
class RowLines:
    """How the rows of a table become lines of an export."""

    # The field of a line that holds a row: `kv`.
    name: str
    # A subclass of ExportedRow (records/export_fields.py). Its fields are the columns.
    struct: str
    # The columns of the primary key, or of another unique key.
    key: tuple[str, ...]
    # The field of the last line of an export that counts them: `pairs`.
    count: str
    # The columns with ids that may contain the uid of the pipeline.
    ids: tuple[str, ...] = ()
    # The columns that order the lines, by default the key.
    order: tuple[str, ...] = ()
    # The count as `memrelay export` reports it, "" if it does not: `{count} edge{s}`.
    summary: str = ""
    # An import that skips conflicts takes rows with the same values in these columns as equal.
    equal: tuple[str, ...] = ()
    # Whether records belong to the rows. Then the lines come before the records.
    holds_records: bool = False
    # Whether a row belongs to the record with its key, which deletes it when it is deleted.
    of_record: bool = False
    # A table class whose `put_row` writes a row; SQL that replaces the row if "".
    writer: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that holds no records."""

    table: str
    # Columns with texts, and columns with JSON. An erasure deletes the rows with the erased text.
    texts: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    # None if an export has no lines with the rows.
    lines: RowLines | None = None
    # The column with its integer key, "" for none. A salvage finds the readable rows by it, and
    # repairs the columns with JSON that are named here.
    row: str = ""
    repaired_json: tuple[str, ...] = ()
    # Whether a salvage copies the rows before the records.
    before_records: bool = False
    # The column with the time (Unix ms) at which a row ends, "" if rows stay.
    ends: str = ""
    # Whether the rows are earlier states, which end with the history of records. Their column
    # `ended` has the number of the change that ended the state, `ended_at` its time, Unix ms.
    is_history: bool = False


@dataclass(frozen=True, slots=True)
class KindEvents:
    """The events of records of one kind, which endpoints get instead of `record.*`."""

    # The event of each change that is not called `record.*`.
    names: Mapping[str, str]
    # A function `(tx, state)` that returns the record as its operations show it, a dataclass.
    view: str
    # Whether it shows no values. Then it serves closed stores, encrypted and deleted records too.
    has_ids_only: bool = False
    # Further events of changes, whose rows name them.
    further: tuple[str, ...] = ()
    # The built-in store of the records, "" if any store may have them.
    store: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """What the engine and the interfaces need to know of a model."""

    name: str
    # The built-in store of its records, "" if any store may have them.
    store: str = ""
    # Modules and packages elsewhere that exist only for the model, below `memrelay`: blocks, paths
    # of other systems, pages, commands. They go when the model goes.
    faces: tuple[str, ...] = ()
    # Modules with the operations of each noun. The most used one comes first.
    nouns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Tables with `holder(state)`, by the kind of record whose key is unique within a scope.
    keyed: Mapping[str, str] = field(default_factory=dict)
    # The events of changes, by the kind of record.
    events: Mapping[str, KindEvents] = field(default_factory=dict)
    # The tables that hold no records.
    rows: tuple[Rows, ...] = ()
    # Beginnings of the kinds that only the model's operations write.
    reserved: tuple[str, ...] = ()
    # Kinds with indexes of their own. SQLite uses them only if the SQL names the kind literally.
    indexed_kinds: tuple[str, ...] = ()
    # Kinds of records that belong to a conversation, even without a thread.
    conversation_kinds: tuple[str, ...] = ()
    # GLOB patterns of the kinds whose content is JSON.
    json_kinds: tuple[str, ...] = ()
    # A subclass of ModelErasure (erasures.py).
    erase: str = ""
    # Subclasses of RecordPart (records/export_fields.py), by the field of a record's line.
    record_parts: Mapping[str, str] = field(default_factory=dict)
    # A class that merges imported records of a kind into similar ones (RecordMerge in
    # transfer/import_records.py).
    merges: Mapping[str, str] = field(default_factory=dict)
    # Functions that write the lines of the built-in store in the format of another system, by its
    # name.
    formats: Mapping[str, str] = field(default_factory=dict)
    # Kinds of records to which other lines of an import belong.
    container_kinds: tuple[str, ...] = ()
    # Kinds whose `data` may have any JSON value, and whose records outside of the context are
    # internal: an export omits them by default.
    internal_kinds: tuple[str, ...] = ()
    # A subclass of SealKeys (memory/seal_keys.py), which seals internal values.
    seals: str = ""
    # Tables with rights, each with its column of the expiry, "" for none. Reads of a past time use
    # the rights of today.
    rights: Mapping[str, str] = field(default_factory=dict)
    # SQL that selects the guids of records that are internal, which they are in the past too.
    internal: str = ""
    # A function `(connection, change)` that takes rows of the model in a copy of a store back to
    # their state after a change.
    take_back: str = ""
    # SQL that derives tables of the model again after a salvage.
    salvage: str = ""
    # A function `(store)`: whether the built-in store has something that is searched by meaning. If
    # no model of the store has one, that is any record.
    needs_vectors: str = ""
    # A function `(store, uid, running, now_ms)` that ends what belongs to deferred calls of a
    # pipeline that are not `running`, after a crash.
    recover: str = ""
    # A function `(operation, store, input, output, context)` that makes the receipt of a read, and
    # the table class with `add` for it.
    receipt: str = ""
    receipt_table: str = ""
    # Features (features.py) that a store file asks for itself, each with SQL that returns whether.
    own_features: Mapping[str, str] = field(default_factory=dict)
    # A function `(stop, operation, input, store, context)` that returns the output of a call that a
    # policy has stopped (memory/admission.py).
    settle: str = ""
    # A function `(store, stop, operation, input, context)` that keeps a stopped call for review and
    # returns its output.
    propose: str = ""
    # Functions `(store, state, is_deletion)` that return why an undo cannot bring a record to the
    # state, or delete it in this one, "" if it can, by the kind of the record.
    undo_faults: Mapping[str, str] = field(default_factory=dict)


@cache
def models() -> dict[str, Model]:
    """Return the manifests by the full name of their folder, in the order of MODELS."""
    return {name: importlib.import_module(name).MODEL for name in MODELS}


def list_nouns() -> list[str]:
    """Return the nouns of all operations, sorted. No operation is loaded."""
    return sorted({noun for model in models().values() for noun in model.nouns})


def modules_of(noun: str) -> Iterator[str]:
    """Yield the full names of the modules with the operations of a noun."""
    for package, model in models().items():
        yield from (resolve(package, module) for module in model.nouns.get(noun, ()))


def find_key_table(kind: str) -> Any:
    """Return the table class that keeps the keys of a kind unique, None if keys are free."""
    for package, model in models().items():
        if kind in model.keyed:
            return load(resolve(package, model.keyed[kind]))
    return None


def list_rows() -> list[Rows]:
    """Return the tables of all models that hold no records."""
    return [rows for model in models().values() for rows in model.rows]


def list_row_lines() -> list[tuple[Rows, RowLines]]:
    """Return the tables whose rows are lines of an export. The names in them are full names."""
    return [
        (
            rows,
            replace(
                lines,
                struct=resolve(package, lines.struct),
                writer=resolve(package, lines.writer) if lines.writer else "",
            ),
        )
        for package, model in models().items()
        for rows in model.rows
        if (lines := rows.lines) is not None
    ]


def list_hooks(name: str) -> list[str]:
    """Return the full names that the manifests have in a field: `erase`, `salvage`, `recover`."""
    hooks = [(package, getattr(model, name)) for package, model in models().items()]
    return [resolve(package, hook) for package, hook in hooks if hook]


def list_named_hooks(name: str) -> dict[str, str]:
    """Return the full names of the hooks in a field with names: `record_parts`, `merges`."""
    return {
        key: resolve(package, hook)
        for package, model in models().items()
        for key, hook in getattr(model, name).items()
    }


def needs_vectors(store_name: str, store: Any) -> bool:
    """Return whether the built-in store of that name has something that is searched by meaning."""
    hooks = [
        resolve(package, model.needs_vectors)
        for package, model in models().items()
        if model.store == store_name and model.needs_vectors
    ]
    if not hooks:
        return bool(store.records.last_row > 0)
    return any(load(hook)(store) for hook in hooks)


def list_rights() -> dict[str, str]:
    """Return the tables with rights, each with its column of the expiry, "" for none."""
    return {table: expiry for model in models().values() for table, expiry in model.rights.items()}


def list_formats() -> dict[str, tuple[str, str]]:
    """Return (built-in store, full name of the function) of each format, sorted by its name."""
    formats = {
        name: (model.store, resolve(package, function))
        for package, model in models().items()
        for name, function in model.formats.items()
    }
    return dict(sorted(formats.items()))


def list_erasures() -> list[str]:
    """Return the full names of the models' erasure classes."""
    return list_hooks("erase")


@cache
def own_features() -> dict[str, str]:
    """Return the features that a store file asks for itself, each with SQL that returns whether."""
    return {name: sql for model in models().values() for name, sql in model.own_features.items()}


@cache
def kind_events() -> dict[str, KindEvents]:
    """Return the events by the kind of record. The names in them are full names."""
    return {
        kind: replace(events, view=resolve(package, events.view))
        for package, model in models().items()
        for kind, events in model.events.items()
    }


@cache
def reserved_prefixes() -> tuple[str, ...]:
    """Return the beginnings of all reserved kinds."""
    return tuple(dict.fromkeys(one for model in models().values() for one in model.reserved))


@cache
def indexed_kinds() -> frozenset[str]:
    """Return the kinds that have indexes of their own."""
    return frozenset(kind for model in models().values() for kind in model.indexed_kinds)


@cache
def conversation_kinds() -> frozenset[str]:
    """Return the kinds of records that belong to a conversation."""
    return frozenset(kind for model in models().values() for kind in model.conversation_kinds)


@cache
def container_kinds() -> frozenset[str]:
    """Return the kinds of records to which other lines of an import belong."""
    return frozenset(kind for model in models().values() for kind in model.container_kinds)


@cache
def internal_kinds() -> tuple[str, ...]:
    """Return the kinds whose records may be internal."""
    return tuple(kind for model in models().values() for kind in model.internal_kinds)


@cache
def json_kinds() -> tuple[str, ...]:
    """Return GLOB patterns of the kinds whose content is JSON."""
    return tuple(glob for model in models().values() for glob in model.json_kinds)


def resolve(package: str, name: str) -> str:
    """Return the full name of a module or `module:name` of a manifest."""
    return name if name.startswith("memrelay.") else f"{package}.{name}"


def load(name: str) -> Any:
    """Import a module, or the object of a module with `module:name`."""
    module, _, attribute = name.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
