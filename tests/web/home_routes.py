"""The methods and paths of the operations that have a home of their own."""

AGENT_MEMORY = {
    *[(method, "/checkpoints") for method in ("GET", "DELETE")],
    *[(method, "/checkpoints/{id}") for method in ("GET", "PUT")],
    ("POST", "/checkpoints/{id}/write"),
    *[("POST", f"/checkpoints/{verb}") for verb in ("copy", "prune", "forget_runs")],
    *[("POST", f"/conversations/{verb}") for verb in ("history", "clear")],
    *[("GET", f"/{noun}") for noun in ("facts", "procedures", "episodes", "users")],
    *[("POST", f"/{noun}/delete_many") for noun in ("facts", "procedures", "episodes", "users")],
    *[("GET", f"/{noun}/{{id}}") for noun in ("procedures", "episodes", "users")],
    ("GET", "/facts/{key}"),
    ("DELETE", "/facts/{id}"),
    ("POST", "/facts/search"),
    *[("POST", f"/facts/{{key}}/{verb}") for verb in ("recall", "set")],
    *[("POST", f"/procedures/{verb}") for verb in ("match", "save", "{id}/retire", "{id}/use")],
    ("POST", "/episodes/begin"),
    *[("POST", f"/episodes/{{id}}/{verb}") for verb in ("add", "complete", "rate")],
    ("POST", "/users/identify"),
    ("PATCH", "/users/{id}"),
    ("GET", "/users/{id}/context"),
    *[("POST", f"/users/{{id}}/{verb}") for verb in ("merge", "forget")],
}
RECIPES = {
    *[
        ("POST", f"/graph/{verb}")
        for verb in ("add_edges", "add_nodes", "expand", "list_edges", "list_nodes", "subgraph")
    ],
    *[("POST", f"/graph/{{id}}/{verb}") for verb in ("delete_edge", "delete_node", "update_node")],
    ("GET", "/graph/{id}/get_node"),
    *[
        ("POST", f"/knowledge_graph/{verb}_{things}")
        for verb, things in (
            ("create", "entities"),
            ("create", "relations"),
            ("add", "observations"),
            ("delete", "entities"),
            ("delete", "observations"),
            ("delete", "relations"),
        )
    ],
    *[("POST", f"/knowledge_graph/{verb}") for verb in ("open", "read", "search")],
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
    ("GET", "/graph_views"),
    ("POST", "/graph_views"),
    ("GET", "/graph_views/{id}"),
    ("DELETE", "/graph_views/{id}"),
    ("GET", "/graph_views/{id}/execute"),
    *[(method, "/instances") for method in ("GET", "POST")],
    *[(method, "/instances/{id}") for method in ("GET", "PATCH", "DELETE")],
    ("GET", "/kv"),
    ("DELETE", "/kv/{key}"),
    *[("POST", f"/kv/{verb}") for verb in ("clear", "count", "namespaces", "query", "{key}/set")],
    *[("POST", f"/events/{verb}") for verb in ("append", "query")],
    *[(method, "/documents/{uri}") for method in ("GET", "PUT", "DELETE")],
    ("GET", "/documents"),
    *[("POST", f"/documents/{verb}") for verb in ("search", "collections")],
    *[(method, "/recipes") for method in ("GET", "POST")],
    *[(method, "/recipes/{id}") for method in ("GET", "PATCH", "DELETE")],
    *[("POST", f"/recipes/{verb}") for verb in ("execute", "import", "specs", "validate")],
    *[("POST", f"/recipes/{verb}") for verb in ("changes", "store")],
    *[("GET", "/recipes/{id}/export"), ("POST", "/recipes/{id}/duplicate")],
    *[(method, "/rules") for method in ("GET", "POST")],
    *[(method, "/rules/{id}") for method in ("GET", "PATCH", "DELETE")],
    *[("POST", f"/rules/{verb}") for verb in ("evaluate", "variables")],
    *[("POST", f"/assembly/{verb}") for verb in ("assemble", "required_variables", "validate")],
}
