"""`wf_webhook_args`: JSON text or an object, validated by the model of the block."""

from typing import Any

import pytest

from memrelay.blocks.contract import BlockArgs
from memrelay.pipelines.check import check
from tests.pipelines.builders import faults_of, make_block, make_bundle, make_memory, warnings_of


def args_of(block: str, args: Any) -> BlockArgs:
    (agent,) = check(make_bundle(make_block(block, args))).accepted().agents
    return agent.args


@pytest.mark.parametrize("nothing", ["", "  ", "{}", {}, None])
def test_without_arguments_the_defaults_apply(nothing: Any) -> None:
    assert args_of("add_1", nothing).model_dump() == {"amount": 1}


def test_a_string_of_json_and_an_object_mean_the_same() -> None:
    assert args_of("add_1", '{"amount": 3}') == args_of("add_1", {"amount": 3})


def test_invalid_json_is_reported_with_line_and_column() -> None:
    assert faults_of(make_block("add_1", '{"amount":\n 1,\n}')) == [
        "agents[0].wf_webhook_args: not JSON: trailing comma is not allowed (line 2, column 3)"
    ]


def test_invalid_json_and_an_unknown_block_are_reported_together() -> None:
    assert len(faults_of(make_block("zzz", "{"))) == 2


@pytest.mark.parametrize("text", ["[]", "7", "null", '"{}"'])
def test_arguments_are_an_object(text: str) -> None:
    assert faults_of(make_block("add_1", text)) == [
        "agents[0].wf_webhook_args: must be a JSON object, like {}"
    ]


@pytest.mark.parametrize("given", [7, [], True])
def test_arguments_are_text_or_an_object(given: Any) -> None:
    assert faults_of(make_block("add_1", given)) == [
        "agents[0].wf_webhook_args: must be an object, or JSON text of one"
    ]


def test_an_unknown_argument_in_json_text_is_an_error_with_a_suggestion() -> None:
    assert faults_of(make_memory(wf_webhook_args='{"memory_idd": "instances/a/b"}')) == [
        "agents[0].wf_webhook_args.memory_idd: the block memory_write has no argument "
        '"memory_idd"; did you mean "memory_id"?'
    ]


def test_an_unknown_argument_without_a_similar_name_is_an_error_with_a_list() -> None:
    assert faults_of(make_block("add_1", {"zzz": 1})) == [
        'agents[0].wf_webhook_args.zzz: the block add_1 has no argument "zzz"; known are amount'
    ]


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ("add_1", "amount"),
        ("memory_read", "limit"),
        ("memory_write", "ttl_s"),
        ("regex_match", "group"),
        ("memory_entry_write", "duplicate_threshold"),
        ("memory_search", "recency"),
    ],
)
def test_true_is_not_a_number(block: str, name: str) -> None:
    others = {"regex_match": {"pattern": "^/(x)"}, "add_1": {}}.get(
        block, {"memory_id": "instances/${pipeline_uid}/m"}
    )

    assert faults_of(make_block(block, others | {name: True})) == [
        f"agents[0].wf_webhook_args.{name}: must not be true or false"
    ]


def test_a_missing_argument_is_reported_at_its_place() -> None:
    assert faults_of(make_block("regex_match")) == ["agents[0].wf_webhook_args.pattern: is missing"]


def test_an_invalid_choice_is_reported_with_the_valid_ones() -> None:
    assert faults_of(make_block("memory_read", {"memory_id": "instances/a/b", "order": "up"})) == [
        "agents[0].wf_webhook_args.order: must be 'asc' or 'desc'"
    ]


def test_all_accepted_types_are_named_in_one_fault() -> None:
    assert faults_of(make_block("regex_match", {"pattern": "(a)", "group": {}})) == [
        "agents[0].wf_webhook_args.group: must be a valid integer, or must be a valid string"
    ]


def test_an_error_of_a_blocks_validator_is_reported_without_pydantics_words() -> None:
    (fault,) = faults_of(make_block("regex_match", {"pattern": "(?=a)"}))

    assert fault.startswith("agents[0].wf_webhook_args.pattern: RE2 refuses the pattern '(?=a)'")


def test_an_invalid_pattern_and_invalid_flags_are_reported_at_their_places() -> None:
    faults = faults_of(make_block("regex_filter", {"pattern": "(", "flags": "q"}))

    assert [fault.split(": ")[0] for fault in faults] == [
        "agents[0].wf_webhook_args.flags",
        "agents[0].wf_webhook_args.pattern",
    ]


@pytest.mark.parametrize("group", [2, -1, "2", "word", ""])
def test_an_unknown_group_is_reported_at_its_place(group: int | str) -> None:
    (fault,) = faults_of(make_block("regex_match", {"pattern": "^/(x)", "group": group}))

    assert fault.startswith("agents[0].wf_webhook_args.group: the pattern has no group")


@pytest.mark.parametrize(
    "memory_id", ["../secrets", "/etc/passwd", "one", "instances/.hidden/x", "a/b.db"]
)
def test_a_memory_id_that_could_leave_the_root_is_an_error(memory_id: str) -> None:
    (fault,) = faults_of(make_memory(wf_webhook_args={"memory_id": memory_id}))

    assert fault.startswith(
        f"agents[0].wf_webhook_args.memory_id: memory_id {memory_id!r} is not allowed"
    )


def test_an_unknown_argument_does_not_hide_other_faults() -> None:
    faults = faults_of(make_block("regex_match", {"pattern": "(", "flag": "i"}))

    assert [fault.split(": ")[0] for fault in faults] == [
        "agents[0].wf_webhook_args.flag",
        "agents[0].wf_webhook_args.pattern",
    ]


def test_an_invalid_argument_does_not_hide_other_faults() -> None:
    faults = faults_of(make_block("regex_filter", {"pattern": "(", "invert": "perhaps"}))

    assert [fault.split(": ")[0] for fault in faults] == [
        "agents[0].wf_webhook_args.invert",
        "agents[0].wf_webhook_args.pattern",
    ]


@pytest.mark.parametrize("flag", ["yes", "no", "on", "1", "", 1, 0, 1.0, "perhaps", []])
def test_a_flag_is_true_or_false(flag: object) -> None:
    told = faults_of(
        make_block("regex_filter", {"pattern": "a", "invert": flag}, wf_call_webhook=flag)
    )

    assert told == [
        "agents[0].wf_call_webhook: must be true or false",
        "agents[0].wf_webhook_args.invert: must be true or false",
    ]


@pytest.mark.parametrize("flag", [True, "true", "True", "TRUE"])
def test_a_flag_may_be_a_word(flag: object) -> None:
    assert args_of("regex_filter", {"pattern": "a", "invert": flag}).model_dump()["invert"] is True


def test_booleans_and_numbers_may_be_strings() -> None:
    assert (
        args_of("regex_filter", {"pattern": "a", "invert": "true"}).model_dump()["invert"] is True
    )
    assert args_of("add_1", {"amount": "3"}).model_dump() == {"amount": 3}


def test_null_for_an_optional_argument_is_the_same_as_absent() -> None:
    assert args_of("memory_write", {"scope": None, "tags": None}) == args_of("memory_write", {})


def test_null_for_a_required_argument_is_the_same_as_absent() -> None:
    assert faults_of(make_block("regex_match", {"pattern": None})) == [
        "agents[0].wf_webhook_args.pattern: is missing"
    ]


@pytest.mark.parametrize(
    "args",
    [
        {"output_template": "{{" + "(" * 5000},
        {"output_template": "{{content" + "|upper" * 5000 + "}}"},
    ],
)
def test_nesting_that_is_too_deep_for_a_parser_is_a_fault(args: dict[str, str]) -> None:
    assert faults_of(make_block("memory_read", {"memory_id": "instances/a/b"} | args)) != []


def test_deep_nesting_in_the_text_is_a_fault() -> None:
    deep = '{"tags": ' + "[" * 500 + "]" * 500 + "}"

    assert faults_of(make_memory(wf_webhook_args=deep)) == [
        "agents[0].wf_webhook_args: nested deeper than 32"
    ]


def test_the_store_of_the_pipeline_is_not_a_warning() -> None:
    assert (
        warnings_of(
            make_memory(wf_webhook_args='{"memory_id": "instances/${pipeline_uid}/memories"}')
        )
        == []
    )


def test_a_filter_is_checked_at_deploy() -> None:
    wrong = {"memory_id": "instances/x/y", "filter": {"or": [{"kynd": {"eq": "a"}}]}}

    (fault,) = faults_of(make_block("memory_search", wrong))

    assert fault == (
        "agents[0].wf_webhook_args.filter.or[0].kynd: unknown field 'kynd' "
        "(did you mean 'kind'?)"
    )
    assert args_of(
        "memory_read", {"memory_id": "instances/x/y", "filter": {"kind": {"eq": "a"}}}
    ).filter


@pytest.mark.parametrize("block", ["regex_match", "regex_filter"])
@pytest.mark.parametrize(
    ("pattern", "doubted"),
    [
        ("/^\\/w (.*)/i", True),
        ("/^x/", True),
        ("/done$/", True),
        ("^/w (.*)", False),
        ("/etc/x", False),
        ("/^", False),
    ],
)
def test_a_pattern_between_slashes_is_a_warning(block: str, pattern: str, doubted: bool) -> None:
    told = warnings_of(make_block(block, {"pattern": pattern}))

    assert [line.partition(": ")[0] for line in told] == ["agents[0].wf_webhook_args"] * doubted
    assert all("between slashes" in line for line in told)
