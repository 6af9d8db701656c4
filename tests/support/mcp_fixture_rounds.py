"""The diagnostic tools that ask the client for input before they answer."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from tests.support.mcp_fixture_tools import (
    Answer,
    Context,
    Run,
    form_request,
    sampling_request,
    text,
)

_NAME = form_request("What is your name?", "name")
_CONFIRM = form_request("Please confirm", "ok", "boolean")


def ask(requests: Mapping[str, Any], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=dict(requests), request_state=state)


def form_answer(params: types.InputResponseRequestParams, key: str) -> dict[str, Any] | None:
    """Return the fields of an accepted form, or None if the client sent no such form."""
    answer = (params.input_responses or {}).get(key)
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return None
    return dict(answer.content or {})


async def elicitation(_: Context, params: types.CallToolRequestParams) -> Answer:
    answer = form_answer(params, "user_name")
    if answer is None or "name" not in answer:
        return ask({"user_name": _NAME})
    return text(f"Hello, {answer['name']}!")


async def sampling(_: Context, params: types.CallToolRequestParams) -> Answer:
    answer = (params.input_responses or {}).get("capital_question")
    if not isinstance(answer, types.CreateMessageResult):
        return ask({"capital_question": sampling_request("What is the capital of France?", 100)})
    return text(f"The client answered: {answer.content}")


async def roots(_: Context, params: types.CallToolRequestParams) -> Answer:
    answer = (params.input_responses or {}).get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return ask({"client_roots": types.ListRootsRequest()})
    return text("Roots: " + ", ".join(str(root.uri) for root in answer.roots))


async def stateful(_: Context, params: types.CallToolRequestParams) -> Answer:
    if form_answer(params, "confirm") is None or params.request_state != "confirming":
        return ask({"confirm": _CONFIRM}, "confirming")
    return text("state-ok")


async def several(_: Context, params: types.CallToolRequestParams) -> Answer:
    requests = {
        "user_name": _NAME,
        "greeting": sampling_request("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    if params.request_state != "several" or set(params.input_responses or ()) != set(requests):
        return ask(requests, "several")
    return text("All three answers arrived")


async def rounds(_: Context, params: types.CallToolRequestParams) -> Answer:
    if params.request_state == "second" and form_answer(params, "step2") is not None:
        return text("Both rounds are complete")
    if params.request_state == "first" and form_answer(params, "step1") is not None:
        question = form_request("Step 2: What is your favorite color?", "color")
        return ask({"step2": question}, "second")
    return ask({"step1": form_request("Step 1: What is your name?", "name")}, "first")


async def by_capability(context: Context, _: types.CallToolRequestParams) -> Answer:
    declared = context.session.client_capabilities
    requests: dict[str, Any] = {}
    if declared is not None and declared.sampling is not None:
        requests["greeting"] = sampling_request("Generate a greeting", 50)
    if declared is not None and declared.elicitation is not None:
        requests["user_name"] = _NAME
    return ask(requests) if requests else text("The client can answer no question")


async def streaming(context: Context, params: types.CallToolRequestParams) -> Answer:
    return await elicitation(context, params)


PREFIX = "test_input_required_result_"

TOOLS: dict[str, Run] = {
    PREFIX + "elicitation": elicitation,
    PREFIX + "sampling": sampling,
    PREFIX + "list_roots": roots,
    PREFIX + "request_state": stateful,
    PREFIX + "multiple_inputs": several,
    PREFIX + "multi_round": rounds,
    PREFIX + "tampered_state": stateful,
    PREFIX + "capabilities": by_capability,
    "test_streaming_elicitation": streaming,
}
