"""What the page "Memory" shows of a store: a list or a search, narrowed by filters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args
from urllib.parse import urlencode

import orjson
from multidict import MultiMapping

from memrelay.memory.search.search import Mode
from memrelay.web.server.errors import BadRequest

Json = dict[str, Any]
PAGE_SIZE = 50
MODES = get_args(Mode)
# Filters of the operation itself, and those that become conditions of its filter.
NAMED = ("kind", "scope", "source")
FIELDS = ("owner", "thread", "key")


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The part of a store that a visitor sees. `fields` are the values of NAMED and FIELDS.

    `filter` is a filter in JSON, "" for none. With `query`, the records are those of a search in
    `mode`; `compare` is a second mode, shown next to it.
    """

    path: str
    store: str
    fields: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    filter: str = ""
    is_deleted: bool = False
    expires: bool = False
    order: str = "desc"
    cursor: str = ""
    query: str = ""
    mode: str = "hybrid"
    compare: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether a filter is set."""
        return bool(self.fields or self.tags or self.filter or self.is_deleted or self.expires)

    def url(self, part: str = "", **changes: Any) -> str:
        """Return the address of this view with changes, or of a part of the page."""
        view = replace(self, **changes)
        given = [("store", view.store), *view.fields.items(), *(("tag", tag) for tag in view.tags)]
        given += [("filter", view.filter), ("q", view.query), ("compare", view.compare)]
        given += [("deleted", "1" if view.is_deleted else ""), ("cursor", view.cursor)]
        given += [("expires", "1" if view.expires else "")]
        given += [("mode", view.mode if view.mode != "hybrid" else "")]
        given += [("order", view.order if view.order != "desc" else "")]
        return f"{view.path}{part}?{urlencode([pair for pair in given if pair[1]])}"

    def url_with(self, name: str, value: str) -> str:
        """Return the address of this view, narrowed by one more value, at its first page."""
        if name == "tag":
            return self.url(tags=tuple(dict.fromkeys((*self.tags, value))), cursor="")
        return self.url(fields={**self.fields, name: value}, cursor="")

    def url_without(self, name: str, value: str) -> str:
        """Return the address of this view without one of its filters."""
        if name == "tag":
            return self.url(tags=tuple(tag for tag in self.tags if tag != value), cursor="")
        if name in self.fields:
            kept = {key: one for key, one in self.fields.items() if key != name}
            return self.url(fields=kept, cursor="")
        cleared = {"deleted": {"is_deleted": False}, "expires": {"expires": False}}
        return self.url(cursor="", **cleared.get(name, {"filter": ""}))

    def filters(self) -> list[tuple[str, str]]:
        """Return the filters that are set: their names and values."""
        found = [*self.fields.items(), *(("tag", tag) for tag in self.tags)]
        found += [("filter", self.filter)] if self.filter else []
        found += [("expires", "yes")] if self.expires else []
        return found + ([("deleted", "yes")] if self.is_deleted else [])

    def conditions(self) -> Json:
        """Return the input of an operation that narrows its records."""
        parts: list[Json] = [orjson.loads(self.filter)] if self.filter else []
        parts += [{name: {"eq": self.fields[name]}} for name in FIELDS if name in self.fields]
        parts += [{"expires_at": {"exists": True}}] if self.expires else []
        given: Json = {name: self.fields[name] for name in NAMED if name in self.fields}
        given |= {"tags": self.tags} if self.tags else {}
        return given | ({"filter": {"and": parts}} if parts else {})

    def list_input(self) -> Json:
        """Return the input of records.list."""
        page = {"limit": PAGE_SIZE, "order": self.order, "cursor": self.cursor}
        return self.conditions() | page | {"deleted": self.is_deleted}

    def search_input(self, mode: str) -> Json:
        """Return the input of records.search. A source is a condition of the filter there."""
        given = self.conditions()
        if source := given.pop("source", ""):
            parts = given.get("filter", {"and": []})["and"]
            given["filter"] = {"and": [*parts, {"source": {"eq": source}}]}
        return given | {"query": self.query, "mode": mode, "limit": PAGE_SIZE, "explain": True}


def parse_view(path: str, query: MultiMapping[str], stores: list[str]) -> MemoryView:
    """Return the view that an address selects. Raises BadRequest."""
    store, mode = query.get("store") or stores[0], query.get("mode") or "hybrid"
    compare = query.get("compare", "")
    for given in (mode, compare or mode):
        if given not in MODES:
            raise BadRequest(f"There is no mode {given[:20]!r}; the modes are {', '.join(MODES)}.")
    return MemoryView(
        path,
        store,
        {name: query[name] for name in (*NAMED, *FIELDS) if query.get(name)},
        tuple(tag for tag in query.getall("tag", []) if tag),
        _check_filter(query.get("filter", "").strip()),
        query.get("deleted") == "1",
        query.get("expires") == "1",
        "asc" if query.get("order") == "asc" else "desc",
        query.get("cursor", ""),
        query.get("q", "").strip(),
        mode,
        compare if compare != mode else "",
    )


def _check_filter(text: str) -> str:
    try:
        is_object = not text or isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError as error:
        raise BadRequest(
            f"The filter is not valid JSON: {error.msg}. See docs/filters.md."
        ) from error
    if not is_object:
        raise BadRequest('The filter must be a JSON object like {"kind": {"eq": "note"}}.')
    return text
