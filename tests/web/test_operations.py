"""The operations over HTTP."""

import json
from urllib.parse import quote

import pytest

from memrelay.memory.operations import all_operations
from memrelay.web.api.operation_routes import route_of, scopes_of
from memrelay.web.auth.access import get_access
from tests.support.bundles import make_commands, make_memory
from tests.support.http import Answer, ask
from tests.support.routes import app_for
from tests.support.web_system import WebSystem
from tests.web.home_routes import AGENT_MEMORY, RECIPES
from tests.web.records import Records

POLICIES = [
    *[(method, "/policies") for method in ("GET", "DELETE")],
    *[("POST", f"/policies/{verb}") for verb in ("apply", "scan", "set", "test", "verdicts")],
]
VIEWS = [
    *[("GET", "/views"), ("GET", "/views/{id}"), ("DELETE", "/views/{id}")],
    *[("GET", "/views/{id}/parts"), ("POST", "/views/about"), ("POST", "/views/define")],
]
ENDPOINTS = [
    *[(method, "/endpoints") for method in ("GET", "POST")],
    *[(method, "/endpoints/{id}") for method in ("GET", "PATCH", "DELETE")],
    *[("POST", f"/endpoints/{{id}}/{verb}") for verb in ("enable", "recover", "rotate", "test")],
    *[("GET", path) for path in ("/deliveries", "/deliveries/{id}")],
    *[("POST", path) for path in ("/deliveries/{id}/redeliver", "/deliveries/redeliver_many")],
]
KNOWLEDGE = ("entries/{id}/merge", "knowledge/search", "knowledge/context")
CAPTURE = [("POST", f"/capture/{verb}") for verb in ("context", "sessions")]
RECEIPTS_AND_REVIEWS = [
    *[("GET", path) for path in ("/receipts", "/receipts/{id}", "/records/{guid}/uses")],
    ("GET", "/reviews"),
    ("GET", "/reviews/{guid}"),
    *[("POST", f"/reviews/{verb}") for verb in ("approve", "reject", "{guid}/edit")],
]


@pytest.fixture
def records(web_system: WebSystem) -> Records:
    return Records(web_system)


def faults(answer: Answer) -> dict[str, str]:
    """Return the rules that an input violates, by pointer."""
    assert answer.problem[0] == 422
    return {
        fault["pointer"]: fault["rule"] + fault["suggestion"] for fault in answer.json["faults"]
    }


def test_every_operation_has_its_derived_route_and_access(tmp_path: object) -> None:
    routes = {
        (route.method, route.resource.canonical): get_access(route.handler)
        for route in app_for(tmp_path).router.routes()
    }

    places = {
        route_of(operation): " or ".join(scopes_of(operation))
        for operation in all_operations().values()
    }

    assert {
        (place.method, place.path): access for place, access in places.items()
    }.items() <= routes.items()
    assert {(place.method, place.path.removeprefix("/v1/pipelines/{uid}")) for place in places} == {
        ("POST", "/records"),
        ("GET", "/records"),
        ("GET", "/records/{guid}"),
        ("PATCH", "/records/{guid}"),
        ("DELETE", "/records/{guid}"),
        ("POST", "/records/search"),
        ("POST", "/records/append"),
        *[("GET", f"/records/{{guid}}/{verb}") for verb in ("history", "uses", "origin")],
        ("POST", "/records/{guid}/restore"),
        *[("POST", f"/records/{verb}") for verb in ("subjects", "timeline")],
        *[("POST", f"/records/{verb}") for verb in ("import", "erase", "erasures", "embed")],
        ("PUT", "/records"),
        ("GET", "/turns"),
        *[("POST", f"/turns/{verb}") for verb in ("add", "clear", "pop", "threads")],
        *[("POST", f"/records/{verb}") for verb in ("find", "remove", "scopes", "touch", "undo")],
        *[
            (method, f"/{noun}{path}")
            for noun in ("memories", "entries")
            for method, path in (
                ("POST", ""),
                ("GET", ""),
                ("GET", "/{id}"),
                ("PATCH", "/{id}"),
                ("DELETE", "/{id}"),
            )
        ],
        *[("POST", f"/{path}") for path in KNOWLEDGE],
        ("POST", "/extraction/status"),
        ("GET", "/items"),
        *[("GET", "/changes"), ("GET", "/inputs")],
        *[(method, "/rehearsals") for method in ("GET", "POST")],
        *[(method, "/rehearsals/{id}") for method in ("GET", "DELETE")],
        *RECEIPTS_AND_REVIEWS,
        *[("GET", "/waiting_messages"), ("GET", "/message_timings")],
        *(POLICIES + VIEWS + ENDPOINTS + CAPTURE),
        *[(method, "/items/{key}") for method in ("GET", "PUT", "DELETE")],
        ("POST", "/items/search"),
        *[("POST", f"/items/{{key}}/{verb}") for verb in ("edit", "rename", "reseal")],
        *[("GET", f"/{noun}") for noun in ("grants", "stores", "contexts")],
        *[("POST", f"/grants/{verb}") for verb in ("set", "remove")],
        ("POST", "/stores/configure"),
        *[("POST", f"/memory_tool/{verb}") for verb in ("read", "write")],
        *[("POST", f"/contexts/{{id}}/{verb}") for verb in ("open", "close")],
        *AGENT_MEMORY,
        *RECIPES,
    }


def test_a_record_is_created_read_updated_and_deleted(records: Records) -> None:
    made = records("POST", "", {"content": "tea", "tags": ["a"]})
    at = "/" + made.json["guid"]
    changed = records("PATCH", at, {"content": "coffee"}, If_Match=made.headers["etag"])
    grown = records(
        "POST", "/append", {"content": "with milk", "guid": made.json["guid"], "separator": " "}
    )
    shown = records("GET", at)
    gone = records("DELETE", at, If_Match=shown.headers["etag"])

    assert made.status == 201 and made.headers["location"].endswith(at)
    assert made.headers["etag"] == f'"{made.json["version"]}"' != changed.headers["etag"]
    assert (changed.status, changed.json["content"], changed.json["tags"]) == (200, "coffee", ["a"])
    assert grown.json == {"guid": made.json["guid"], "created": False}
    assert (
        shown.json["content"] == "coffee with milk"
        and shown.json["created_at"] == made.json["created_at"]
    )
    assert (gone.status, gone.body) == (204, b"")
    assert records("GET", at).problem[0] == records("DELETE", at).problem[0] == 404


def test_a_shown_record_can_be_created_again(records: Records) -> None:
    found = records("POST", "", {"content": "tea", "tags": ["hot"]}).json
    written = {
        name: held
        for name, held in found.items()
        if name not in ("guid", "created_at", "updated_at", "version")
    }

    again = records("POST", "", written)

    assert again.status == 201 and {name: again.json[name] for name in written} == written


def test_a_new_endpoint_has_its_own_address(web_system: WebSystem) -> None:
    path, url = f"/v1/pipelines/{web_system.deploy()}/endpoints", web_system.url

    made = ask(url, "POST", path, {"url": "https://example.com/hook"})

    assert made.status == 201
    assert made.headers["location"] == f"{path}/{made.json['endpoint']['id']}"
    assert web_system.get(made.headers["location"]).json["id"] == made.json["endpoint"]["id"]


def test_a_history_is_shown_and_a_deletion_undone(records: Records) -> None:
    made = records.create("tea")
    at = "/" + made["guid"]
    records("PATCH", at, {"content": "coffee", "reason": "tired"})
    shown = records("GET", at)
    assert (
        records("DELETE", at + "?reason=gone%20off", If_Match=shown.headers["etag"]).status == 204
    )
    gone = records("GET", "?deleted=true").json
    back = records(
        "POST",
        at + "/restore",
        {"number": 1, "reason": "after all"},
        If_Match=shown.headers["etag"],
    )
    first = records("GET", at + "/history?limit=2").json
    rest = records("GET", at + f"/history?cursor={first['next_cursor']}").json

    assert (gone["total"], gone["items"][0]["content"]) == (1, "coffee")
    assert (back.status, back.json["content"], back.headers["etag"]) == (
        200,
        "tea",
        f'"{back.json["version"]}"',
    )
    found = [
        (
            one["number"],
            one["record"] and one["record"]["content"],
            one["change"],
            one["actor"],
            one["reason"],
        )
        for one in first["items"] + rest["items"]
    ]
    assert found == [
        (4, "tea", None, None, None),
        (3, None, "restore", "http", "after all"),
        (2, "coffee", "delete", "http", "gone off"),
        (1, "tea", "update", "http", "tired"),
    ]
    assert first["total"] == 4 and rest["next_cursor"] is None


def test_a_missing_reason_is_null_in_the_history(records: Records) -> None:
    made = records.create("tea")
    at = "/" + made["guid"]

    answers = [
        records("PATCH", at, {"content": "coffee", "reason": None}),
        records("POST", at + "/restore", {"number": 1, "reason": None}),
        records("POST", "/append", {"content": "more", "guid": made["guid"], "reason": None}),
        records("POST", "/erase", {"guids": [made["guid"]], "reason": None}),
    ]

    assert [answer.status for answer in answers] == [200] * 4


def test_an_empty_parameter_is_ignored(records: Records) -> None:
    records("POST", "", {"content": "tea", "tags": ["hot"]})
    records.create("rain")

    totals = {
        query: records("GET", f"?{query}").json.get("total")
        for query in ("kind=", "tags=", "tags=&tags=", "tags=hot&tags=", "store=", "cursor=")
    }

    assert totals == {
        "kind=": 2,
        "tags=": 2,
        "tags=&tags=": 2,
        "tags=hot&tags=": 1,
        "store=": 2,
        "cursor=": 2,
    }


def test_a_byte_order_mark_before_json_is_ignored(records: Records) -> None:
    mark = b"\xef\xbb\xbf"
    (only,) = records.web_system.get(f"/v1/pipelines/{records.uid}/versions").json["items"]

    again = records.web_system.post(
        f"/v1/pipelines/{records.uid}/rollback", mark + b'{"version": %d}' % only["version"]
    )

    assert records("POST", "", mark + b'{"content": "tea"}').json["content"] == "tea"
    assert again.status == 200


def test_a_record_is_shown_until_it_expires(records: Records) -> None:
    made = records("POST", "", {"content": "tea", "expires_at": "2100-01-01T12:00:00+02:00"})
    over = records("POST", "", {"content": "tea", "expires_at": "2020-01-01"})

    assert made.json["expires_at"] == "2100-01-01T10:00:00.000Z"
    assert over.problem[0] == 422 and "in the past" in over.problem[1]


@pytest.mark.parametrize(
    "name",
    ["kind", "scope", "source", "tags", "filter", "deleted", "order", "limit", "cursor", "store"],
)
def test_a_list_parameter_may_repeat(records: Records, name: str) -> None:
    found = records("GET", f"?{name}=a&{name}=b")

    assert found.status == (200 if name == "tags" else 400)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nobody/history", b"", 404),
        ("POST", "/nobody/restore", b"{}", 404),
        ("POST", "/nobody/restore", b"", 404),
        ("DELETE", "/nobody?number=1", b"", 400),
        ("DELETE", "/nobody", b'{"reason": "x"}', 422),
        ("DELETE", "/nobody?reason=" + "x" * 1025, b"", 422),
        ("GET", "/nobody/history?cursor=x", b"", 422),
        ("POST", "/nobody/restore", b'{"number": 0}', 422),
        ("POST", "/nobody/restore", b'{"number": "1"}', 422),
        ("GET", "?deleted=perhaps", b"", 422),
        ("POST", "/nobody/history", b"", 405),
    ],
)
def test_an_invalid_history_or_restore_is_rejected(
    records: Records, method: str, path: str, body: bytes, expected: int
) -> None:
    assert records(method, path, body).problem[0] == expected


def test_messages_and_created_records_share_a_store(records: Records) -> None:
    records.create("created")
    records.web_system.say(records.uid, "/write said", query="?wait=60")

    assert [one["content"] for one in records("GET").json["items"]] == ["created", "said"]
    assert len(records.web_system.say(records.uid, "/search created", query="?wait=60").texts) == 1


def test_a_cursor_continues_a_filtered_list(records: Records) -> None:
    for number in range(5):
        records(
            "POST",
            "",
            {
                "content": str(number),
                "kind": "even" if number % 2 == 0 else "odd",
                "tags": ["x", "y"],
            },
        )

    first = records("GET", "?kind=even&tags=x&tags=y&limit=2&order=desc").json
    second = records(
        "GET", f"?kind=even&tags=x&tags=y&limit=2&order=desc&cursor={first['next_cursor']}"
    ).json

    assert [one["content"] for one in first["items"] + second["items"]] == ["4", "2", "0"]
    assert (first["total"], second["total"], second["next_cursor"]) == (3, 3, None)


def test_a_filter_is_a_parameter_of_a_list_and_a_field_of_a_search(records: Records) -> None:
    for number in range(4):
        records(
            "POST",
            "",
            {"content": f"tea {number}", "data": {"n": number}, "key": "even" * (number % 2 == 0)},
        )
    wanted = {"data.n": {"gte": 1}, "key": {"exists": True}}

    page = records("GET", f"?filter={quote(json.dumps(wanted))}").json
    found = records(
        "POST", "/search", {"query": "tea", "filter": wanted, "mode": "hybrid", "limit": 1}
    ).json

    assert ([one["content"] for one in page["items"]], page["total"]) == (["tea 2"], 1)
    assert [hit["record"] for hit in found["items"]] == page["items"]
    assert page["items"][0]["data"] == {"n": 2} and page["items"][0]["in_context"] is False


def test_faults_in_a_filter_or_in_data_have_their_pointer(records: Records) -> None:
    wrong = {"and": [{"kynd": {"eq": 1}}, {"data.x": {"equals": 1}}], "seq": {"in": [1, "2"]}}
    expected = {
        "/filter/and/0/kynd": "unknown field 'kynd' (did you mean 'kind'?)",
        "/filter/and/1/data.x/equals": "unknown operator 'equals' (",
        "/filter/seq/in/1": "must be a number",
    }

    for answer in (
        records("GET", f"?filter={quote(json.dumps(wrong))}"),
        records("POST", "/search", {"query": "tea", "filter": wrong}),
    ):
        found = faults(answer)
        assert found.keys() == expected.keys()
        assert all(found[place].startswith(rule) for place, rule in expected.items())
    for text in ("", "{", "[]", "1", "null", "[" * 900):
        assert faults(records("GET", f"?filter={quote(text)}")).keys() == {"/filter"}
    assert records("GET", "?filter={}&filter={}").problem[0] == 400
    assert faults(records("POST", "", {"content": "tea", "data": {"a": [2**63]}})).keys() == {
        "/data/a/0"
    }


def test_a_known_version_is_answered_with_304(records: Records) -> None:
    made = records.create("tea")
    at, known = "/" + made["guid"], f'"{made["version"]}"'

    same = [
        records(method, at, If_None_Match=tags)
        for method in ("GET", "HEAD")
        for tags in (known, f'"x", W/{known}', "*")
    ]
    records("PATCH", at, {"content": "coffee"})
    other = [records("GET", at, If_None_Match=tags) for tags in (known, "nonsense")]

    assert [(answer.status, answer.body, answer.headers["etag"]) for answer in same] == [
        (304, b"", known)
    ] * 6
    assert [(answer.status, answer.json["content"]) for answer in other] == [(200, "coffee")] * 2


def test_changing_any_field_changes_the_etag(records: Records) -> None:
    made = records.create("tea")
    at = "/" + made["guid"]

    changed = records(
        "PATCH", at, {"data": {"a": 1}, "in_context": True}, If_Match=f'"{made["version"]}"'
    )

    assert (changed.json["data"], changed.json["in_context"]) == ({"a": 1}, True)
    assert changed.headers["etag"] != f'"{made["version"]}"'
    assert records("PATCH", at, {"owner": "ada"}, If_Match=f'"{made["version"]}"').problem[0] == 412


def test_an_edit_of_another_version_is_rejected(records: Records) -> None:
    made = records.create("tea")
    at = "/" + made["guid"]
    records("PATCH", at, {"content": "coffee"})

    for method, tag in (
        ("PATCH", made["version"]),
        ("DELETE", made["version"]),
        ("PATCH", "nothing"),
    ):
        body = {"content": "x"} if method == "PATCH" else b""
        assert records(method, at, body, If_Match=f'"{tag}"').problem[0] == 412
    assert records("PATCH", at, {"kind": "k"}, If_Match=f'W/"{made["version"]}"').problem[0] == 412
    assert records("PATCH", at, {"kind": "k"}, If_Match="nonsense").problem[0] == 400
    assert records("PATCH", at, {"kind": "k"}, If_Match="*").status == 200


def test_all_faults_are_reported_together(records: Records) -> None:
    found = faults(records("POST", "", {"contnt": 1, "kind": "", "tags": ["a", 1], "guid": "x"}))

    assert found.keys() == {"/content", "/contnt", "/kind", "/tags/1", "/guid"}
    assert 'did you mean "content"' in found["/contnt"]
    assert faults(records("GET", "?limit=0&order=up")).keys() == {"/limit", "/order"}
    assert faults(records("POST", "", {"content": "x", "tags": "a,b"})).keys() == {"/tags"}


def test_a_body_field_that_belongs_in_the_url_is_reported(records: Records) -> None:
    path = f"/{records.create('tea')['guid']}"

    found = faults(records("DELETE", path, {"reason": "mistaken", "why": "x"}))

    assert found["/reason"].endswith("send it in the URL: ?reason=...") and found["/why"].endswith(
        "known are reason"
    )
    assert records("DELETE", f"{path}?reason=mistaken").status == 204


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "", b"{", 400),
        ("POST", "", b"[]", 422),
        ("POST", "", b'"x"', 422),
        ("POST", "", b"", 422),
        ("POST", "", b"\xff", 400),
        ("POST", "", b'{"content": "\\ud800"}', 400),
        ("POST", "", b"[" * 100_000, 400),
        ("POST", "", b'{"content": ' + b"[" * 900 + b"]" * 900 + b"}", 422),
        ("POST", "", b"x" * (1 << 20) + b"x", 413),
        ("POST", "", b"{" + b",".join(b'"%d":1' % n for n in range(20_000)) + b"}", 422),
        ("POST", "?kind=x", b"{}", 400),
        ("GET", "?nope=1", b"", 400),
        ("GET", "?kind=a&kind=b", b"", 400),
        ("GET", "?cursor=x", b"", 422),
        ("GET", "?limit=99999999999999999999999", b"", 422),
        ("GET", "?store=x", b"", 422),
        ("GET", "?store=instances/other/memories", b"", 422),
        ("GET", "?store=a&store=b", b"", 400),
        ("GET", "/" + "x" * 200, b"", 422),
        ("PUT", "/x", b"{}", 405),
        ("POST", "/nothing", b"{}", 405),
        ("GET", "/x/y", b"", 404),
    ],
)
def test_a_malformed_request_is_rejected(
    records: Records, method: str, path: str, body: bytes, expected: int
) -> None:
    assert records(method, path, body).problem[0] == expected


@pytest.mark.parametrize(
    "content", ["\x00", "'; DROP TABLE records; --", "é" * 1000, "{{7*7}}", "\u2028", "a\r\nb"]
)
def test_a_text_is_stored_unchanged(records: Records, content: str) -> None:
    made = records.create(content)

    assert made["content"] == records("GET", f"/{quote(made['guid'])}").json["content"] == content


def test_a_parameter_selects_a_store_of_the_bundle(web_system: WebSystem) -> None:
    notes = "instances/${pipeline_uid}/notes"
    records = Records(
        web_system,
        web_system.deploy(*make_commands(), make_memory("write", memory_id=notes, alias="note")),
    )
    store = f"?store=instances/{records.uid}/notes"

    made = records("POST", store, {"content": "tea"})

    assert (
        made.headers["location"].endswith(store)
        and made.json["scope"] == f"instances/{records.uid}/notes"
    )
    assert records("GET").json["total"] == 0
    assert records("GET", store).json["total"] == 1


def test_an_unknown_type_of_changes_is_rejected(web_system: WebSystem, records: Records) -> None:
    answer = ask(web_system.url, "GET", f"/v1/pipelines/{records.uid}/changes?types=record.create")

    assert answer.problem[0] == 422
    assert "did you mean 'record.created'?" in answer.json["detail"]


def test_a_long_integer_in_a_body_is_rejected(records: Records) -> None:
    body = b'{"content": "tea", "data": {"n": 18446744073709551616}}'
    answer = records("POST", "", body)

    assert answer.problem[0] == 422
    assert "has more than 64 bits" in answer.json["detail"]


def test_an_unknown_pipeline_is_not_found(web_system: WebSystem) -> None:
    assert Records(web_system, "ghost")("GET").problem[0] == 404


def test_a_search_with_explain_returns_the_explanation(records: Records) -> None:
    made = records.create("green tea")

    plain, found = (
        records("POST", "/search", {"query": "tea", "explain": explain}).json
        for explain in (False, True)
    )

    assert (plain["explanation"], plain["items"]) == (None, found["items"])
    assert [(hit["guid"], hit["arms"][0]["arm"]) for hit in found["explanation"]["hits"]] == [
        (made["guid"], "content")
    ]
