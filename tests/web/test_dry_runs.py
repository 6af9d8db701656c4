"""A dry run over HTTP: what a write would do, with no trace of it."""

from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem

FACT = "Customer prefers email over phone calls"


def write(
    web_system: WebSystem, uid: str, content: str, *, dry_run: bool, **headers: str
) -> Answer:
    body = {"memory": "notes", "content": content, "dry_run": dry_run}
    return ask(web_system.url, "POST", f"/v1/pipelines/{uid}/entries", body, headers)


def test_a_dry_run_answers_200_and_names_no_new_entry(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    planned = write(web_system, uid, FACT, dry_run=True)
    written = write(web_system, uid, FACT, dry_run=False)
    repeated = write(web_system, uid, FACT.upper(), dry_run=True)

    assert (planned.status, planned.json["action"], planned.json["id"]) == (200, "created", "")
    assert not {"location", "etag"} & {name.lower() for name in planned.headers}
    assert (written.status, written.json["action"]) == (201, "created")
    assert repeated.json | {"action": "", "why": ""} == written.json | {
        "action": "",
        "why": "",
        "score": 1.0,
        "confirmations": 1,
        "last_confirmed_at": repeated.json["last_confirmed_at"],
    }
    memory = written.json["memory_id"]
    listed = web_system.get(f"/v1/pipelines/{uid}/entries?memory_id={memory}")
    assert [one["confirmations"] for one in listed.json["items"]] == [0]


def test_the_document_of_the_api_describes_the_field(web_system: WebSystem) -> None:
    document = web_system.get("/openapi.json").json

    operation = document["paths"]["/v1/pipelines/{uid}/entries"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    fields = (document["components"]["schemas"][name] if name else schema)["properties"]
    assert fields["dry_run"]["type"] == "boolean" and fields["dry_run"]["description"]
    assert "dry run" in operation["responses"]["200"]["description"]
    soat = document["paths"]["/api/v1/memories/{memory_id}/entries"]["post"]
    assert "dry_run" not in str(soat)


def test_soats_paths_refuse_the_field(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    memory = write(web_system, uid, FACT, dry_run=False).json["memory_id"]

    for path, body in (
        (f"/api/v1/memories/{memory}/entries", {"content": FACT, "dry_run": True}),
        ("/api/v1/memory-entries", {"memory_id": memory, "content": FACT, "dry_run": True}),
    ):
        assert web_system.post(path, body).status == 400
