"""JSON shapes of Codebolt's answers. The operations describe their input."""

from functools import partial
from typing import Any, NotRequired

from pydantic import ConfigDict, JsonValue, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.web.models.shapes import array_of, derive_shape, make_shape

derive = partial(derive_shape, __name__)
TIMES = "createdAt updatedAt"
OPTIONAL_TIMES = "createdAt? updatedAt?"


@with_config(ConfigDict(extra="allow"))
class Definition(TypedDict):
    """A recipe. It keeps further members."""

    id: str
    label: NotRequired[str]
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]


DefinitionFault = derive(
    "DefinitionFault",
    "recipes.validate/errors/0",
    "An error or a warning. `path` is a JSON pointer into the definition.",
    "path code message",
)
Validation = derive(
    "Validation",
    "recipes.validate",
    "The result of a validation.",
    "valid errors warnings",
    errors=array_of(DefinitionFault),
    warnings=array_of(DefinitionFault),
)
StepParameter = derive(
    "StepParameter",
    "recipes.specs/items/0/params/0",
    "A parameter of a step.",
    "name type required default enum description",
    enum=list[JsonValue],
)
StepSpec = derive(
    "StepSpec",
    "recipes.specs/items/0",
    "A type of steps.",
    "type category description inputs outputs params",
    params=array_of(StepParameter),
)
KvInstance = derive(
    "KvInstance",
    "instances.get",
    "A store of key-value pairs.",
    f"id name description recordCount namespaces {TIMES}",
    recordCount=int,
    namespaces=JsonValue,
)
LogInstance = derive(
    "LogInstance",
    "instances.get",
    "An event log.",
    f"id name description eventCount streams {TIMES}",
    eventCount=int,
    streams=JsonValue,
)
KvRecord = derive(
    "KvRecord",
    "kv.set",
    "A stored key-value pair.",
    "instanceId namespace key value updatedAt",
)
KvValue = derive(
    "KvValue",
    "kv.get/items/0",
    "The value of a key, null if it does not exist.",
    "value exists",
)
KeyDeleted = derive("KeyDeleted", "kv.delete", "Whether the key existed.", "deleted")
NamespaceDeleted = derive("NamespaceDeleted", "kv.clear", "The number of deleted keys.", "deleted")
KvResult = derive(
    "KvResult",
    "kv.query",
    "The result of a query. `total` counts the matches before the limit.",
    "records total limit offset",
)
Event = derive(
    "Event",
    "events.append/events/0",
    "An event.",
    "id instanceId stream_id event_type payload metadata timestamp sequence_number",
    id=JsonValue,
)
Events = make_shape(__name__, "Events", "Several events.", {"events": array_of(Event)})
EventResult = derive(
    "EventResult",
    "events.query",
    "The result of a query. `aggregation` is null without `reduce`.",
    "events aggregation total limit offset",
    limit=int | None,
)
GraphTemplate = derive(
    "GraphTemplate",
    "graph_templates.create",
    "The kinds of nodes and edges that a graph may have.",
    f"id name description? record_kinds edge_types {TIMES}",
)
GraphInstance = derive(
    "GraphInstance",
    "instances.get",
    "A graph.",
    f"id name description templateId nodeCount edgeCount {TIMES}",
    nodeCount=int,
    edgeCount=int,
)
Node = derive(
    "Node",
    "graph.get_node",
    "A node of a graph.",
    f"id name kind attributes valid_from valid_to {OPTIONAL_TIMES}",
)
Nodes = make_shape(__name__, "Nodes", "Several nodes.", {"records": array_of(Node)})
Edge = derive(
    "Edge",
    "graph.list_edges/items/0",
    "An edge of a graph.",
    "id kind from_node_id to_node_id createdAt?",
)
Edges = make_shape(__name__, "Edges", "Several edges.", {"edges": array_of(Edge)})
ViewTemplate = derive(
    "ViewTemplate",
    "view_templates.create",
    "A query of graphs. Parts that the query lacks are absent.",
    f"id name description applicable_template_ids {TIMES}",
    **{"return": NotRequired[list[dict[str, Any]]]},
    match=NotRequired[dict[str, Any]],
    patterns=NotRequired[list[dict[str, Any]]],
    where=NotRequired[list[dict[str, Any]]],
    orderBy=NotRequired[JsonValue],
    skip=NotRequired[JsonValue],
    limit=NotRequired[JsonValue],
)
View = derive(
    "View",
    "graph_views.create",
    "A view template that is bound to a graph.",
    "id viewTemplateId=template_id instanceId createdAt?",
)
Rows = derive(
    "Rows", "graph_views.execute", "The result of a view.", "columns rows total", rows=list[Any]
)
Subgraph = derive(
    "Subgraph",
    "graph.subgraph",
    "A part of a graph.",
    "nodes edges totalCounts hasMore",
    nodes=array_of(Node),
    edges=array_of(Edge),
    totalCounts=dict[str, int],
)
MemoryType = make_shape(
    __name__,
    "MemoryType",
    "An active recipe that assemblies may use.",
    {
        "id": str,
        "label": str,
        "description": str,
        "inputs_scope": list[str],
        "additional_variables": list[dict[str, Any]],
        "contribution": dict[str, Any],
    },
)
MatchedRule = derive(
    "MatchedRule",
    "rules.evaluate/engine_results/0/matched_rules/0",
    "A rule whose conditions hold.",
    "ruleId ruleName priority addMemories",
)
EngineResult = derive(
    "EngineResult",
    "rules.evaluate/engine_results/0",
    "The result of one engine.",
    "engineId engineName matchedRules",
    matchedRules=array_of(MatchedRule),
)
RulesEvaluated = derive(
    "RulesEvaluated",
    "rules.evaluate",
    "The recipes that rules add.",
    "matchedMemories engineResults variablesUsed",
    engineResults=array_of(EngineResult),
)
RuleEngine = derive(
    "RuleEngine",
    "rules.get",
    "A rule engine.",
    f"id name description enabled rules {TIMES}",
    rules=list[dict[str, Any]],
)
RuleVariable = derive(
    "RuleVariable",
    "rules.variables/items/0",
    "A variable that rules may read.",
    "name source",
    source=str,
)
