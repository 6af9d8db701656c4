"""The routes of graphs and their views, as (method, path below the pipeline)."""

GRAPH_ROUTES = {
    *[
        ("POST", f"/graph/{verb}")
        for verb in ("add_edges", "add_nodes", "expand", "list_edges", "list_nodes", "subgraph")
    ],
    *[("POST", f"/graph/{{id}}/{verb}") for verb in ("delete_edge", "delete_node", "update_node")],
    ("GET", "/graph/{id}/get_node"),
    *[
        (method, f"/{noun}{path}")
        for noun in ("graph_templates", "view_templates")
        for method, path in (
            ("GET", ""),
            ("POST", ""),
            ("GET", "/{id}"),
            ("PATCH", "/{id}"),
            ("DELETE", "/{id}"),
        )
    ],
    ("GET", "/views"),
    ("POST", "/views"),
    ("GET", "/views/{id}"),
    ("DELETE", "/views/{id}"),
    ("GET", "/views/{id}/execute"),
}
