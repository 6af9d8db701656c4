"""Templates of graphs and of views.

A graph template has the kinds of nodes and edges that a graph may have. `record_kinds` is
`{Kind: {fields: {field: {type, required}}}}`, `edge_types` is `{KIND: {from, to}}`. Attributes
without a field are allowed. A change applies to later writes. A view template is a query over
graphs, which views bind to a graph.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, parse_ms
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes import GRAPH_TEMPLATE_KIND, VIEW_TEMPLATE_KIND
from memrelay.memory.models.recipes.faults import FaultList, suggest
from memrelay.memory.models.recipes.graph.names import (
    Description,
    NewId,
    SearchId,
    TemplateName,
    check_name,
)
from memrelay.memory.models.recipes.graph.view_query import parse_query
from memrelay.memory.models.recipes.keyed_kind import (
    SCOPE,
    TemplateKind,
    read_object,
    view_template,
)
from memrelay.memory.models.recipes.table import RecipeTables
from memrelay.memory.records.data import kept_data
from memrelay.memory.records.paging import MOST
from memrelay.memory.records.view import Reason, Versions
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
class CreateGraphTemplate:
    """The template to create."""

    name: TemplateName
    """The name."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""
    description: Description = ""
    """The purpose of graphs with this template."""
    record_kinds: dict[str, Any] = field(default_factory=dict)
    """The kinds of nodes: {Kind: {fields: {field: {type, required}}}}. None allow any kind."""
    edge_types: dict[str, Any] = field(default_factory=dict)
    """The kinds of edges: {KIND: {from, to}}, with the kinds of their nodes. None allow any."""


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
    """Return the view of a stored graph template. Raises RecordDamaged."""
    return GraphTemplateView(**view_template(state))


# Kinds of nodes and of edges, and fields of a kind.
MAX_KINDS, MAX_FIELDS = 200, 100


def check_graph_template(template: dict[str, Any]) -> None:
    """Raise InvalidInput with every fault of a graph template."""
    faults = FaultList()
    record_kinds, edge_types = template["record_kinds"], template["edge_types"]
    for name in ("record_kinds", "edge_types"):
        if len(template[name]) > MAX_KINDS:
            faults.add((name,), "out_of_range", f"{name} has more than {MAX_KINDS} kinds")
    faults.raise_any("the graph template")
    for kind, declared in record_kinds.items():
        path = ("record_kinds", kind)
        check_name(kind, path, faults)
        fields = declared.get("fields", {}) if isinstance(declared, dict) else None
        if not isinstance(fields, dict):
            example = '{"fields": {"age": {"type": "number"}}}'
            faults.add(path, "bad_type", f"is an object like {example}")
            continue
        if len(fields) > MAX_FIELDS:
            faults.add((*path, "fields"), "out_of_range", f"has more than {MAX_FIELDS} fields")
            continue
        for name, declaration in fields.items():
            _check_field((*path, "fields", name), declaration, faults)
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
        faults.add(path, "unknown_kind", f'unknown kind "{end}"{faults.suggest(end, record_kinds)}')


def refuse_template_in_graphs(tx: Transaction, id_: str) -> None:
    """Raise Refused if a graph uses a graph template."""
    graphs = [
        stored.state.key or ""
        for stored in tx.table(RecipeTables).instances.page("graph", "", MOST)
        if kept_data(stored.state.record, stored.state.extras).get("template_id") == id_
    ]
    if graphs:
        raise Refused(f"the graphs {', '.join(graphs[:5])} use the template; delete them first")


@dataclass(frozen=True, slots=True)
class GetGraphTemplate:
    """The template to read."""

    id: SearchId
    """The id of the template."""


@dataclass(frozen=True, slots=True)
class ListGraphTemplates:
    """Nothing to select: the list has all templates."""


@dataclass(frozen=True, slots=True)
class GraphTemplates:
    """Templates, the newest first."""

    items: tuple[GraphTemplateView, ...]


@dataclass(frozen=True, slots=True)
class UpdateGraphTemplate:
    """The changes of a template. Omitted fields keep their values."""

    id: SearchId
    """The id of the template."""
    name: TemplateName | None = None
    """The new name."""
    description: Description | None = None
    """The new description."""
    record_kinds: dict[str, Any] | None = None
    """The new kinds of nodes; they replace all present ones."""
    edge_types: dict[str, Any] | None = None
    """The new kinds of edges; they replace all present ones."""
    if_version: Versions = ()
    """Change only if the template has one of these versions."""


@dataclass(frozen=True, slots=True)
class DeleteGraphTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


GRAPH_TEMPLATES = TemplateKind(
    GRAPH_TEMPLATE_KIND,
    "graph template",
    "graph_templates",
    view_graph_template,
    fields=("name", "description", "record_kinds", "edge_types"),
    check=check_graph_template,
)
GRAPH_TEMPLATES.declare_create(
    CreateGraphTemplate, "Create a template that nodes and edges of its graphs must fit."
)
GRAPH_TEMPLATES.declare_get(GetGraphTemplate, "Return a template of graphs.")
GRAPH_TEMPLATES.declare_list(
    ListGraphTemplates,
    GraphTemplates,
    "List up to 1,000 templates of graphs, the newest first. Fewer if they are long.",
)
GRAPH_TEMPLATES.declare_update(
    UpdateGraphTemplate,
    "Change a template of graphs. Present nodes and edges stay; later writes must fit.",
)
GRAPH_TEMPLATES.declare_delete(
    DeleteGraphTemplate, "Delete a template that no graph uses.", refuse_template_in_graphs
)


@dataclass(frozen=True, slots=True)
class FittingTemplate:
    """The rules of a template for new nodes and edges. Empty kinds allow any kind."""

    record_kinds: dict[str, Any]
    edge_types: dict[str, Any]

    def check_node(self, kind: str, attributes: dict[str, Any], path: Place, to: FaultList) -> None:
        """Add a fault for each rule that a node does not fit."""
        if self.record_kinds and kind not in self.record_kinds:
            hint = to.suggest(kind, self.record_kinds)
            to.add((*path, "kind"), "unknown_kind", f'unknown node kind "{kind}"{hint}')
            return
        for name, declared in self.record_kinds.get(kind, {}).get("fields", {}).items():
            value, at = attributes.get(name), (*path, "attributes", name)
            if value is not None:
                _check_value(value, declared.get("type", "any").lower(), at, to)
            elif declared.get("required"):
                to.add(at, "missing_field", f'the kind "{kind}" requires the attribute "{name}"')

    def check_edge(self, kind: str, kinds: tuple[str, str], path: Place, to: FaultList) -> None:
        """Add a fault for each rule that an edge does not fit. `kinds` are those of its nodes."""
        if not self.edge_types:
            return
        if kind not in self.edge_types:
            hint = to.suggest(kind, self.edge_types)
            to.add((*path, "kind"), "unknown_kind", f'unknown edge kind "{kind}"{hint}')
            return
        for side, actual in zip(("from", "to"), kinds, strict=True):
            required = self.edge_types[kind][side]
            if actual != required:
                to.add(
                    (*path, f"{side}_node_id"),
                    "wrong_kind",
                    f'an edge "{kind}" has a node of kind "{required}" here, not "{actual}"',
                )


def _check_value(value: Any, type_: str, path: Place, faults: FaultList) -> None:
    is_flag = isinstance(value, bool) and bool not in FIELD_TYPES[type_]
    is_no_time = type_ in TIMES and isinstance(value, str) and parse_ms(value) is None
    if is_flag or is_no_time or not isinstance(value, FIELD_TYPES[type_]):
        faults.add(path, "bad_type", f"must have the type {type_}, as its template says")


def find_fitting_template(tx: Transaction, id_: str) -> FittingTemplate | None:
    """Return the rules of a graph template, None if there is none with the id."""
    stored = GRAPH_TEMPLATES.table(tx).find(SCOPE, id_) if id_ else None
    if stored is None:
        return None
    template = read_object(stored.state)
    return FittingTemplate(template["record_kinds"], template["edge_types"])


@dataclass(frozen=True, slots=True)
class CreateViewTemplate:
    """The template to create."""

    name: TemplateName
    """The name."""
    query: dict[str, Any]
    """The query: match, patterns (at most 4), where, orderBy, skip, limit, return."""
    id: NewId = ""
    """The id: letters, digits, dots, dashes and underscores. By default generated."""
    description: Description = ""
    """The contents of the views."""
    applicable_template_ids: Annotated[tuple[SearchId, ...], Field(max_length=64)] = ()
    """The graph templates to which views may apply it; none for any graph."""


@dataclass(frozen=True, slots=True)
class ViewTemplateView:
    """A view template."""

    id: str
    name: str
    description: str
    query: dict[str, Any]
    """The query: match, patterns, where, orderBy, skip, limit, return."""
    applicable_template_ids: tuple[str, ...]
    """The graph templates to which views may apply it; none for any graph."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


def view_view_template(state: State) -> ViewTemplateView:
    """Return the view of a stored view template. Raises RecordDamaged."""
    fields = view_template(state)
    fields["applicable_template_ids"] = tuple(fields["applicable_template_ids"])
    return ViewTemplateView(**fields)


def refuse_template_in_views(tx: Transaction, id_: str) -> None:
    """Raise Refused if a view uses a view template."""
    views = [view.id for view in tx.table(RecipeTables).graph.views(template=id_)]
    if views:
        raise Refused(f"the views {', '.join(views[:5])} use the template; delete them first")


@dataclass(frozen=True, slots=True)
class GetViewTemplate:
    """The template to read."""

    id: SearchId
    """The id of the template."""


@dataclass(frozen=True, slots=True)
class ListViewTemplates:
    """Nothing to select: the list has all templates."""


@dataclass(frozen=True, slots=True)
class ViewTemplates:
    """Templates, the newest first."""

    items: tuple[ViewTemplateView, ...]


@dataclass(frozen=True, slots=True)
class UpdateViewTemplate:
    """The changes of a template. Omitted fields keep their values."""

    id: SearchId
    """The id of the template."""
    name: TemplateName | None = None
    """The new name."""
    query: dict[str, Any] | None = None
    """The new query; it replaces the whole present one."""
    description: Description | None = None
    """The new description."""
    applicable_template_ids: Annotated[tuple[SearchId, ...], Field(max_length=64)] | None = None
    """The new graph templates to which views may apply it."""
    if_version: Versions = ()
    """Change only if the template has one of these versions."""


@dataclass(frozen=True, slots=True)
class DeleteViewTemplate:
    """The template to delete."""

    id: SearchId
    """The id of the template."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the template has one of these versions."""


VIEW_TEMPLATES = TemplateKind(
    VIEW_TEMPLATE_KIND,
    "view template",
    "view_templates",
    view_view_template,
    fields=("name", "description", "query", "applicable_template_ids"),
    check=lambda template: parse_query(template["query"]),
)
VIEW_TEMPLATES.declare_create(
    CreateViewTemplate, "Create a query over graphs, which views bind to a graph."
)
VIEW_TEMPLATES.declare_get(GetViewTemplate, "Return a template of views.")
VIEW_TEMPLATES.declare_list(
    ListViewTemplates,
    ViewTemplates,
    "List up to 1,000 templates of views, the newest first. Fewer if they are long.",
)
VIEW_TEMPLATES.declare_update(
    UpdateViewTemplate, "Change a template of views. Its views use the new query at once."
)
VIEW_TEMPLATES.declare_delete(
    DeleteViewTemplate, "Delete a template that no view uses.", refuse_template_in_views
)
