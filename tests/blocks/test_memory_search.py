"""memory_search: the tables of the seed, and our limit, which applies after the filters."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from tests.blocks.calls import MEMORY_ID, NOW, args_of, ask, ask_store, envelope, read_json
from tests.memory.builders import make_store, write_all


def found(store: Store, text: str | None, **args: Any) -> list[str]:
    return [record["content"] for record in ask_store("memory_search", text, store, **args)]


def test_matching_records_are_returned_whole(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "the blue sky", scope="s", kind="k", source="src", tags=("a",))
    write_all(store, "the green grass")

    (record,) = ask_store("memory_search", "blue sky", store)

    fixed = {
        "guid": guid,
        "scope": "s",
        "kind": "k",
        "content": "the blue sky",
        "source": "src",
        "tags": ["a"],
    }
    assert record == fixed | {"created_at": NOW, "updated_at": NOW}


@pytest.mark.parametrize(
    "text", ["", None, " ", "?!", '"', "*", "nowhere", "sky AND", "NEAR(", "content:", "\x00"]
)
def test_no_text_no_word_or_no_match_returns_an_empty_array(
    tmp_path: Path, text: str | None
) -> None:
    store = make_store(tmp_path)
    write_all(store, "the blue sky")

    assert ask_store("memory_search", text, store) == []


def test_the_most_relevant_comes_first(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "a sky in a long sentence about weather, water and wind", "sky, blue sky")

    assert found(store, "sky")[0] == "sky, blue sky"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, ["sky all", "sky kind", "sky scope", "sky tags"]),
        ({"kind": "k"}, ["sky all", "sky kind"]),
        ({"scope": "s"}, ["sky all", "sky scope"]),
        ({"tags": '["important","fact"]'}, ["sky all", "sky tags"]),
        ({"tags": "important,fact"}, ["sky all", "sky tags"]),
        ({"tags": "fact , important"}, ["sky all", "sky tags"]),
        ({"tags": ["important"]}, ["sky all", "sky tags"]),
        ({"tags": "important,absent"}, []),
        ({"tags": "[]"}, ["sky all", "sky kind", "sky scope", "sky tags"]),
        ({"kind": "k", "scope": "s", "tags": "fact"}, ["sky all"]),
        ({"kind": "", "scope": "", "tags": ""}, ["sky all", "sky kind", "sky scope", "sky tags"]),
    ],
)
def test_all_filters_and_all_tags_must_match(
    tmp_path: Path, args: dict[str, Any], expected: list[str]
) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky kind", kind="k")
    write_all(store, "sky scope", scope="s")
    write_all(store, "sky tags", tags=("important", "fact", "more"))
    write_all(store, "sky all", kind="k", scope="s", tags=("fact", "important"))

    assert sorted(found(store, "sky", **args)) == expected


def test_a_filter_applies_before_the_limit_of_a_long_result(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["sky sky"] * 300)
    write_all(store, "a sky of a rare kind, far down the list", kind="rare")

    assert found(store, "sky", kind="rare", limit=1) == ["a sky of a rare kind, far down the list"]


def test_without_a_limit_all_matches_are_returned(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["sky"] * 500)

    assert len(found(store, "sky")) == 500
    assert len(found(store, "sky", limit=7)) == 7
    assert len(found(store, "sky", limit=10**30)) == 500


def test_a_template_is_applied_in_order_of_relevance(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "a sky in a long sentence about weather, water and wind", "sky")

    template = "{{content}} ({{kind}})\n"
    said = envelope("memory_search", "sky", store, memory_id=MEMORY_ID, output_template=template)

    (part,) = said["args"]
    lines = (
        "sky (observation)\na sky in a long sentence about weather, water and wind (observation)\n"
    )
    assert (part["type"], part["text"]) == ("text/plain", lines)


def test_a_template_may_contain_the_score(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky", "grass", "water", "sky again")

    said = envelope(
        "memory_search", "sky", store, memory_id=MEMORY_ID, output_template="{{score}}\n"
    )

    scores = [float(line) for line in said["args"][0]["text"].split()]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


def test_an_empty_search_with_a_template_returns_an_empty_text(tmp_path: Path) -> None:
    said = envelope(
        "memory_search",
        "",
        make_store(tmp_path),
        memory_id=MEMORY_ID,
        output_template="{{content}}",
    )

    assert (said["args"][0]["type"], said["args"][0]["text"]) == ("text/plain", "")


def test_an_error_is_json_even_with_a_template() -> None:
    said = ask("memory_search", "sky", output_template="{{content}}")

    assert said is not None
    assert "memory_id" in read_json(said)["error"]


def test_a_result_longer_than_a_message_is_an_error_that_suggests_limit(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["sky " * 250] * 20)

    args = {"memory_id": MEMORY_ID, "message_bytes": 10_000, "limit": 20}
    said = read_json(envelope("memory_search", "sky", store, **args))

    assert said.keys() == {"error"}
    assert "limit" in said["error"]


@pytest.mark.parametrize("mode", ["fts", "hybrid"])
@pytest.mark.parametrize("template", ["", "{{content}}\n"])
def test_without_a_limit_the_best_records_that_fit_are_returned(
    tmp_path: Path, mode: str, template: str
) -> None:
    store = make_store(tmp_path)
    write_all(store, *[f'"sky" {number} ' * 150 for number in range(9)])
    args = {"memory_id": MEMORY_ID, "mode": mode, "output_template": template}
    whole = envelope("memory_search", "sky", store, **args)

    said = envelope("memory_search", "sky", store, message_bytes=10_000, **args)

    assert len(orjson.dumps(said)) <= 10_000
    assert "left_out" not in whole and 0 < said["left_out"] < 9
    (part,), (all_of_it,) = said["args"], whole["args"]
    if template:
        assert all_of_it["text"].startswith(part["text"])
        assert part["text"].count("\n") == 9 - said["left_out"]
    else:
        assert read_json(said) == read_json(whole)[: 9 - said["left_out"]]


@pytest.mark.parametrize(
    ("query", "count"), [("sky", 40), ("sky -wet", 20), ("kind:observation", 40), ("partone", 40)]
)
def test_the_records_that_did_not_fit_are_counted(tmp_path: Path, query: str, count: int) -> None:
    store = make_store(tmp_path)
    kinds = ["wet", "dry"] * 20
    write_all(store, *[f"sky {kind} partOne " * 9 for kind in kinds])

    said = envelope("memory_search", query, store, memory_id=MEMORY_ID, message_bytes=4_000)

    assert len(read_json(said)) + said["left_out"] == count


def test_a_template_is_filled_up_to_its_own_limit(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["sky " * 1_000] * 100)
    args = {"memory_id": MEMORY_ID, "output_template": "{{content}}"}

    said = envelope("memory_search", "sky", store, **args)

    assert said["args"][0]["text"] == "sky " * 1_000 * 65
    assert said["left_out"] == 35


def test_a_single_record_longer_than_a_message_is_an_error(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky " * 5_000)

    said = read_json(
        envelope("memory_search", "sky", store, memory_id=MEMORY_ID, message_bytes=10_000)
    )

    assert "truncate" in said["error"]


def test_a_query_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    said = ask_store("memory_search", " ".join(map(str, range(50_000))), make_store(tmp_path))

    assert said.keys() == {"error"}
    assert "words" in said["error"]


def test_an_explanation_is_added_to_the_records_and_ignored_by_a_template(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky")
    plain, explained = (
        ask_store("memory_search", "sky", store, mode="hybrid", explain=explain)
        for explain in (False, True)
    )
    nothing = ask_store("memory_search", "sku", store, explain=True)

    assert explained["records"] == plain and [
        hit["guid"] for hit in explained["explanation"]["hits"]
    ] == [plain[0]["guid"]]
    assert nothing["records"] == [] and nothing["explanation"]["nothing"]["reason"] == "unknown"
    said = envelope(
        "memory_search",
        "sky",
        store,
        memory_id=MEMORY_ID,
        explain=True,
        output_template="{{content}}",
    )
    assert said["args"][0]["text"] == "sky"


def test_recency_ranks_newer_records_first(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky, new")
    write_all(store, "sky, old", now_ms=NOW - 100 * 86_400_000)

    assert found(store, "sky", mode="hybrid") == ["sky, old", "sky, new"]
    assert found(store, "sky", mode="hybrid", recency=0.3) == ["sky, new", "sky, old"]


def test_a_model_rereads_turns(tmp_path: Path) -> None:
    late, answer = "The train is late when it rains, leave me alone.", "The train leaves at nine."
    store, question = make_store(tmp_path), "When does the train leave?"
    write_all(store, late, thread="a")
    write_all(store, answer, thread="b")

    assert found(store, question, mode="hybrid") == [late, answer]
    assert found(store, question, mode="hybrid", rerank="model") == [answer, late]


@pytest.mark.parametrize(
    "args",
    [
        {"limit": -1},
        {"limit": "many"},
        {"tags": '["a"'},
        {"tags": 7},
        {"source": "x"},
        {"recency": 0.5},
        {"importance": 1},
        {"mode": "hybrid", "recency": 1.1},
        {"mode": "hybrid", "recency_days": 0},
        {"mode": "hybrid", "recency": "nan"},
        {"language": "klingon"},
        {"rerank": "model"},
        {"mode": "semantic", "rerank": "model"},
        {"mode": "hybrid", "rerank": "model", "recency": 0.5},
        {"mode": "hybrid", "rerank": "words"},
    ],
)
def test_invalid_arguments_are_an_error_at_deploy(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        args_of("memory_search", memory_id=MEMORY_ID, **args)


@pytest.mark.parametrize("mode", ["fts", "hybrid"])
def test_a_filter_applies_before_the_limit(tmp_path: Path, mode: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "sky one", "sky two", kind="a")
    write_all(store, "a sky in a long sentence about weather", kind="b", tags=("x",))

    wanted = {"not": {"kind": {"eq": "a"}}, "tags": {"contains": "x"}}
    assert found(store, "sky", filter=wanted, limit=1, mode=mode) == [
        "a sky in a long sentence about weather"
    ]
    assert len(found(store, "sky", filter={}, mode=mode)) == 3
