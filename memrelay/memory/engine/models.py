"""The manifests of the memory models, and the only place that loads a module by its name.

A model is a folder that declares `MODEL` in its `__init__.py`. The engine, records and search know
no model by name: they ask the manifests. A manifest names modules as `module` or `module:name`,
relative to its folder, and they are loaded when they are needed. So a worker that uses one model
does not load the others.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that holds no records."""

    table: str
    # Columns with texts, and columns with JSON. An erasure deletes the rows with the erased text.
    texts: tuple[str, ...] = ()
    json: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """What the engine and the interfaces need to know of a model."""

    name: str
    # The built-in store of its records, "" if any store may have them.
    store: str = ""
    # Modules with the operations of each noun. The most used one comes first.
    nouns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Tables with `holder(state)`, by the kind of record whose key is unique within a scope.
    keyed: Mapping[str, str] = field(default_factory=dict)
    # The tables that hold no records.
    rows: tuple[Rows, ...] = ()
    # Kinds of records that belong to a conversation, even without a thread.
    conversation_kinds: tuple[str, ...] = ()
    # GLOB patterns of the kinds whose content is JSON.
    json_kinds: tuple[str, ...] = ()
    # A subclass of ModelErasure (erasures.py).
    erase: str = ""
    # A function of a store that returns whether it has texts to embed, if it has no other records.
    has_texts: str = ""


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


def list_erasures() -> list[str]:
    """Return the full names of the models' erasure classes."""
    return [resolve(name, model.erase) for name, model in models().items() if model.erase]


def find_text_check(store: str) -> Any:
    """Return the function that decides whether a built-in store has texts to embed, else None."""
    for package, model in models().items():
        if model.store == store and model.has_texts:
            return load(resolve(package, model.has_texts))
    return None


@cache
def conversation_kinds() -> frozenset[str]:
    """Return the kinds of records that belong to a conversation."""
    return frozenset(kind for model in models().values() for kind in model.conversation_kinds)


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
