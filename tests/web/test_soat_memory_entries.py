"""Entries over the API of later SOAT versions. Both APIs share one write path."""

import pytest

from tests.support.bundles import Json
from tests.support.keys import await_closed, make_key
from tests.support.soat import EMAIL, MEMORIES, Soat
from tests.support.web_system import WebSystem

ENTRIES = "/api/v1/memory-entries"
FIELDS = {
    "id",
    "memory_id",
    "content",
    "source",
    "source_type",
    "tags",
    "metadata",
    "source_generation_id",
    "source_conversation_id",
    "invalidated_at",
    "superseded_by_entry_id",
    "confirmations",
    "last_confirmed_at",
    "created_at",
    "updated_at",
}


def write(soat: Soat, memory: str, content: str, **keys: object) -> Json:
    answer = soat("POST", ENTRIES, {"memory_id": memory, "content": content} | keys)
    assert answer.status == (201 if answer.json["action"] == "created" else 200), answer
    return dict(answer.json)


def test_an_entry_is_created_updated_and_deleted(soat: Soat) -> None:
    memory = soat.make()
    made = write(
        soat, memory, "tea", source_type="orchestration", tags=["x"], metadata={"seen": {"page": 3}}
    )
    at = f"{ENTRIES}/{made['id']}"

    shown, changed = (
        soat("GET", at),
        soat("PUT", at, {"content": "coffee", "tags": None, "metadata": None}),
    )
    nested = soat("GET", f"{MEMORIES}/{memory}/entries/{made['id']}").json
    gone, missing = soat("DELETE", at), soat("GET", at)

    assert made.keys() == FIELDS | {"action", "score", "why"} and shown.json.keys() == FIELDS
    assert {name: made[name] for name in FIELDS} == shown.json
    assert (made["source_type"], made["source"], made["tags"]) == (
        "orchestration",
        "orchestration",
        ["x"],
    )
    assert made["metadata"] == {"seen": {"page": 3}}
    assert [changed.status, *map(changed.json.get, ("content", "tags", "metadata"))] == [
        200,
        "coffee",
        None,
        None,
    ]
    assert (nested["content"], nested["tags"], nested["metadata"]) == ("coffee", [], {})
    assert (gone.status, gone.body, missing.status) == (204, b"", 404)
    assert missing.json["error"]["message"] == "Memory entry not found"


def test_a_write_is_skipped_or_created_and_merged_on_request(soat: Soat) -> None:
    memory, more = soat.make(), "Customer prefers email, especially for billing inquiries"
    first = write(soat, memory, EMAIL, tags=["a"], metadata={"a": 1, "b": {"c": 1}})

    again = write(soat, memory, "The customer likes email more than phone", metadata={"z": 1})
    apart = write(soat, memory, more)
    soat("DELETE", f"{ENTRIES}/{apart['id']}")
    grown = write(soat, memory, more, mode="merge", tags=["b"], metadata={"b": 2})

    assert [one["action"] for one in (first, again, apart, grown)] == [
        "created",
        "skipped",
        "created",
        "updated",
    ]
    assert again["id"] == grown["id"] == first["id"] and again["metadata"] == {
        "a": 1,
        "b": {"c": 1},
    }
    assert (grown["tags"], grown["metadata"], grown["content"]) == (
        ["a", "b"],
        {"a": 1, "b": 2},
        f"{EMAIL}\n{more}",
    )


def test_a_list_has_limit_and_offset(soat: Soat) -> None:
    memory = soat.make()
    for number in range(7):
        write(soat, memory, f"fact {number}", mode="create", tags=["odd" if number % 2 else "even"])

    def listed(query: str) -> Json:
        return dict(soat("GET", f"{ENTRIES}?memory_id={memory}{query}").json)

    def facts(query: str) -> list[str]:
        return [one["content"][-1] for one in listed(query)["data"]]

    whole = listed("")
    assert {name: whole[name] for name in ("total", "limit", "offset")} == {
        "total": 7,
        "limit": 50,
        "offset": 0,
    }
    assert whole["data"][0].keys() == FIELDS
    assert (
        facts("") == list("0123456")
        and facts("&limit=2&offset=3") == ["3", "4"]
        and facts("&offset=7") == []
    )
    assert facts("&tags=od*&limit=1&offset=1") == ["3"] and listed("&tags=od*")["total"] == 3
    assert (
        listed("&limit=0")["limit"],
        listed("&limit=999")["limit"],
        listed("&limit=x")["limit"],
    ) == (1, 100, 50)
    assert (listed("&offset=-4")["offset"], listed(f"&offset={'9' * 30}")["offset"]) == (0, 0)
    assert listed(f"&offset={2**63 - 1}")["data"] == [] and facts(
        "&include_invalidated=true"
    ) == facts("")
    nested = soat("GET", f"{MEMORIES}/{memory}/entries").json
    assert [one["id"] for one in nested] == [one["id"] for one in whole["data"]]


def test_entries_beyond_one_answer_are_all_listed(soat: Soat) -> None:
    memory, long = soat.make(), "é" * 32_000
    for number in range(9):
        write(soat, memory, f"{long}{number}", mode="create")

    answers = soat("GET", f"{ENTRIES}?memory_id={memory}&limit=8&offset=1").json

    assert [one["content"][-1] for one in answers["data"]] == list("12345678") and answers[
        "total"
    ] == 9


@pytest.mark.parametrize(
    ("method", "path", "body", "message", "meta"),
    [
        (
            "POST",
            ENTRIES,
            {},
            "Missing required field(s): memory_id, content",
            {"missingFields": ["memory_id", "content"]},
        ),
        (
            "POST",
            ENTRIES,
            {"memory_id": "M", "content": ""},
            "Missing required field(s): content",
            {"missingFields": ["content"]},
        ),
        (
            "POST",
            ENTRIES,
            {"memory_id": "MEM", "content": "x", "update_threshold": 1},
            "Unknown field(s): update_threshold",
            {"unknownFields": ["update_threshold"]},
        ),
        (
            "POST",
            ENTRIES,
            {"memory_id": "MEM", "content": "x", "source_type": "weird"},
            "source_type must be 'manual', 'agent'",
            {},
        ),
        (
            "POST",
            ENTRIES,
            {"memory_id": "MEM", "content": "x", "source": "agent", "source_type": "manual"},
            "source and source_type are names of the same field",
            {},
        ),
        (
            "POST",
            ENTRIES,
            {"memoryId": "MEM", "content": "x"},
            "Unknown field(s): memoryId",
            {"unknownFields": ["memoryId"]},
        ),
        ("POST", ENTRIES, {"memory_id": 5, "content": "x"}, "memory_id must be text", {}),
        ("POST", ENTRIES, {"memory_id": "MEM", "content": 5}, "content must be", {}),
        ("POST", ENTRIES, {"memory_id": "MEM", "content": "x", "tags": "x"}, "tags must be", {}),
        (
            "POST",
            ENTRIES,
            {"memory_id": "MEM", "content": "x", "metadata": []},
            "metadata must be",
            {},
        ),
        ("POST", ENTRIES, b"{", "the body is not valid JSON", {}),
        ("POST", ENTRIES, b"[]", "the body must be a JSON object", {}),
        (
            "GET",
            ENTRIES,
            b"",
            "Missing required field(s): memory_id",
            {"missingFields": ["memory_id"]},
        ),
        ("GET", f"{ENTRIES}?memory_id=MEM&colour=1", b"", "unknown parameter 'colour'", {}),
        ("PUT", f"{ENTRIES}/ME", {"content": ""}, "content is required", {}),
        (
            "PUT",
            f"{ENTRIES}/ME",
            {"source_type": "agent"},
            "Unknown field(s): source_type",
            {"unknownFields": ["source_type"]},
        ),
    ],
)
def test_errors_have_the_later_shape(
    soat: Soat, method: str, path: str, body: Json | bytes, *, message: str, meta: Json
) -> None:
    memory = soat.make()
    entry = write(soat, memory, "tea")["id"]
    body = (
        {name: memory if value == "MEM" else value for name, value in body.items()}
        if isinstance(body, dict)
        else body
    )

    answer = soat(method, path.replace("=MEM", f"={memory}").replace("/ME", f"/{entry}"), body)

    assert (answer.status, answer.json["error"]["code"]) == (400, "VALIDATION_FAILED"), answer
    assert answer.json["error"]["message"].startswith(message)
    assert meta.items() <= answer.json["error"]["meta"].items()


def test_a_key_belongs_to_one_call_of_either_shape(soat: Soat) -> None:
    memory, keyed = soat.make(), {"Idempotency_Key": "later-1"}
    first = soat("POST", ENTRIES, {"memory_id": memory, "content": EMAIL, "mode": "merge"}, **keyed)

    nested = soat(
        "POST", f"{MEMORIES}/{memory}/entries", {"content": EMAIL, "mode": "merge"}, **keyed
    )
    other = soat(
        "POST",
        ENTRIES,
        {"memory_id": memory, "content": "Something else", "mode": "merge"},
        **keyed,
    )

    assert (first.status, nested.status, first.json["id"]) == (201, 201, nested.json["id"])
    assert (other.status, other.json["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert "a key of its own" in other.json["error"]["meta"]["detail"]


def routes(memory: str, entry: str) -> list[tuple[str, str, str, Json | bytes]]:
    """Return (scope, method, path, body) of all routes."""
    return [
        ("write", "POST", ENTRIES, {"memory_id": memory, "content": "x"}),
        ("read", "GET", f"{ENTRIES}?memory_id={memory}", b""),
        ("read", "GET", f"{ENTRIES}/{entry}", b""),
        ("write", "PUT", f"{ENTRIES}/{entry}", {"content": "y"}),
        ("delete", "DELETE", f"{ENTRIES}/{entry}", b""),
    ]


def test_every_route_rejects_strangers_weaker_keys_and_other_pipelines() -> None:
    with WebSystem() as web_system:
        uid, other = web_system.deploy(), web_system.deploy()
        soat = Soat(web_system, uid)
        memory = soat.make()
        entry = write(soat, memory, EMAIL)["id"]
        root = web_system.system.root
        lesser = {
            scope: make_key(
                root,
                *[one for one in ("read", "write", "search", "delete") if one != scope],
                pipelines=(uid,),
            )
            for scope in ("read", "write", "delete")
        }
        alone = {scope: make_key(root, scope, pipelines=(uid,)) for scope in lesser}
        foreign, mine = make_key(root, pipelines=(other,)), make_key(root, pipelines=(uid,))
        await_closed(web_system)

        for scope, method, path, body in routes(memory, entry):
            answers = [soat(method, path, body, key) for key in (None, lesser[scope], foreign)]
            codes = [(answer.status, answer.json["error"]["code"]) for answer in answers]
            assert codes == [
                (401, "UNAUTHORIZED"),
                (403, "FORBIDDEN"),
                (404, "RESOURCE_NOT_FOUND"),
            ], path
            nobody = "Memory entry not found" if entry in path else "Memory not found"
            assert answers[2].json["error"]["message"] == nobody, path
        for _, method, path, body in routes("mem_nobody", "me_nobody"):
            assert soat(method, path, body, mine).status == 404, path
        for scope, method, path, body in routes(memory, entry):
            assert soat(method, path, body, alone[scope]).status in (200, 201, 204), path
