"""Named memories over SOAT's API: documented examples, concurrency, tenants, and errors."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.bundles import Json
from tests.support.keys import await_closed, make_key
from tests.support.soat import EMAIL, FACTS, MEMORIES, Soat
from tests.support.web_system import WebSystem


def test_the_four_writes_in_soats_documentation(soat: Soat) -> None:
    memory = soat.make()

    first = soat.write(memory, EMAIL)
    again = soat.write(memory, "The customer likes email more than phone")
    more = soat.write(memory, "Customer prefers email, especially for billing inquiries")
    other = soat.write(memory, "Customer fiscal year ends in March")

    assert (first.status, first.json["action"], first.json["content"]) == (201, "created", EMAIL)
    assert (again.status, again.json["action"], again.json["content"]) == (200, "skipped", EMAIL), (
        again.json
    )
    assert (more.status, more.json["action"]) == (200, "updated"), more.json
    assert (
        more.json["content"] == f"{EMAIL}\nCustomer prefers email, especially for billing inquiries"
    )
    assert {first.json["id"], again.json["id"]} == {more.json["id"]} and first.json[
        "id"
    ].startswith("me_")
    assert (other.status, other.json["action"]) == (201, "created"), other.json
    assert (
        again.json["confirmations"] == 1
        and first.json["source"] == first.json["source_type"] == "manual"
    )


def test_v1_replaces_an_old_state_and_soats_path_appends_the_new_one(soat: Soat) -> None:
    old, new = "The user prefers aisle seats", "The user prefers window seats"
    by_soat, by_v1 = soat.make("soat"), soat.make("v1")
    path = f"/v1/pipelines/{soat.uid}/entries"

    for text in (old, new):
        appended = soat.write(by_soat, text).json
        replaced = soat("POST", path, {"memory_id": by_v1, "content": text}).json
    seed = soat("POST", path, {"memory_id": by_v1, "content": old, "mode": None}).json

    assert (appended["action"], appended["content"]) == ("updated", f"{old}\n{new}")
    assert (replaced["content"], replaced["replaced"]) == (new, [old])
    assert (seed["content"], seed["replaced"]) == (f"{new}\n{old}", [])


def test_facts_in_a_script_unknown_to_the_embedder_are_distinguished(soat: Soat) -> None:
    memory = soat.make()

    written = [soat.write(memory, text).json for text in ("ฉันชอบชา", "แมวของฉันชื่อมีมี", "ฉันชอบชา ")]

    assert [one["action"] for one in written] == ["created", "created", "skipped"], written


def test_256_identical_concurrent_writes_make_one_entry(soat: Soat) -> None:
    memory = soat.make()

    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda _: soat.write(memory, EMAIL), range(256)))

    assert sorted({answer.status for answer in answers}) == [200, 201]
    assert [answer.json["action"] for answer in answers].count("created") == 1
    assert len({answer.json["id"] for answer in answers}) == 1
    (entry,) = soat("GET", FACTS.format(memory=memory)).json
    assert (entry["content"], entry["confirmations"]) == (EMAIL, 255)


def test_a_key_belongs_to_one_call(soat: Soat) -> None:
    memory, keyed = soat.make(), {"Idempotency_Key": "fact-1"}
    at = FACTS.format(memory=memory)
    first = soat("POST", at, {"content": EMAIL, "source": "agent"}, **keyed)

    again = soat("POST", at, {"sourceType": "agent", "content": EMAIL, "tags": None}, **keyed)
    others = [
        soat("POST", at, {"content": "Something else"}, **keyed),
        soat("DELETE", f"{MEMORIES}/{memory}", **keyed),
        soat("POST", MEMORIES, {"project_id": soat.uid, "name": "x"}, **keyed),
    ]

    assert (first.status, first.body) == (again.status, again.body) and first.json[
        "confirmations"
    ] == 0
    assert {answer.status for answer in others} == {422}
    assert all(
        "'fact-1' was used" in answer.json["error"] and "key of its own" in answer.json["detail"]
        for answer in others
    )
    assert [one["content"] for one in soat("GET", at).json] == [EMAIL]


def test_the_tags_in_soats_documentation(soat: Soat) -> None:
    tagged = {
        "a": ["customer", "crm", "user-prefs"],
        "b": ["customer-support"],
        "c": ["user-xrefs"],
        "d": None,
    }
    for name, tags in tagged.items():
        soat.make(name, tags=tags)

    assert soat.names("tags=crm") == ["a"] and soat.names("tags=customer*") == ["a", "b"]
    assert soat.names("tags=user-?refs") == ["a", "c"] and soat.names(
        "tags=customer*&tags=user-x*"
    ) == ["a", "b", "c"]
    assert soat.names("tags=CRM") == soat.names("tags=user_prefs") == soat.names("tags=%25") == []
    assert {"a", "b", "c", "d"} <= set(soat.names("tags="))


def test_a_list_has_all_items_once_despite_paging(soat: Soat) -> None:
    uid, made = soat.web_system.deploy(), 1_003
    with ThreadPoolExecutor(16) as threads:
        paths = [f"/v1/pipelines/{uid}/memories"] * made
        assert {
            answer.status
            for answer in threads.map(lambda path: soat("POST", path, {"name": "n"}), paths)
        } == {201}

    listed, everywhere = (
        soat("GET", f"{MEMORIES}?project_id={uid}").json,
        soat("GET", MEMORIES).json,
    )

    assert len({one["id"] for one in listed}) == len(listed) == made
    assert [one for one in everywhere if one["project_id"] == uid] == sorted(
        listed, key=lambda one: (one["created_at"], one["id"])
    )


def test_a_memory_and_an_entry_are_created_updated_and_deleted(soat: Soat) -> None:
    made = soat(
        "POST", MEMORIES, {"projectId": soat.uid, "name": "n", "description": "d", "tags": ["t"]}
    )
    at = f"{MEMORIES}/{made.json['id']}"
    changed = soat("PUT", at, {"name": "m", "description": None})
    entry = soat("POST", f"{at}/entries", {"content": "tea", "source": "agent", "tags": ["x"]}).json
    edited = soat("PUT", f"{at}/entries/{entry['id']}", {"content": "coffee"})
    shown = soat("GET", f"{at}/entries/{entry['id']}")
    gone = soat("DELETE", f"{at}/entries/{entry['id']}")
    ended = soat("DELETE", at)

    assert made.status == 201 and set(made.json) == {
        "id",
        "project_id",
        "name",
        "description",
        "tags",
        "created_at",
        "updated_at",
    }
    assert (
        changed.status,
        changed.json["name"],
        changed.json["description"],
        changed.json["tags"],
    ) == (200, "m", None, ["t"])
    assert edited.json == shown.json and (shown.json["content"], shown.json["source"]) == (
        "coffee",
        "agent",
    )
    assert (gone.status, ended.status) == (204, 204)
    assert soat("GET", at).json["error"] == "Memory not found"


def test_the_seeds_sentences_get_their_actions_without_a_pause(soat: Soat) -> None:
    memory = soat.make()
    told = [
        soat.write(memory, text)
        for text in (
            EMAIL,
            "Customer prefers email, especially for billing inquiries",
            "The customer likes email more than phone",
            "Customer fiscal year ends in March",
        )
    ]

    assert [(one.status, one.json["action"]) for one in told] == [
        (201, "created"),
        (200, "updated"),
        (200, "skipped"),
        (201, "created"),
    ]


def test_knowledge_is_found_by_meaning(soat: Soat) -> None:
    memory, other = (
        soat.make("Preferences", tags=["customer-1"]),
        soat.make("Other", tags=["other"]),
    )
    soat.write(memory, EMAIL)
    soat.write(memory, "The office has a red door")
    soat.write(other, "Customer prefers fax")

    answer = soat(
        "POST",
        "/api/v1/knowledge/search",
        {
            "project_id": soat.uid,
            "query": "preferred contact method",
            "memory_tags": ["customer-1*"],
            "min_score": 0.6,
        },
    )

    assert answer.status == 200 and answer.json["degraded"] is False, answer.json
    best = answer.json["results"][0]
    assert (best["content"], best["memory_name"], best["memory_id"], best["source_type"]) == (
        EMAIL,
        "Preferences",
        memory,
        "memory",
    )
    assert best["score"] == best["similarity_score"] >= 0.6 and "meaning" in best["why"]
    assert all(one["memory_id"] == memory for one in answer.json["results"])
    by_id = soat(
        "POST",
        "/api/v1/knowledge/search",
        {"query": "contact", "memory_ids": [other, "mem_none", "x"]},
    ).json
    assert {one["memory_id"] for one in by_id["results"]} <= {other}
    listed = soat("POST", "/api/v1/knowledge/search", {"memory_ids": memory}).json["results"]
    assert [one["content"] for one in listed] == [
        EMAIL,
        "The office has a red door",
    ] and "score" not in listed[0]


def test_the_documented_search_and_looser_questions_find_the_entry(soat: Soat) -> None:
    memory = soat.make("Customer", tags=["customer-7"])
    soat.write(memory, EMAIL)
    soat.write(memory, "The office has a red door")

    def found(query: str, **keys: object) -> list[Json]:
        body = {"project_id": soat.uid, "query": query, "memory_tags": ["customer-7*"]} | keys
        return list(soat("POST", "/api/v1/knowledge/search", body).json["results"])

    best = [
        found(query)[0]
        for query in (
            "preferred contact method",
            "how should I reach them?",
            "ways to get in touch",
        )
    ]

    assert [one["content"] for one in best] == [EMAIL] * 3
    assert [one["score"] >= 0.6 for one in best] == [True, False, True]
    assert found("ways to get in touch", min_score=0.9) == []
    assert [one["content"] for one in found("preferred contact method", limit=1)] == [EMAIL]


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("POST", MEMORIES, {"project_id": "UID"}, "name is required"),
        ("POST", MEMORIES, {"name": "x"}, "project_id is required"),
        ("POST", MEMORIES, {"project_id": "UID", "name": "x", "tags": "x"}, "tags "),
        (
            "POST",
            MEMORIES,
            {"project_id": "UID", "name": "x", "colour": 1},
            "unknown field 'colour'",
        ),
        ("POST", MEMORIES, b"{", "the body is not valid JSON"),
        ("PUT", f"{MEMORIES}/MEM", {"name": None}, "name is required"),
        ("POST", f"{MEMORIES}/MEM/entries", {}, "content is required"),
        ("POST", f"{MEMORIES}/MEM/entries", {"content": 1}, "content "),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "duplicate_threshold": -1},
            "duplicate_threshold ",
        ),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "source": "agent", "source_type": "manual"},
            "source and source_type",
        ),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "source_type": "agent", "sourceType": "manual"},
            "source_type is given in two spellings",
        ),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "source_type": "weird"},
            "source_type must be 'manual', 'agent'",
        ),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "sourceType": ["agent"]},
            "source_type must be 'manual', 'agent'",
        ),
        (
            "POST",
            f"{MEMORIES}/MEM/entries",
            {"content": "x", "source": "weird"},
            "source must be 'manual', 'agent'",
        ),
        ("POST", "/api/v1/knowledge/search", {"limit": 3}, "At least one of query"),
        ("POST", "/api/v1/knowledge/search", {"query": " \n"}, "At least one of query"),
        (
            "POST",
            MEMORIES,
            {"project_id": "UID", "name": "x", "tags": ["t"] * 65},
            "tags must have at most 64 items, not 65",
        ),
        (
            "POST",
            MEMORIES,
            {"project_id": "UID", "name": "x" * 257},
            "name must have at most 256 characters",
        ),
        ("POST", MEMORIES, {"project_id": 5, "name": "x"}, "Invalid project ID"),
        ("POST", MEMORIES, b"[]", "the body must be a JSON object"),
        ("POST", "/api/v1/knowledge/search", {"query": "x", "limit": -3}, "limit "),
        ("POST", "/api/v1/knowledge/search", {"query": "x", "project_id": 5}, "Invalid project ID"),
        (
            "POST",
            "/api/v1/knowledge/search",
            {"memory_ids": ["mem_none"], "limit": "3"},
            "limit must be",
        ),
        ("POST", "/api/v1/knowledge/search", {"memory_ids": [5]}, "memory_ids.0 must be"),
        (
            "POST",
            "/api/v1/knowledge/search",
            {"query": "x", "document_ids": ["x"], "limit": 1.5},
            "limit must be",
        ),
    ],
)
def test_errors_have_soats_texts(
    soat: Soat, method: str, path: str, body: Json | bytes, error: str
) -> None:
    memory = soat.make()
    body = (
        {name: soat.uid if value == "UID" else value for name, value in body.items()}
        if isinstance(body, dict)
        else body
    )

    answer = soat(method, path.replace("MEM", memory), body)

    assert answer.status == 400 and answer.json["error"].startswith(error), answer


def routes(uid: str, memory: str, entry: str) -> list[tuple[str, str, str, Json | bytes]]:
    """Return (scope, method, path, body) of all routes."""
    at = f"{MEMORIES}/{memory}"
    return [
        ("write", "POST", MEMORIES, {"project_id": uid, "name": "x"}),
        ("read", "GET", f"{MEMORIES}?project_id={uid}", b""),
        ("read", "GET", at, b""),
        ("write", "PUT", at, {"name": "y"}),
        ("write", "POST", f"{at}/entries", {"content": "x"}),
        ("read", "GET", f"{at}/entries", b""),
        ("read", "GET", f"{at}/entries/{entry}", b""),
        ("write", "PUT", f"{at}/entries/{entry}", {"content": "y"}),
        ("delete", "DELETE", f"{at}/entries/{entry}", b""),
        ("delete", "DELETE", at, b""),
        ("search", "POST", "/api/v1/knowledge/search", {"project_id": uid, "query": "x"}),
    ]


def test_every_route_rejects_strangers_weaker_keys_and_other_pipelines() -> None:
    with WebSystem() as web_system:
        uid, other = web_system.deploy(), web_system.deploy()
        soat = Soat(web_system, uid)
        memory, theirs = soat.make(), Soat(web_system, other).make()
        entry = soat.write(memory, EMAIL).json["id"]
        root = web_system.system.root
        keys = {
            scope: make_key(
                root,
                *[one for one in ("read", "write", "search", "delete") if one != scope],
                pipelines=(uid,),
            )
            for scope in ("read", "write", "search", "delete")
        }
        foreign, mine = make_key(root, pipelines=(other,)), make_key(root, pipelines=(uid,))
        await_closed(web_system)
        for scope, method, path, body in routes(uid, memory, entry):
            stranger, lesser, alien = [
                soat(method, path, body, key) for key in (None, keys[scope], foreign)
            ]
            assert (stranger.status, stranger.json["error"]) == (401, "Unauthorized"), path
            assert (lesser.status, lesser.json["error"]) == (403, "Forbidden"), path
            named = "project_id" in path or (isinstance(body, dict) and "project_id" in body)
            assert (alien.status, alien.json["error"]) == (
                (403, "Forbidden") if named else (404, "Memory not found")
            ), path
        for _, method, path, body in routes(uid, "mem_nobody", "me_nobody"):
            if "nobody" in path:
                assert soat(method, path, body, mine).json["error"] == "Memory not found"
        other_memory = soat("POST", MEMORIES, {"name": "by the key's project"}, mine).json["id"]
        crossed = soat("GET", f"{MEMORIES}/{other_memory}/entries/{entry}", b"", mine)

        assert (crossed.status, crossed.json["error"]) == (404, "Memory entry not found")
        assert [one["id"] for one in soat("GET", MEMORIES, b"", mine).json] == [
            memory,
            other_memory,
        ]
        assert [one["id"] for one in soat("GET", MEMORIES, b"", foreign).json] == [theirs]
        assert soat(
            "POST", "/api/v1/knowledge/search", {"query": "email", "memory_ids": [memory]}, foreign
        ).json == {"results": [], "degraded": False}
        found = soat(
            "POST", "/api/v1/knowledge/search", {"query": "email", "memory_tags": ["*"]}, foreign
        ).json["results"]
        assert found == [] and soat("GET", f"{MEMORIES}/{memory}", b"", mine).status == 200


@pytest.mark.slow
def test_a_list_that_is_too_long_names_the_paged_route() -> None:
    with WebSystem(worker=False, BUS__MAX_MESSAGE_BYTES="4096") as web_system:
        web_system.system.start_worker(limits={"message_bytes": 4096})
        soat = Soat(web_system, web_system.deploy())
        memory = soat.make()
        few = soat.make("Few")
        for number in range(90):
            soat.write(memory, f"{number} {'x' * 3500}", mode="create")
        soat.write(few, EMAIL)

        refused, listed = (
            soat("GET", FACTS.format(memory=memory)),
            soat("GET", FACTS.format(memory=few)),
        )

    assert (
        refused.status == 400
        and f"use the pages of /v1/pipelines/{soat.uid}/entries" in refused.json["error"]
    ), refused
    assert [one["content"] for one in listed.json] == [EMAIL]


def test_lists_of_documents_must_hold_strings(soat: Soat) -> None:
    for given in ([None], [1], {"a": 1}):
        refused = soat("POST", "/api/v1/knowledge/search", {"document_ids": given})

        assert (refused.status, refused.json["detail"]) == (
            400,
            "document_ids must be a list of strings",
        )
