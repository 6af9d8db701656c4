"""The acceptance statements of Codebolt's recipes, over HTTP against a running product."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.listener import TEXT, Listener
from tests.support.recipes import KV, LOG, Project, hours
from tests.support.web_system import WebSystem

TYPES, EVENTS = "/persistent-memory/types", "/persistent-memory/events"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]


@pytest.fixture(scope="module")
def project(web_system: WebSystem) -> Project:
    """A pipeline with the fixture of the statements."""
    project = Project(web_system.url, web_system.deploy())
    project.fill()
    return project


def text_of(project: Project, id: str, pipeline: list[dict[str, Any]], **given: Any) -> str:
    return str(project.run(id, pipeline, **given)["formattedOutput"])


def test_01_a_query_is_derived_and_rewritten(project: Project) -> None:
    intent = {"keywords": ["Preferred", "Contact Method"], "query": "x"}

    result = project.run(
        "s1", [{"type": "derive_query"}, {"type": "rewrite_query"}], {"intent": intent}
    )

    assert result["stepResults"] == {
        "derive_query": "Preferred Contact Method",
        "rewrite_query": "preferred contact method",
    }
    assert result["formattedOutput"] == "preferred contact method"


def test_02_the_result_has_every_part(project: Project) -> None:
    result = project.run("s2", [KV | {"keys": ["theme", "missing", "limits"]}])

    timing = result.pop("timing")
    items = [
        {"id": "prefs/theme", "key": "theme", "value": "dark", "text": "dark"},
        {"id": "prefs/limits", "key": "limits", "value": {"max": 5}, "text": '{"max":5}'},
    ]
    assert result == {
        "success": True,
        "memoryId": "s2",
        "query": "",
        "stepResults": {"kv_get": items},
        "finalOutput": items,
        "formattedOutput": '- dark\n- {"max":5}',
        "exitedEarly": False,
        "contribution": {"section": "knowledge", "priority": "medium", "weight": 2},
        "variables": {"used": [], "missing": []},
        "warnings": [
            {
                "alias": "kv_get",
                "code": "missing_key",
                "message": 'app/prefs has no key "missing"',
            }
        ],
    }
    assert set(timing) == {"totalMs", "steps"} and set(timing["steps"]) == {"kv_get"}
    assert 0 < timing["steps"]["kv_get"] <= timing["totalMs"]


def test_03_the_latest_event_of_each_entity_is_numbered(project: Project) -> None:
    steps = [
        LOG,
        {"type": "reduce_latest", "entityField": "payload.service"},
        {"type": "format", "format": "numbered"},
    ]

    assert text_of(project, "s3", steps) == "1. web 2.1 is live\n2. api 1.1 failed"


def test_04_a_required_variable_selects_the_events(project: Project) -> None:
    project.create(
        "s4",
        [LOG | {"eventType": "${wanted}", "limit": 1}],
        additional_variables=[{"name": "wanted", "required": True}],
        contribution={"format": "prose"},
    )

    result = project.execute("s4", {"variables": {"wanted": "deploy.failed"}})
    refused = project.execute("s4", {}, 422)

    assert result["formattedOutput"] == "api 1.1 failed."
    assert result["variables"]["used"] == ["wanted"]
    assert refused["success"] is False
    assert [one["path"] for one in refused["errors"]] == ["/variables/wanted"]


def test_05_a_filter_compares_without_conversion(project: Project) -> None:
    keep = {"type": "filter", "field": "payload.ms", "operator": "gte", "value": 700}

    assert hours(project.run("s5", [LOG, keep])["finalOutput"]) == [13, 12, 10]
    assert project.run("s5-text", [LOG, keep | {"value": "700"}])["finalOutput"] == []


def test_06_groups_flatten_in_order(project: Project) -> None:
    steps = [LOG, {"type": "group_by", "field": "eventType"}, {"type": "summarize", "max_items": 3}]

    assert text_of(project, "s6", steps) == (
        "- web 2.1 is live\n- api 1.0 is live\n- api 1.1 failed"
    )


@pytest.mark.parametrize(
    ("strategy", "order"), [("interleave", [12, 13, 10, 11]), ("concat", [12, 10, 13, 11])]
)
def test_07_two_results_are_merged(project: Project, strategy: str, order: list[int]) -> None:
    steps = [LOG | {"alias": service, "streamId": service} for service in ("api", "web")]
    merge = {"type": "merge", "sources": ["api", "web"], "strategy": strategy}

    result = project.run(f"s7-{strategy}", [*steps, merge])

    assert hours(result["finalOutput"]) == order


def test_08_weights_score_the_items(project: Project) -> None:
    score = {"type": "score", "weights": {"payload.ms": 0.001, "sequence": 1}, "topK": 2}

    items = project.run("s8", [LOG, score])["finalOutput"]

    assert hours(items) == [12, 13]
    assert [item["score"] for item in items] == [3.5, 2.7]


def test_09_a_condition_chooses_the_branch(project: Project) -> None:
    condition = "results.p.length >= 1 && query.contains('deploy')"
    steps = [
        KV | {"alias": "p"},
        {"type": "conditional", "condition": condition, "thenSteps": [LOG | {"limit": 2}]},
        {"type": "format"},
    ]

    text = text_of(project, "s9", steps, body={"query": "last deploy"})

    assert text == "- web 2.1 is live\n- api 1.1 failed"


def test_10_an_early_exit_ends_the_recipe(project: Project) -> None:
    result = project.run("s10", [KV, {"type": "early_exit", "condition": "results.count > 0"}, LOG])

    assert result["exitedEarly"] is True
    assert "log_search" not in result["stepResults"]
    assert result["formattedOutput"] == "- dark"


def test_11_a_graph_is_expanded(project: Project) -> None:
    steps = [
        {"type": "graph_view_read", "viewId": "people"},
        {"type": "filter", "field": "name", "operator": "eq", "value": "Ada"},
        {"type": "graph_neighbor_expand", "depth": 2, "direction": "outgoing"},
    ]

    items = project.run("s11", steps)["finalOutput"]

    assert [item["name"] for item in items] == ["Ada", "Ben", "API", "Cy", "DB"]
    assert [item.get("score") for item in items] == [None, 0.5, 0.5, 0.3333, 0.3333]


def test_12_an_invalid_definition_is_refused_as_a_whole(project: Project) -> None:
    before = project.ask("GET", TYPES).body

    refused = project.post(
        TYPES, {"label": "x", "retrieval": {"pipeline": [{"type": "vector_serch"}]}}, 422
    )
    bad_id = project.post(TYPES, {"id": "../x", "label": "x"}, 422)

    assert refused == {
        "success": False,
        "error": "the definition has 2 errors",
        "errors": [
            {"path": "/id", "code": "required", "message": "id is missing"},
            {
                "path": "/retrieval/pipeline/0/type",
                "code": "unknown_step",
                "message": 'unknown step type "vector_serch" (did you mean "vector_search"?)',
            },
        ],
    }
    assert [(one["path"], one["code"]) for one in bad_id["errors"]] == [("/id", "bad_id")]
    assert project.ask("GET", TYPES).body == before


def test_13_an_export_restores_the_recipe_and_each_change_is_one_event(
    web_system: WebSystem,
) -> None:
    project = Project(web_system.url, web_system.deploy())
    with Listener(web_system.url, project.uid, path=f"/p/{project.uid}{EVENTS}") as listener:
        project.create("p", [])
        exported = project.ask("GET", f"{TYPES}/p/export").body
        assert project.ask("DELETE", f"{TYPES}/p").status == 204
        config = {"config": exported.decode()}
        project.post("/persistent-memory/import", config)
        assert project.ask("GET", f"{TYPES}/p/export").body == exported
        project.post("/persistent-memory/import", config, 409)
        project.post("/persistent-memory/import", config | {"overwrite": True}, 200)
        events = [listener.receive() for _ in range(4)]
        listener.send(TEXT, b"ping")
        assert listener.receive()["event"] == "pong"

    assert [event["event"] for event in events] == [
        f"persistentMemory:{verb}" for verb in ("created", "deleted", "created", "updated")
    ]
    assert {tuple(event["data"].items()) for event in events} == {
        (("id", "p"), ("label", "p"), ("projectId", project.uid))
    }
