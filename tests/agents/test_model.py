"""The client of chat models: its requests, its retries, and the answers to every fault."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.agents.model import MAX_ANSWER, ChatModel, EmptyText, ModelFault, ModelOptions
from memrelay.guarded_http.client import GuardedClient
from memrelay.guarded_http.rules import OutgoingRules
from tests.support.model_server import Json, ModelServer, Raw, calls, fault

OPEN = frozenset({"models"})
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def ask(
    url: str,
    *,
    private: bool = True,
    key: str = "",
    tools: list[Json] | None = None,
    **options: Any,
) -> Json:
    """Return the message of the model. Pauses are short."""

    async def run() -> Json:
        rules = OutgoingRules(any_port=True, open_for=OPEN if private else frozenset())
        async with GuardedClient(rules, "models") as client:
            chosen = ModelOptions(url, options.pop("model", "llama3"), **options)
            model = ChatModel(client, chosen, key, first_pause_s=0.01)
            return await model.ask(HELLO, tools or (), request_id="call/0")

    return asyncio.run(run())


def fault_of(url: str, **options: Any) -> str:
    with pytest.raises(ModelFault) as caught:
        ask(url, **options)
    return str(caught.value)


def test_a_request_has_the_parameters_and_the_answer_is_the_message(server: ModelServer) -> None:
    tool = {"type": "function", "function": {"name": "recall", "parameters": {}}}

    said = ask(server.url, key="sk-1", temperature=0.1, max_tokens=50, tools=[tool])

    assert said == {"content": "you said: hello", "tool_calls": []}
    assert server.requests == [
        {
            "model": "llama3",
            "messages": HELLO,
            "temperature": 0.1,
            "max_tokens": 50,
            "tools": [tool],
        }
    ]
    (headers,) = server.headers
    assert headers["Authorization"] == "Bearer sk-1"
    assert headers["Idempotency-Key"] == "call/0"


def test_parameters_without_a_value_are_left_out(server: ModelServer) -> None:
    ask(server.url)

    assert set(server.requests[0]) == {"model", "messages"}
    assert "Authorization" not in server.headers[0]


def test_the_url_may_be_that_of_the_completions(server: ModelServer) -> None:
    assert ask(f"{server.url}/chat/completions")["content"] == "you said: hello"


@pytest.mark.parametrize("model", ["o3-mini", "gpt-5", "openai/gpt-5-mini"])
def test_new_models_get_the_new_name_of_the_limit(server: ModelServer, model: str) -> None:
    ask(server.url, model=model, max_tokens=9)

    assert server.requests[0]["max_completion_tokens"] == 9
    assert "max_tokens" not in server.requests[0]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_temporary_fault_is_retried(server: ModelServer, status: int) -> None:
    server.script.extend([fault(status, "busy"), fault(status, "busy", Retry_After="0")])

    assert ask(server.url)["content"] == "you said: hello"
    assert len(server.requests) == 3


def test_a_lasting_fault_is_reported_after_three_attempts(server: ModelServer) -> None:
    server.script.extend([fault(503, "overloaded")] * 3)

    text = "127.0.0.1 answers 503 Service Unavailable (overloaded) (after 3 attempts)"
    assert fault_of(server.url) == text
    assert len(server.requests) == 3


def test_a_long_retry_after_ends_the_attempts(server: ModelServer) -> None:
    server.script.append(fault(429, "quota", Retry_After="3600"))

    text = (
        "127.0.0.1 answers 429 Too Many Requests (quota); it asks to wait 3600 s: try again later"
    )
    assert fault_of(server.url) == text
    assert len(server.requests) == 1


def test_a_wrong_key_is_reported_without_the_key(server: ModelServer) -> None:
    server.script.append(fault(401, "Incorrect API key provided: sk-secret"))

    text = "127.0.0.1 answers 401 Unauthorized (Incorrect API key provided: ***): check `api_key`"
    assert fault_of(server.url, key="sk-secret") == text
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (fault(404, "no model"), "answers 404 Not Found (no model): check `url` and `model`"),
        (Raw(400, b'{"error": "bad"}'), "answers 400 Bad Request (bad)"),
        (Raw(400, b"<html>"), "answers 400 Bad Request"),
        (Raw(302, headers={"Location": "http://x/"}), "set `url` to the final address"),
        (Raw(200, b"<html>"), "does not answer like /chat/completions: check `url`"),
        (Raw(200, b'{"choices": []}'), "does not answer like /chat/completions"),
        (Raw(200, b'{"choices": [{"message": "x"}]}'), "does not answer like /chat/completions"),
        (Raw(200, b" " * (MAX_ANSWER + 1)), f"the answer has more than {MAX_ANSWER} bytes"),
    ],
)
def test_other_faults_are_reported_at_once(server: ModelServer, answer: Raw, text: str) -> None:
    server.script.append(answer)

    assert text in fault_of(server.url)
    assert len(server.requests) == 1


def test_an_empty_text_is_recognized(server: ModelServer) -> None:
    server.script.append(fault(400, "messages.1: Text Cannot Be Empty"))

    with pytest.raises(EmptyText):
        ask(server.url)


def test_a_server_that_is_not_there_is_tried_three_times() -> None:
    with ModelServer() as server:
        url = server.url

    text = fault_of(url)
    assert " cannot be reached: " in text
    assert text.endswith("(after 3 attempts)")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:10.0.0.1]"])
def test_private_addresses_need_the_setting(server: ModelServer, host: str) -> None:
    text = fault_of(f"http://{host}:{server.server_port}/v1", private=False)

    assert "which is not public: list " in text
    assert "in `outgoing.private` for models, and restart" in text
    assert server.requests == []


def test_proxy_variables_are_ignored(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert ask(server.url)["content"] == "you said: hello"


def test_a_key_that_no_header_can_contain_is_refused(server: ModelServer) -> None:
    assert (
        fault_of(server.url, key="sk\n1") == "api_key has characters that a header cannot contain"
    )


def test_tool_calls_are_returned(server: ModelServer) -> None:
    server.script.append(calls(("recall", {"key": "tea"})))

    (call,) = ask(server.url)["tool_calls"]

    assert call["function"] == {"name": "recall", "arguments": '{"key":"tea"}'}
