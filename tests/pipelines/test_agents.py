"""Checks of one agent: its class, block, names, timer and secrets."""

import pytest

from memrelay.pipelines.check import CheckedAgent, check
from tests.pipelines.builders import (
    Json,
    faults_of,
    lines,
    make_block,
    make_bundle,
    make_chat,
    make_memory,
    warnings_of,
)


def checked_agent(agent: Json) -> CheckedAgent:
    (checked,) = check(make_bundle(agent)).accepted().agents
    return checked


def test_a_misspelled_class_is_an_error_with_a_suggestion() -> None:
    assert faults_of(make_chat(agent_class="chat_agnet")) == [
        'agents[0].agent_class: unknown agent class "chat_agnet"; did you mean "chat_agent"?'
    ]


def test_a_class_is_required() -> None:
    (fault,) = faults_of(make_chat(agent_class=""))

    assert fault.startswith(
        "agents[0].agent_class: an agent needs a class; set one of wf_agent, chat_agent"
    )


def test_an_unknown_block_is_an_error_with_a_suggestion() -> None:
    assert faults_of(make_block("memory_wirte")) == [
        'agents[0].wf_diagram_webhook: there is no block "memory_wirte"; '
        'did you mean "memory_write"?'
    ]


def test_an_unknown_block_without_a_similar_name_is_an_error_with_a_list() -> None:
    (fault,) = faults_of(make_block("zzz"))

    known = fault.partition("known are ")[2].split(", ")
    assert known[:2] == ["add_1", "agent"] and "memory_write" in known


def test_a_chat_cannot_be_called_as_a_block() -> None:
    (fault,) = faults_of(make_block("chat_agent"))

    assert fault.startswith('agents[0].wf_diagram_webhook: there is no block "chat_agent"')


def test_a_wf_agent_needs_a_block() -> None:
    assert faults_of({"agent_class": "wf_agent", "agent_alias": "a"}) == [
        "agents[0].wf_diagram_webhook: a wf_agent needs a block; "
        "name one, or set wf_call_webhook to false"
    ]


def test_a_wf_agent_that_calls_nothing_needs_no_block() -> None:
    agent = {
        "agent_class": "wf_agent",
        "agent_alias": "a",
        "wf_call_webhook": "false",
        "wf_webhook_args": '{"x": 1}',
    }

    assert not checked_agent(agent).calls


def test_a_named_block_is_called_unless_the_bundle_disables_it() -> None:
    assert checked_agent(make_block("add_1")).calls
    assert not checked_agent(make_block("add_1", wf_call_webhook=False)).calls


def test_the_class_of_a_chat_or_viewer_is_its_block() -> None:
    chat = checked_agent(make_chat(wf_webhook_args='{"darkmode": "true"}', wf_call_webhook=True))
    viewer = checked_agent(
        {"agent_class": "viewer_agent", "agent_alias": "v", "wf_webhook_args": {"markdown": False}}
    )

    assert (chat.block.name, viewer.block.name) == ("chat_agent", "viewer_agent")
    assert chat.args.model_dump()["darkmode"] is True
    assert not chat.calls


def test_an_agent_publishes_as_its_wf_agent_name_or_its_agent_name() -> None:
    renamed = checked_agent(make_chat(wf_agent_name="Ann"))
    plain = checked_agent(make_chat())

    assert (renamed.agent.name, plain.agent.name) == ("Ann", "User")


def test_the_username_is_by_default_the_published_name() -> None:
    assert checked_agent(make_chat()).agent.username == "User"
    assert checked_agent(make_chat(wf_username="ann")).agent.username == "ann"


@pytest.mark.parametrize(
    "nameless",
    [make_chat(agent_name=""), make_block("add_1", wf_agent_name="")],
    ids=["chat", "block"],
)
def test_an_agent_that_publishes_needs_a_name_besides_its_alias(nameless: Json) -> None:
    assert faults_of(nameless) == [
        "agents[0].agent_name: an agent that publishes needs a name; "
        "set wf_agent_name or agent_name"
    ]


def test_a_chat_publishes_if_it_has_a_send_swarm() -> None:
    assert checked_agent(make_chat(wf_publish_results=False)).agent.publishes
    assert not checked_agent(make_chat(agent_send_swarm="")).agent.publishes


def test_a_viewer_never_publishes() -> None:
    viewer = make_chat(agent_class="viewer_agent", wf_publish_results=True)

    assert not checked_agent(viewer).agent.publishes
    assert warnings_of(viewer | {"agent_send_swarm": ""}) == []


def test_publishing_without_a_swarm_is_a_warning() -> None:
    agent = make_block("add_1", agent_send_swarm="")

    assert not checked_agent(agent).agent.publishes
    assert warnings_of(agent) == [
        "agents[0].agent_send_swarm: wf_publish_results is true, but there is no swarm to "
        "publish to; set agent_send_swarm"
    ]


def test_a_memory_block_that_does_not_publish_its_result_is_a_warning() -> None:
    assert warnings_of(make_memory(wf_publish_results=False)) == [
        "agents[0].wf_publish_results: the block runs, but its result is not published; "
        "set wf_publish_results to true"
    ]


def test_an_invalid_flag_is_an_error_without_an_additional_warning() -> None:
    checked = check(make_bundle(make_memory(wf_publish_results="yes")))

    assert lines(checked.faults) == ["agents[0].wf_publish_results: must be true or false"]
    assert checked.warnings == ()


def test_a_store_outside_the_pipeline_is_a_warning() -> None:
    assert warnings_of(make_memory(wf_webhook_args={"memory_id": "apps/example/shared"})) == [
        "agents[0].wf_webhook_args.memory_id: every pipeline that names the store "
        '"apps/example/shared" shares it; '
        "begin it with instances/${pipeline_uid}/ for a private store"
    ]


def test_a_score_in_a_template_of_memory_read_is_a_warning() -> None:
    args = {
        "memory_id": "instances/${pipeline_uid}/memories",
        "output_template": "{{score | round(2)}} {{content}}",
    }

    (warning,) = warnings_of(make_block("memory_read", args))

    assert warning.startswith(
        "agents[0].wf_webhook_args: output_template has {{score}}, which is 0.0"
    )
    assert warnings_of(make_block("memory_search", args)) == []


def test_a_block_adds_its_own_warnings() -> None:
    (warning,) = warnings_of(make_memory(wf_webhook_args=""))

    assert warning.startswith(
        "agents[0].wf_webhook_args: memory_id is missing: set it in wf_webhook_args"
    )


@pytest.mark.parametrize(
    ("interval", "expected_ms"),
    [(0, 0), ("0", 0), (1, 1000), ("30", 30_000), (1.5, 1500), (31_622_400, 31_622_400_000)],
)
def test_an_interval_is_a_number_or_a_number_as_text(
    interval: float | str, expected_ms: int
) -> None:
    agent = make_block("add_1", wf_interval_secs=interval)

    assert checked_agent(agent).interval_ms == expected_ms
    assert warnings_of(agent) == []


@pytest.mark.parametrize("interval", [-1, 0.999, "0.5", 31_622_401, 1e300])
def test_an_interval_is_at_least_a_second_and_at_most_a_year(interval: float | str) -> None:
    assert faults_of(make_block("add_1", wf_interval_secs=interval)) == [
        "agents[0].wf_interval_secs: must be 0 for no timer, or between 1 and 31622400 seconds"
    ]


def test_a_timer_of_an_agent_without_a_block_is_a_warning() -> None:
    for agent in (
        make_chat(wf_interval_secs="30"),
        make_block("add_1", wf_call_webhook=False, wf_interval_secs=30),
    ):
        assert warnings_of(agent) == [
            "agents[0].wf_interval_secs: the agent calls no block, so the timer has no "
            "effect; set 0"
        ]


def test_a_timer_of_a_block_that_ignores_an_empty_text_is_a_warning() -> None:
    (warning,) = warnings_of(
        make_block("regex_match", {"pattern": r"^/now\b"}, wf_interval_secs=30)
    )

    assert warning == (
        "agents[0].wf_interval_secs: a timer's text is empty, and the block's pattern does "
        "not accept it; "
        "set 0, or another pattern"
    )
    assert (
        warnings_of(
            make_block("regex_filter", {"pattern": "^/", "invert": True}, wf_interval_secs=30)
        )
        == []
    )


@pytest.mark.parametrize(
    ("flow", "fault"),
    [
        ({"key": "host"}, ": must have debounce_s, rate or batch"),
        (
            {"debounce_s": 1, "batch": {"size": 2, "within_s": 1}},
            ": must not have both debounce_s and batch: keep the last, or collect",
        ),
        ({"rate": "10/m"}, ".rate: must be CALLS/SECONDS with an s, like 10/60s"),
        ({"rate": "1001/60s"}, ".rate: must be CALLS/SECONDS with an s, like 10/60s"),
        ({"rate": "1/86401s"}, ".rate: must be CALLS/SECONDS with an s, like 10/60s"),
        ({"debounce_s": 0}, ".debounce_s: must be greater than 0"),
        ({"debounce_s": 1, "key": "$.host"}, ".key: not JMESPath: '$.host'"),
        ({"batch": {"size": 1, "within_s": 1}}, ".batch.size: must be greater than or equal to 2"),
        ({"rates": "1/1s"}, ".rates: is no known key"),
    ],
)
def test_a_wrong_flow_is_a_fault(flow: Json, fault: str) -> None:
    (found, *_) = faults_of(make_block("add_1", wf_flow=flow))

    assert found.startswith(f"agents[0].wf_flow{fault}")


def test_a_flow_needs_a_block_and_a_batch_no_pattern() -> None:
    rate, batch = {"rate": "1/1s"}, {"batch": {"size": 2, "within_s": 1}}

    assert warnings_of(make_chat(wf_flow=rate)) == [
        "agents[0].wf_flow: the agent calls no block, so wf_flow has no effect; remove it"
    ]
    assert faults_of(make_block("regex_match", {"pattern": "(a)"}, wf_flow=rate)) == []
    (fault,) = faults_of(make_block("regex_match", {"pattern": "(a)"}, wf_flow=batch))
    assert "the block's pattern applies to one text" in fault


@pytest.mark.parametrize(
    "reference", ["env:HOOK_TOKEN", "env:_t0", "file:/run/secrets/hook", "file:~/token", "file:a b"]
)
def test_a_webhook_token_is_a_reference_to_its_place(reference: str) -> None:
    assert checked_agent(make_memory(wf_webhook_token=reference)).token == reference
    assert checked_agent(make_chat(wf_webhook_token=reference)).token == reference


def test_an_agent_needs_no_token() -> None:
    assert [
        checked_agent(make_memory(**keys)).token for keys in ({}, {"wf_webhook_token": ""})
    ] == ["", ""]


@pytest.mark.parametrize(
    "token",
    [
        "s3cret",
        "env:",
        "env:1A",
        "env:A-B",
        "env:A B",
        "file:",
        "file:a\nb",
        "ENV:A",
        " env:A",
        "env:A\n",
    ],
)
def test_a_token_in_the_bundle_is_an_error_that_does_not_repeat_it(token: str) -> None:
    assert faults_of(make_memory(wf_webhook_token=token)) == [
        "agents[0].wf_webhook_token: a bundle must not contain a token, only its place; "
        "write env:NAME or file:NAME"
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [("env:A", ("env:A",)), (["env:A", "file:a b"], ("env:A", "file:a b")), ("", ()), ([], ())],
)
def test_webhook_secrets_are_references_to_their_places(
    given: object, kept: tuple[str, ...]
) -> None:
    agent = checked_agent(make_memory(wf_webhook_secret=given))

    assert (agent.secrets, agent.is_guarded) == (kept, bool(kept))


@pytest.mark.parametrize(
    "secret", ["whsec_c2VjcmV0", ["env:A", "whsec_c2VjcmV0"], "env:A env:B", ["env:A B"]]
)
def test_a_secret_in_the_bundle_is_an_error_that_does_not_repeat_it(
    secret: object,
) -> None:
    assert faults_of(make_memory(wf_webhook_secret=secret)) == [
        "agents[0].wf_webhook_secret: a bundle must not contain a secret, only its place; "
        "write env:NAME or file:NAME"
    ]


def test_a_misspelled_token_is_an_error_with_a_suggestion() -> None:
    (fault,) = faults_of(make_memory(wf_webhook_tokne="env:A"))

    assert fault.endswith('did you mean "wf_webhook_token"?')
