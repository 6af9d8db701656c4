"""The whole check: input, UID, hash, and robustness."""

import hashlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.pipelines.bundle import AgentSpec, Bundle
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.json_text import MAX_BYTES
from tests.pipelines.builders import UID, lines, make_block, make_bundle, make_chat, make_memory

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
WORDS = st.sampled_from(
    ["memory_write", "regex_match", "wf_agent", "chat_agent", "User", "!User", "*", "${x}", "{}"]
)
ARGS = st.dictionaries(
    st.sampled_from(["pattern", "memory_id", "output_template", "tags", "group", "flags"]), JSON
)
AGENTS = st.dictionaries(st.sampled_from(sorted(AgentSpec.keys())), WORDS | ARGS | JSON)
BUNDLES = st.fixed_dictionaries(
    {"agents": st.lists(AGENTS) | JSON},
    optional={key: st.lists(WORDS | AGENTS) | JSON for key in sorted(Bundle.keys() - {"agents"})},
)
CHATS = st.fixed_dictionaries(
    {
        "agent_class": st.just("chat_agent"),
        "agent_alias": st.text(min_size=1),
        "agent_from": WORDS | st.lists(WORDS),
    },
    optional={"agent_desc": st.text(), "notes": st.floats() | st.integers(-(2**63), 2**64 - 1)},
)


def test_every_fault_is_reported_at_once() -> None:
    broken = make_bundle(
        make_chat(agent_sned_swarm="x"),
        make_block("memory_wirte", "{"),
        make_memory(agent_alias=""),
        display_order=3,
    )

    pointers = [fault.pointer for fault in check(broken).faults]

    assert pointers == [
        "/agents/0/agent_sned_swarm",
        "/agents/1/wf_diagram_webhook",
        "/agents/1/wf_webhook_args",
        "/agents/2/agent_alias",
        "/display_order",
    ]


def test_a_bundle_with_errors_is_not_accepted() -> None:
    checked = check(make_bundle(make_chat(agent_alias="")))

    assert checked.bundle is None
    with pytest.raises(BundleRefused) as refused:
        checked.accepted()
    assert refused.value.faults == checked.faults


def test_invalid_json_is_reported_with_line_and_column() -> None:
    assert lines(check(b'{"agents": [\n  {,\n]}').faults)[0].endswith("(line 2, column 4)")


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ('{"agents": [  // none yet', "JSON has no comments"),
        ("{'agents': []}", 'keys and texts are in straight quotes, like "this"'),
        ("{\u201cagents\u201d: []}", 'keys and texts are in straight quotes, like "this"'),
        ('{"wf_publish_results": True}', "write true, false or null"),
        (r'{"pattern": "^/note\s"}', r'write a backslash in a text twice, like "\\s"'),
        ('{"text": "two\nlines"}', r"write a line break in a text as \n"),
    ],
)
def test_a_common_mistake_in_json_is_reported_with_the_remedy(written: str, remedy: str) -> None:
    (line,) = lines(check(written.encode()).faults)

    assert line.startswith("not JSON: ")
    assert line.endswith(f"; {remedy}")


def test_a_bundle_that_is_not_utf8_is_reported_with_the_line() -> None:
    (line,) = lines(check('{\n"pipeline_name": "café"}'.encode("latin-1")).faults)

    assert line == "not JSON: not UTF-8 (line 2); save it as UTF-8"


def test_a_duplicate_key_is_a_warning() -> None:
    written = orjson.dumps(make_bundle()).replace(b"{", b'{"notes": 7, "notes": {},', 1)

    checked = check(written)

    assert checked.faults == ()
    assert [line for line in lines(checked.warnings) if "twice" in line] == [
        "one object has the key 'notes' twice; the last value counts; remove one of them"
    ]


@pytest.mark.parametrize("raw", [b"[]", b"7", b'"{}"', b"null"])
def test_a_bundle_is_an_object(raw: bytes) -> None:
    assert lines(check(raw).faults) == ["must be a JSON object, like {}"]


def test_bytes_that_are_not_text_are_a_fault() -> None:
    assert lines(check(b'{"agents": "\xff"}').faults)[0].startswith("not JSON: ")


def test_a_byte_order_mark_is_accepted() -> None:
    assert check(b"\xef\xbb\xbf" + orjson.dumps(make_bundle())).faults == ()


def test_a_large_bundle_is_a_fault() -> None:
    (fault,) = check(orjson.dumps(make_bundle(notes="x" * MAX_BYTES))).faults

    assert fault.rule.startswith("the bundle has ")


def test_a_bundle_that_grows_too_large_by_its_uid_is_a_fault() -> None:
    bundle = make_bundle(notes="${pipeline_uid}" * 60_000)

    (fault,) = check(bundle, uid="u" * 64).faults

    assert fault.rule.startswith("the bundle has ")


@pytest.mark.parametrize("depth", [40, 5000])
def test_a_deep_bundle_is_a_fault(depth: int) -> None:
    assert len(check(b'{"agents": ' + b"[" * depth + b"]" * depth + b"}").faults) == 1


@pytest.mark.parametrize(
    "value", [{1: 2}, {"a": object()}, {"a": {1, 2}}, {"a": "\ud800"}, {"a": 1 << 70}]
)
def test_an_object_that_is_not_json_is_a_fault(value: dict[Any, Any]) -> None:
    assert lines(check(value).faults)[0].startswith("not JSON: ")


def test_the_callers_object_is_not_changed() -> None:
    bundle = make_bundle(make_memory())
    before = orjson.dumps(bundle)

    check(bundle, uid=UID)

    assert orjson.dumps(bundle) == before


def test_a_given_uid_takes_precedence_over_the_bundles() -> None:
    assert check(make_bundle(pipeline_uid="own"), uid="given").accepted().uid == "given"
    assert check(make_bundle(pipeline_uid="own")).accepted().uid == "own"


@pytest.mark.parametrize("absent", [None, "", "${pipeline_uid}"])
def test_a_missing_uid_is_generated(absent: str | None) -> None:
    first, second = (check(make_bundle(pipeline_uid=absent)).accepted().uid for _ in range(2))

    assert first != second
    assert len(bytes.fromhex(first)) == 4


@pytest.mark.parametrize("uid", ["a b", "a/b", "ü", "x" * 65, "public", 7, ["a"]])
def test_an_invalid_uid_causes_only_one_fault(uid: Any) -> None:
    (fault,) = check(make_bundle(make_memory(), pipeline_uid=uid)).faults

    assert fault.pointer == "/pipeline_uid"


def test_an_invalid_uid_from_the_caller_is_a_fault() -> None:
    assert check(make_bundle(), uid="../x").faults[0].pointer == "/pipeline_uid"


def test_the_hash_is_the_hash_of_the_canonical_source() -> None:
    checked = check(make_bundle(pipeline_desc="of ${pipeline_uid}"), uid=UID).accepted()

    canonical = orjson.dumps(orjson.loads(checked.source), option=orjson.OPT_SORT_KEYS)
    assert checked.hash == hashlib.sha256(canonical).hexdigest()
    assert (checked.name, checked.description) == ("tea", f"of {UID}")
    assert orjson.loads(checked.source)["pipeline_uid"] == UID


def test_the_hash_does_not_depend_on_the_order_of_keys_or_on_spaces() -> None:
    bundle = make_bundle(make_chat(), make_memory())
    other = orjson.dumps(dict(reversed(bundle.items())), option=orjson.OPT_INDENT_2)

    assert check(bundle, uid=UID).accepted().hash == check(other, uid=UID).accepted().hash


def test_checking_the_source_again_gives_the_same_bundle() -> None:
    checked = check(
        make_bundle(make_chat(), make_memory(agent_from="User"), big=1e300, z=-0.0)
    ).accepted()

    assert check(checked.source).accepted() == checked


@given(JSON | BUNDLES)
def test_the_check_accepts_any_json(value: Any) -> None:
    checked = check(json.dumps(value).encode())

    assert (checked.bundle is None) == bool(checked.faults)


@pytest.mark.slow
@given(BUNDLES)
def test_the_check_accepts_any_object(value: dict[str, Any]) -> None:
    checked = check(value)

    assert (checked.bundle is None) == bool(checked.faults)


@given(st.binary() | st.text().map(str.encode))
def test_the_check_accepts_any_bytes(raw: bytes) -> None:
    assert check(raw).bundle is None


@given(st.lists(CHATS, max_size=3))
def test_an_accepted_bundle_is_accepted_again_unchanged(agents: list[dict[str, Any]]) -> None:
    checked = check({"agents": agents, "free": agents}, uid=UID)

    assert checked.bundle is None or check(checked.bundle.source).accepted() == checked.bundle


def test_patterns_that_are_too_large_together_are_refused_without_compiling_the_rest() -> None:
    agents = [
        make_block("regex_match", {"pattern": f"{number}[ab]{{900}}"}, agent_alias=f"a{number}")
        for number in range(1_000)
    ]

    faults = [fault for fault in check(make_bundle(*agents)).faults if "steps" in fault.rule]

    assert len(faults) == 1 and "at most 200000 steps together" in faults[0].rule
