"""Graph templates: the kinds of nodes and edges that a graph may have.

`record_kinds` is `{Kind: {fields: {field: {type, required}}}}`, `edge_types` is
`{KIND: {from, to}}`. Attributes without a field are allowed. A change applies to later writes.
"""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, parse_ms
from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.faults import FaultList, suggest
from memrelay.memory.models.recipes.graph.names import check_name
from memrelay.memory.models.recipes.graph.stored import object_of
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.records.view import version_of
from memrelay.memory.validation import Place

# The JSON types of a field by its type in a template.
FIELD_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "text": (str,),
    "number": (int, float),
    "float": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "date": (str,),
    "datetime": (str,),
    "object": (dict,),
    "array": (list,),
    "any": (str, int, float, bool, dict, list),
}
TIMES = ("date", "datetime")


@dataclass(frozen=True, slots=True)
class GraphTemplateView:
    """A graph template."""

    id: str
    name: str
    description: str
    record_kinds: dict[str, Any]
    """The kinds of nodes: {Kind: {fields: {field: {type, required}}}}."""
    edge_types: dict[str, Any]
    """The kinds of edges: {KIND: {from, to}}."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


def view_graph_template(state: State) -> GraphTemplateView:
    """Return the view of a stored graph template."""
    value = object_of(state)
    return GraphTemplateView(
        state.key or "",
        value["name"],
        value["description"],
        value["record_kinds"],
        value["edge_types"],
        format_time(state.created_at),
        format_time(state.updated_at),
        version_of(state.record, state.extras),
    )


def check_graph_template(record_kinds: dict[str, Any], edge_types: dict[str, Any]) -> None:
    """Raise InvalidInput with every fault of a graph template."""
    faults = FaultList()
    for kind, declared in record_kinds.items():
        path = ("record_kinds", kind)
        check_name(kind, path, faults)
        fields = declared.get("fields", {}) if isinstance(declared, dict) else None
        if not isinstance(fields, dict):
            example = '{"fields": {"age": {"type": "number"}}}'
            faults.add(path, "bad_type", f"is an object like {example}")
            continue
        for name, field in fields.items():
            _check_field((*path, "fields", name), field, faults)
    for kind, ends in edge_types.items():
        path = ("edge_types", kind)
        check_name(kind, path, faults)
        if not isinstance(ends, dict):
            faults.add(path, "bad_type", 'is an object like {"from": "Person", "to": "Team"}')
            continue
        for side in ("from", "to"):
            _check_end((*path, side), ends.get(side), record_kinds, faults)
    faults.raise_any("the graph template")


def _check_field(path: Place, field: Any, faults: FaultList) -> None:
    if not isinstance(field, dict):
        faults.add(path, "bad_type", 'is an object like {"type": "string", "required": true}')
        return
    type_ = field.get("type", "any")
    if not isinstance(type_, str) or type_.lower() not in FIELD_TYPES:
        hint = suggest(str(type_), FIELD_TYPES)
        faults.add((*path, "type"), "bad_enum", f'unknown field type "{type_}"{hint}')
    if not isinstance(field.get("required", False), bool):
        faults.add((*path, "required"), "bad_type", "is true or false")


def _check_end(path: Place, end: Any, record_kinds: dict[str, Any], faults: FaultList) -> None:
    if not isinstance(end, str):
        faults.add(path, "required", "names the kind of the node")
    elif record_kinds and end not in record_kinds:
        faults.add(path, "unknown_kind", f'unknown kind "{end}"{suggest(end, record_kinds)}')


@dataclass(frozen=True, slots=True)
class FittingTemplate:
    """The rules of a template for new nodes and edges. Empty kinds allow any kind."""

    record_kinds: dict[str, Any]
    edge_types: dict[str, Any]

    def check_node(self, kind: str, attributes: dict[str, Any], path: Place, to: FaultList) -> None:
        """Add a fault for each rule that a node does not fit."""
        if self.record_kinds and kind not in self.record_kinds:
            hint = suggest(kind, self.record_kinds)
            to.add((*path, "kind"), "unknown_kind", f'unknown node kind "{kind}"{hint}')
            return
        for name, field in self.record_kinds.get(kind, {}).get("fields", {}).items():
            value, at = attributes.get(name), (*path, "attributes", name)
            if value is not None:
                _check_value(value, field.get("type", "any").lower(), at, to)
            elif field.get("required"):
                to.add(at, "missing_field", f'the kind "{kind}" requires the attribute "{name}"')

    def check_edge(self, kind: str, kinds: tuple[str, str], path: Place, to: FaultList) -> None:
        """Add a fault for each rule that an edge does not fit. `kinds` are those of its nodes."""
        if not self.edge_types:
            return
        if kind not in self.edge_types:
            hint = suggest(kind, self.edge_types)
            to.add((*path, "kind"), "unknown_kind", f'unknown edge kind "{kind}"{hint}')
            return
        for side, found in zip(("from", "to"), kinds, strict=True):
            wanted = self.edge_types[kind][side]
            if found != wanted:
                to.add(
                    (*path, f"{side}_node_id"),
                    "wrong_kind",
                    f'an edge "{kind}" has a node of kind "{wanted}" here, not "{found}"',
                )


def _check_value(value: Any, type_: str, path: Place, faults: FaultList) -> None:
    is_flag = isinstance(value, bool) and bool not in FIELD_TYPES[type_]
    is_no_time = type_ in TIMES and isinstance(value, str) and parse_ms(value) is None
    if is_flag or is_no_time or not isinstance(value, FIELD_TYPES[type_]):
        faults.add(path, "bad_type", f"must have the type {type_}, as its template says")


def fitting_template(tx: Transaction, id_: str) -> FittingTemplate | None:
    """Return the rules of a graph template, None if there is none with the id."""
    place = tx.table(RecipeTables).graph_templates.find("", id_) if id_ else None
    if place is None:
        return None
    value = object_of(place.state)
    return FittingTemplate(value["record_kinds"], value["edge_types"])
