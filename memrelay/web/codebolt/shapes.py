"""JSON shapes of Codebolt's answers: for the OpenAPI document, and to select the fields of outputs.

The operations describe their input.
"""

from typing import Any, NotRequired

from pydantic import ConfigDict, JsonValue, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.web.openapi.shapes import exact


@with_config(ConfigDict(extra="allow"))
class Definition(TypedDict):
    """A recipe. It keeps further members."""

    id: str
    label: NotRequired[str]
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]


@exact
class DefinitionFault(TypedDict):
    """An error or a warning. `path` is a JSON pointer into the definition."""

    path: str
    code: str
    message: str


@exact
class Validation(TypedDict):
    """The result of a validation."""

    valid: bool
    errors: list[DefinitionFault]
    warnings: list[DefinitionFault]


@exact
class StepParameter(TypedDict):
    """A parameter of a step."""

    name: str
    type: str
    required: bool
    default: JsonValue
    enum: list[JsonValue]
    description: str


@exact
class StepSpec(TypedDict):
    """A type of steps."""

    type: str
    category: str
    description: str
    inputs: list[str]
    outputs: list[str]
    params: list[StepParameter]


@exact
class KvInstance(TypedDict):
    """A store of key-value pairs."""

    id: str
    name: str
    description: str
    recordCount: int
    namespaces: JsonValue
    createdAt: str
    updatedAt: str


@exact
class LogInstance(TypedDict):
    """An event log."""

    id: str
    name: str
    description: str
    eventCount: int
    streams: JsonValue
    createdAt: str
    updatedAt: str


@exact
class KvRecord(TypedDict):
    """A stored key-value pair."""

    instanceId: str
    namespace: str
    key: str
    value: JsonValue
    updatedAt: str


@exact
class KvValue(TypedDict):
    """The value of a key, null if it does not exist."""

    value: JsonValue
    exists: bool


@exact
class KeyDeleted(TypedDict):
    """Whether the key existed."""

    deleted: bool


@exact
class NamespaceDeleted(TypedDict):
    """The number of deleted keys."""

    deleted: int


@exact
class KvResult(TypedDict):
    """The result of a query. `total` counts the matches before the limit."""

    records: list[dict[str, Any]]
    total: int
    limit: int
    offset: int


@exact
class Event(TypedDict):
    """An event."""

    id: JsonValue
    instanceId: str
    stream_id: str
    event_type: str
    payload: JsonValue
    metadata: JsonValue
    timestamp: str
    sequence_number: int


@exact
class Events(TypedDict):
    """Several events."""

    events: list[Event]


@exact
class EventResult(TypedDict):
    """The result of a query. `aggregation` is null without `reduce`."""

    events: list[dict[str, Any]]
    aggregation: JsonValue
    total: int
    limit: int | None
    offset: int


@exact
class GraphTemplate(TypedDict):
    """The kinds of nodes and edges that a graph may have."""

    id: str
    name: str
    description: NotRequired[str]
    record_kinds: dict[str, Any]
    edge_types: dict[str, Any]
    createdAt: str
    updatedAt: str


@exact
class GraphInstance(TypedDict):
    """A graph."""

    id: str
    name: str
    description: str
    templateId: str | None
    nodeCount: int
    edgeCount: int
    createdAt: str
    updatedAt: str


@exact
class Node(TypedDict):
    """A node of a graph."""

    id: str
    name: str
    kind: str
    attributes: dict[str, Any]
    valid_from: str | None
    valid_to: str | None
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]


@exact
class Nodes(TypedDict):
    """Several nodes."""

    records: list[Node]


@exact
class Edge(TypedDict):
    """An edge of a graph."""

    id: str
    kind: str
    from_node_id: str
    to_node_id: str
    createdAt: NotRequired[str]


@exact
class Edges(TypedDict):
    """Several edges."""

    edges: list[Edge]


# `return` and `with` are keywords, so a class cannot declare them.
_ViewColumns = TypedDict("_ViewColumns", {"return": NotRequired[list[dict[str, Any]]]})


@exact
class ViewTemplate(_ViewColumns):
    """A query of graphs. Parts that the query lacks are absent."""

    id: str
    name: str
    description: str
    match: NotRequired[dict[str, Any]]
    patterns: NotRequired[list[dict[str, Any]]]
    where: NotRequired[list[dict[str, Any]]]
    orderBy: NotRequired[JsonValue]
    skip: NotRequired[JsonValue]
    limit: NotRequired[JsonValue]
    applicable_template_ids: list[str]
    createdAt: str
    updatedAt: str


@exact
class View(TypedDict):
    """A view template that is bound to a graph."""

    id: str
    viewTemplateId: str
    instanceId: str
    createdAt: NotRequired[str]


@exact
class Rows(TypedDict):
    """The result of a view."""

    columns: list[str]
    rows: list[Any]
    total: int


@exact
class Subgraph(TypedDict):
    """A part of a graph."""

    nodes: list[Node]
    edges: list[Edge]
    totalCounts: dict[str, int]
    hasMore: bool


@exact
class MemoryType(TypedDict):
    """An active recipe that assemblies may use."""

    id: str
    label: str
    description: str
    inputs_scope: list[str]
    additional_variables: list[dict[str, Any]]
    contribution: dict[str, Any]


@exact
class MatchedRule(TypedDict):
    """A rule whose conditions hold."""

    ruleId: str
    ruleName: str
    priority: int
    addMemories: list[str]


@exact
class EngineResult(TypedDict):
    """The result of one engine."""

    engineId: str
    engineName: str
    matchedRules: list[MatchedRule]


@exact
class RulesEvaluated(TypedDict):
    """The recipes that rules add."""

    matchedMemories: list[str]
    engineResults: list[EngineResult]
    variablesUsed: list[str]


@exact
class RuleEngine(TypedDict):
    """A rule engine."""

    id: str
    name: str
    description: str
    enabled: bool
    rules: list[dict[str, Any]]
    createdAt: str
    updatedAt: str


@exact
class RuleVariable(TypedDict):
    """A variable that rules may read."""

    name: str
    source: str
