"""Every step type, format, section, priority, scope, operator, and definition field of Codebolt's
documents is used over HTTP against a running product.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.recipes import KV, LOG, Project
from tests.support.web_system import WebSystem

Steps = list[dict[str, Any]]
PEOPLE = {"type": "graph_view_read", "viewId": "people"}
ADA = {"type": "filter", "field": "name", "operator": "eq", "value": "Ada"}
TWO = LOG | {"limit": 2}
TWO_TEXTS = "- web 2.1 is live\n- api 1.1 failed"
# By step type: a recipe, the body of its execution, and its output.
STEPS: dict[str, tuple[Steps, dict[str, Any], str]] = {
    "derive_query": ([{"type": "derive_query"}], {"intent": {"action": "Pay"}}, "Pay"),
    "rewrite_query": ([{"type": "rewrite_query"}], {"query": "  Last  DEPLOY "}, "last deploy"),
    "vector_search": (
        [{"type": "vector_search", "collection": "guides", "minScore": 0}],
        {"query": "roll back a deploy"},
        "- To roll back a deploy, run the command rollback.",
    ),
    "graph_view_read": ([PEOPLE], {}, "- Ada\n- Ben\n- Cy"),
    "kv_get": ([KV], {}, "- dark"),
    "log_search": ([TWO], {}, TWO_TEXTS),
    "graph_view_expand": (
        [PEOPLE, ADA, {"type": "graph_view_expand", "viewId": "owned"}],
        {},
        "- Ada\n- API",
    ),
    "graph_neighbor_expand": (
        [PEOPLE, ADA, {"type": "graph_neighbor_expand", "edges": ["knows"]}],
        {},
        "- Ada\n- Ben",
    ),
    "filter": ([PEOPLE, ADA], {}, "- Ada"),
    "deduplicate": ([LOG, {"type": "deduplicate", "field": "streamId"}], {}, TWO_TEXTS),
    "group_by": ([TWO, {"type": "group_by", "field": "streamId"}], {}, TWO_TEXTS),
    "reduce_latest": ([LOG, {"type": "reduce_latest", "entityField": "streamId"}], {}, TWO_TEXTS),
    "merge": (
        [KV, TWO, {"type": "merge", "sources": ["kv_get", "log_search"]}],
        {},
        f"- dark\n{TWO_TEXTS}",
    ),
    "rank": ([LOG, {"type": "rank", "strategy": "recency", "topK": 2}], {}, TWO_TEXTS),
    "score": (
        [LOG, {"type": "score", "weights": {"payload.ms": 1}, "topK": 1}],
        {},
        "- api 1.1 failed",
    ),
    "summarize": ([LOG, {"type": "summarize", "max_items": 2}], {}, TWO_TEXTS),
    "format": ([TWO, {"type": "format", "format": "bullet_list"}], {}, TWO_TEXTS),
    "annotate": ([TWO, {"type": "annotate", "label": "log"}], {}, TWO_TEXTS),
    "conditional": (
        [{"type": "conditional", "condition": "query == 'x'", "elseSteps": [TWO]}],
        {},
        TWO_TEXTS,
    ),
    "early_exit": (
        [KV, {"type": "early_exit", "condition": "results.kv_get.length == 1"}, LOG],
        {},
        "- dark",
    ),
    "custom": (
        [TWO, {"type": "custom", "handler": "pick", "args": {"fields": ["text"]}}],
        {},
        TWO_TEXTS,
    ),
}
FORMATS = {
    "bullet_list": "- dark",
    "numbered": "1. dark",
    "prose": "dark.",
    "json": '[{"id":"prefs/theme","key":"theme","value":"dark","text":"dark"}]',
    "markdown": "- **theme**: dark",
}
SECTIONS = (
    "state",
    "warnings",
    "knowledge",
    "history",
    "constraints",
    "suggestions",
    "working_memory",
)
WEIGHTS = {"low": 1, "medium": 2, "high": 3, "critical": 4}
SCOPES = {
    "swarm": ("swarm_id", "swarm_name"),
    "agent": ("agent_id", "agent_name", "agent_type"),
    "project": ("project_id", "project_path"),
    "orchestrator": ("orchestrator_id",),
    "thread": ("thread_id",),
    "task": ("task_id", "task_type"),
    "user": ("user_id",),
    "org": ("org_id",),
}
# By operator: a value for `payload.ms` or `eventType`, and the number of the four events it keeps.
OPERATORS: dict[str, tuple[str, Any, int]] = {
    "eq": ("payload.ms", 900, 1),
    "neq": ("payload.ms", 900, 3),
    "gt": ("payload.ms", 900, 1),
    "lt": ("payload.ms", 900, 2),
    "gte": ("payload.ms", 900, 2),
    "lte": ("payload.ms", 900, 3),
    "contains": ("eventType", "ploy.f", 2),
    "startsWith": ("streamId", "a", 2),
    "endsWith": ("eventType", ".ok", 2),
    "in": ("payload.ms", [300, 700], 2),
    "exists": ("payload.none", False, 4),
}
FIELDS: dict[str, Any] = {
    "id": "whole",
    "label": "Whole",
    "description": "every field",
    "version": "2.1.0-rc.1",
    "status": "deprecated",
    "inputs_scope": ["task", "user"],
    "additional_variables": [
        {
            "name": "wanted",
            "description": "a type",
            "required": False,
            "type": "string",
            "default": "deploy.ok",
        }
    ],
    "retrieval": {"pipeline": [LOG | {"alias": "log", "eventType": "${wanted}"}]},
    "contribution": {
        "section": "history",
        "priority": "high",
        "format": "numbered",
        "max_items": 1,
    },
}


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with WebSystem(WEB__RATE="0") as web_system:
        project = Project(web_system.url, web_system.deploy())
        project.fill()
        _fill_further(project)
        yield project


def _fill_further(project: Project) -> None:
    """Add a document, and a view of what a person owns."""
    text = "To roll back a deploy, run the command rollback."
    path = f"/v1/pipelines/{project.uid}/documents/rollback.md"
    put = project.ask("PUT", path, {"collection": "guides", "text": text})
    assert put.status == 200, put
    template = {
        "id": "o",
        "name": "o",
        "match": {"alias": "a", "recordKind": "person"},
        "patterns": [{"from": "a", "edge": "owns", "to": {"alias": "b"}, "direction": "outgoing"}],
        "return": [{"expression": "b.name", "alias": "name"}],
    }
    project.post("/kg/view-templates", template)
    view = {"id": "owned", "viewTemplateId": "o", "instanceId": "team"}
    project.post("/kg/views", view)


def test_the_specs_list_each_step_type_once(project: Project) -> None:
    specs = project.ask("GET", "/persistent-memory/step-specs").json
    configurable = project.ask("GET", "/persistent-memory/step-specs/user-configurable").json

    assert sorted(one["type"] for one in specs) == sorted(STEPS)
    assert [one for one in specs if one["type"] != "custom"] == configurable
    for spec in specs:
        assert set(spec) == {"type", "category", "description", "inputs", "outputs", "params"}
        for param in spec["params"]:
            fields = {"name", "type", "required", "default", "enum", "description"}
            assert set(param) <= fields and param["description"], (spec["type"], param)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_type_runs(project: Project, step: str) -> None:
    pipeline, body, expected = STEPS[step]

    result = project.run(f"step-{step}", pipeline, body)

    assert result["success"] is True, result
    assert step in result["stepResults"]
    assert result["formattedOutput"] == expected


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_is_rendered(project: Project, format: str) -> None:
    steps = [KV, {"type": "format", "format": format}]

    assert project.run(f"format-{format}", steps)["formattedOutput"] == FORMATS[format]
    if format != "markdown":
        result = project.run(f"as-{format}", [KV], contribution={"format": format})
        assert result["formattedOutput"] == FORMATS[format]


@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_filters(project: Project, operator: str) -> None:
    field, value, kept = OPERATORS[operator]
    step = {"type": "filter", "field": field, "operator": operator, "value": value}

    assert len(project.run(f"operator-{operator}", [LOG, step])["finalOutput"]) == kept


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_is_contributed_to(project: Project, section: str) -> None:
    result = project.run(f"section-{section}", [KV], contribution={"section": section})

    assert result["contribution"]["section"] == section


@pytest.mark.parametrize("priority", WEIGHTS)
def test_each_priority_has_its_weight(project: Project, priority: str) -> None:
    result = project.run(f"priority-{priority}", [KV], contribution={"priority": priority})

    assert result["contribution"]["weight"] == WEIGHTS[priority]


@pytest.mark.parametrize("scope", SCOPES)
def test_each_scope_gives_its_variables(project: Project, scope: str) -> None:
    names = SCOPES[scope]
    text = "/".join(f"${{{name}}}" for name in names)
    steps = [LOG | {"limit": 1}, {"type": "annotate", "label": text}]
    given = {name: f"value of {name}" for name in names}

    result = project.run(
        f"scope-{scope}", steps, {"scope_variables": {scope: given}}, inputs_scope=[scope]
    )

    # The id of the project is that of the pipeline.
    expected = given | ({"project_id": project.uid} if scope == "project" else {})
    label = result["finalOutput"][0]["provenance"]["label"]
    assert label == "/".join(expected[name] for name in names)


def test_each_field_of_a_definition_is_kept_and_used(project: Project) -> None:
    created = project.post("/persistent-memory/types", FIELDS)
    read = project.ask("GET", "/persistent-memory/types/whole").json
    result = project.execute("whole")

    assert created == read
    assert {name: read[name] for name in FIELDS} == FIELDS
    assert set(read) - set(FIELDS) == {"createdAt", "updatedAt"}
    assert result["formattedOutput"] == "1. web 2.1 is live"
    assert result["contribution"] == {"section": "history", "priority": "high", "weight": 3}
    assert [one["code"] for one in result["warnings"]] == ["deprecated"]
