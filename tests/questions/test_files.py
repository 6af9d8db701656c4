"""Files of golden questions: what is valid, and the faults of others with line and field."""

import orjson
import pytest
import yaml
from jsonschema import Draft202012Validator

from memrelay.questions.file import InvalidQuestions, make_input, read_questions
from memrelay.questions.schema import rendered
from tests.support.child import CHECKOUT

VALID = """
defaults: {mode: fts, k: 3}
questions:
  - question: green tea
    store: instances/${pipeline_uid}/memories
    filter: {kind: {eq: note}, created_at: {gte: 2026-01-01}}
    input: {tags: [drinks]}
    must:
      - Ada likes tea
      - {regex: 'green|black', max_rank: 2}
    in_order: true
  - {question: rome, search: knowledge.search, memory: trips, mode: null, k: 5, nothing: true}
"""


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(InvalidQuestions) as raised:
        read_questions(text if isinstance(text, bytes) else text.encode())
    return [fault.as_line("q.yaml") for fault in raised.value.faults]


def test_a_valid_file_becomes_inputs_of_operations() -> None:
    first, second = read_questions(VALID.encode(), uid="abc")

    assert first.store == "instances/abc/memories"
    assert make_input(first) == {
        "query": "green tea",
        "limit": 3,
        "mode": "fts",
        "wait": True,
        "filter": {"kind": {"eq": "note"}, "created_at": {"gte": "2026-01-01"}},
        "tags": ["drinks"],
    }
    assert (first.must[0].text, first.must[1].max_rank, first.in_order) == (
        "Ada likes tea",
        2,
        True,
    )
    assert make_input(second, "m1") == {"query": "rome", "limit": 5, "memory_ids": ["m1"]}


def test_the_published_schema_is_current_and_accepts_what_is_valid() -> None:
    schema = orjson.loads(rendered())
    validator = Draft202012Validator(schema)

    assert (CHECKOUT / "docs/questions.schema.json").read_bytes() == rendered()
    value = yaml.safe_load(VALID.replace("2026-01-01", "'2026-01-01'"))
    assert list(validator.iter_errors(value)) == []
    for wrong in ({}, {"questions": [{"question": "x"}]}, {"questions": [{"must": ["x"]}]}):
        assert list(validator.iter_errors(wrong)), wrong


def test_all_faults_of_questions_have_their_line_and_field() -> None:
    found = faults(
        "questions:\n"
        "  - question: x\n"
        "    must: [{regex: '(?=a)'}]\n"
        "  - question: y\n"
        "    musst: [a]\n"
        "    k: 0\n"
        "  - {question: z, must: [{max_rank: 1}]}\n"
        "  - {question: z}\n"
        "  - {question: z, nothing: true, must: [a]}\n"
    )

    assert [line.split(": ")[0:2] for line in found] == [
        ["q.yaml:3", "questions[0].must[0].regex"],
        ["q.yaml:5", "questions[1].musst"],
        ["q.yaml:6", "questions[1].k"],
        ["q.yaml:7", "questions[2].must[0]"],
        ["q.yaml:8", "questions[3]"],
        ["q.yaml:9", "questions[4]"],
    ]
    assert 'did you mean "must"?' in found[1]
    assert "add must, may or must_not" in found[4]


def test_what_an_operation_would_refuse_is_a_fault_of_its_field() -> None:
    assert faults(
        "questions:\n"
        "  - {question: z, search: items.search, must: [a], mode: fts}\n"
        "  - {question: z, mode: best, must: [a],\n"
        "     input: {kinds: [a], limit: 3}}\n"
        "  - {question: z, memory: trips, must: [a]}\n"
        "  - {question: z, filter: {king: {eq: a}}, must: [a]}\n"
    ) == [
        "q.yaml:2: questions[0].input.agent: is missing",
        "q.yaml:2: questions[0].mode: is no field of it",
        "q.yaml:3: questions[1].mode: must be 'fts', 'hybrid' or 'semantic'",
        "q.yaml:4: questions[1].input.kinds: is no field of it",
        "q.yaml:4: questions[1].input.limit: is set by `k` of the question; remove it",
        "q.yaml:5: questions[2].memory: records.search searches no named memories; use "
        "`search: knowledge.search`",
        "q.yaml:6: questions[3].filter.king: unknown field 'king' (did you mean 'kind'?)",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "q.yaml:1: must hold `questions`, "),
        ("- a", "q.yaml:1: must hold `questions`, "),
        ("questions: []", "q.yaml:1: questions: must have at least 1 item"),
        ("questions:\n  - {question: a", "q.yaml:3: not YAML: "),
        (b"questions:\n  - \xff", "q.yaml:2: not UTF-8; "),
        ("a: 1\na: 2", "q.yaml:2: has the key 'a' twice (first in line 1); "),
        ("a: &a [1]\nb: *a", "q.yaml:2: b: aliases (`*name`) are not read; use `defaults`"),
        ("a: &a [*a]", "q.yaml:1: a[0]: aliases"),
        ("? [a]\n: b", "q.yaml:1: a key must be a text"),
        ("defaults:\n  kk: 3\nquestions: [{question: a, must: [b]}]", "q.yaml:2: defaults.kk: "),
        ("[" * 100_000, "q.yaml:1: not YAML: "),
    ],
)
def test_a_broken_file_has_one_fault(text: str | bytes, fault: str) -> None:
    (found,) = faults(text)

    assert found.startswith(fault)
