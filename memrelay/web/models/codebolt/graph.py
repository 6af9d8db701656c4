"""/kg: graphs, their templates, nodes and edges, and views."""

from collections.abc import Callable
from typing import Any

from aiohttp import hdrs, web

from memrelay.web.api.answers import json_response
from memrelay.web.models.codebolt import shapes
from memrelay.web.models.codebolt.crud import Crud, check_id
from memrelay.web.models.codebolt.errors import CODEBOLT_API
from memrelay.web.models.request_fields import Body, Json, same, spell, within
from memrelay.web.models.routes import TIMES, Call, Route, serve_all
from memrelay.web.models.shapes import array_of, to_shape

routes = web.RouteTableDef()
KG = "/kg"
TEMPLATES, VIEW_TEMPLATES = f"{KG}/instance-templates", f"{KG}/view-templates"
INSTANCES, VIEWS = f"{KG}/instances", f"{KG}/views"
GRAPH = INSTANCES + "/{instance}"
NODE, EDGE = GRAPH + "/records/{id}", GRAPH + "/edges/{id}"
CHANGES = "The fields to change."
BY_ID = {"id": ("id", "The id of the object.")}
NODE_FIELDS = same("name", "kind", "attributes", "valid_from", "valid_to")
NEW_NODE = same("id") | NODE_FIELDS
NEW_EDGE = same("id", "kind", "from_node_id", "to_node_id")
TEMPLATE_FIELDS = same("name", "description", "record_kinds", "edge_types")
QUERY = ("match", "patterns", "where", "with", "orderBy", "skip", "limit", "return")
VIEW_TEMPLATE_FIELDS = same("name", "description", "applicable_template_ids") | within(
    "query", "", same(*QUERY)
)
PAGE = {
    "limit": ("limit", "The maximum number of items."),
    "cursor": ("cursor", "The cursor in the header Link of the previous page."),
}


def _added(shape: Any, field: str) -> Callable[[Call], Any]:
    """Return a conversion to one new object, or to an array of them in a field."""

    def convert(call: Call) -> Any:
        found = [to_shape(shape, one) for one in call.output["items"]]
        return {field: found} if call.is_batch else found[0]

    return convert


def _flatten(output: Json) -> Json:
    """Return an output with the parts of its query as fields. Only view templates have one."""
    return {**output.get("query", {}), **output}


def _list_page(shape: Any) -> Callable[[Call], web.Response]:
    """Return an answer with a page of objects, and a link to the next page."""

    def answer(call: Call) -> web.Response:
        response = json_response([to_shape(shape, one) for one in call.output["items"]])
        if cursor := call.output["next_cursor"]:
            following = call.request.rel_url.update_query(cursor=cursor)
            response.headers[hdrs.LINK] = f'<{following}>; rel="next"'
        return response

    return answer


KINDS = Crud("graph_templates", "graph template", shapes.GraphTemplate)
QUERIES = Crud("view_templates", "view template", shapes.ViewTemplate, _flatten)
BOUND = Crud("graph_views", "view", shapes.View)
GRAPHS = Crud("instances", "graph", shapes.GraphInstance, fixed={"sort": "graph"})
serve_all(
    CODEBOLT_API,
    routes,
    (
        KINDS.create(
            TEMPLATES,
            Body(
                fields=same("id") | TEMPLATE_FIELDS,
                example="{name, record_kinds, edge_types, description?, id?}",
            ),
        ),
        KINDS.list_all(TEMPLATES),
        KINDS.update(TEMPLATES, Body(fields=TEMPLATE_FIELDS, example=CHANGES), BY_ID),
        KINDS.delete(TEMPLATES, BY_ID),
        QUERIES.create(
            VIEW_TEMPLATES,
            Body(
                fields=same("id") | VIEW_TEMPLATE_FIELDS,
                example="{id?, name, match, patterns?, where?, orderBy?, skip?, limit?, return, "
                "applicable_template_ids?}",
            ),
        ),
        QUERIES.list_all(VIEW_TEMPLATES),
        QUERIES.update(VIEW_TEMPLATES, Body(fields=VIEW_TEMPLATE_FIELDS, example=CHANGES), BY_ID),
        QUERIES.delete(VIEW_TEMPLATES, BY_ID),
        BOUND.create(
            VIEWS,
            Body(
                fields=spell(template_id=("viewTemplateId", "templateId"), instance="instanceId")
                | same("id"),
                example="{id?, viewTemplateId, instanceId}",
            ),
        ),
        BOUND.list_all(
            VIEWS,
            {
                "instanceId": ("instance", "Only views of this graph."),
                "viewTemplateId": ("template_id", "Only views of this template."),
            },
        ),
        BOUND.delete(VIEWS, BY_ID),
        Route(
            "GET",
            VIEWS + "/{id}/execute",
            "graph_views.execute",
            "Run a view.",
            shape=shapes.Rows,
        ),
        GRAPHS.create(
            INSTANCES,
            Body(
                fields=same("name", "description") | spell(template_id="templateId"),
                example="{name, description?, templateId?}",
            ),
        ),
        GRAPHS.list_all(INSTANCES),
        GRAPHS.delete(INSTANCES, BY_ID),
        Route(
            "GET",
            f"{GRAPH}/subgraph",
            "graph.subgraph",
            "Return a part of a graph.",
            shape=shapes.Subgraph,
            query={
                "limit": ("limit", "The maximum number of nodes."),
                "seedNodeId": ("seed_node_id", "The node around which the part lies."),
            },
        ),
        Route(
            "POST",
            f"{GRAPH}/expand-node",
            "graph.expand",
            "Return the neighbors of a node.",
            shape=shapes.Subgraph,
            body=Body(
                fields=spell(node_id="nodeId", exclude_node_ids="excludeNodeIds")
                | same("direction", "limit"),
                example="{nodeId, direction?, limit?, excludeNodeIds?}",
            ),
        ),
        Route(
            "POST",
            f"{GRAPH}/records",
            "graph.add_nodes",
            "Add one node, or all of several.",
            convert=_added(shapes.Node, "records"),
            shape=shapes.Node | shapes.Nodes,
            status=201,
            body=Body(
                fields=within("nodes/0", "", NEW_NODE),
                batch_key="records",
                batch=within("nodes/*", "records/*", NEW_NODE),
                example="{id?, name, kind, attributes?, valid_from?, valid_to?} or {records}",
                read_only=TIMES,
            ),
        ),
        Route(
            "GET",
            f"{GRAPH}/records",
            "graph.list_nodes",
            "List the nodes of a graph.",
            answer=_list_page(shapes.Node),
            shape=array_of(shapes.Node),
            query={"kind": ("kind", "Only nodes of this kind.")} | PAGE,
        ),
        Route(
            "GET",
            NODE,
            "graph.get_node",
            "Return a node.",
            shape=shapes.Node,
        ),
        Route(
            "PUT",
            NODE,
            "graph.update_node",
            "Change a node.",
            shape=shapes.Node,
            body=Body(fields=NODE_FIELDS, example=CHANGES).accept(shapes.Node),
            check=check_id,
        ),
        Route(
            "DELETE",
            NODE,
            "graph.delete_node",
            "Delete a node with its edges.",
            status=204,
        ),
        Route(
            "POST",
            f"{GRAPH}/edges",
            "graph.add_edges",
            "Add one edge, or all of several.",
            convert=_added(shapes.Edge, "edges"),
            shape=shapes.Edge | shapes.Edges,
            status=201,
            body=Body(
                fields=within("edges/0", "", NEW_EDGE),
                batch_key="edges",
                batch=within("edges/*", "edges/*", NEW_EDGE),
                example="{id?, kind, from_node_id, to_node_id} or {edges}",
                read_only=("createdAt",),
            ),
        ),
        Route(
            "GET",
            f"{GRAPH}/edges",
            "graph.list_edges",
            "List the edges of a graph.",
            answer=_list_page(shapes.Edge),
            shape=array_of(shapes.Edge),
            query={
                "kind": ("kind", "Only edges of this kind."),
                "from_node_id": ("from_node_id", "Only edges that begin at this node."),
                "to_node_id": ("to_node_id", "Only edges that end at this node."),
            }
            | PAGE,
        ),
        Route("DELETE", EDGE, "graph.delete_edge", "Delete an edge.", status=204),
    ),
)
