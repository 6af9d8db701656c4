"""The deferred calls of a try. Requests to services are shown and not sent."""

import time
from collections.abc import Mapping
from typing import Any

import orjson

from memrelay.blocks.contract import AsyncBlock
from memrelay.blocks.sources import built_in_source
from memrelay.dry_run.recorder import Recorder
from memrelay.guarded_http.rules import PUBLIC_ONLY
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import Plan, PlannedAgent
from memrelay.pipelines.secret_references import REDACTED, SecretResolver
from memrelay.testing.calls import Answer, CallExecutor
from memrelay.worker.deferred_calls.runner import Ended
from memrelay.worker.deferred_calls.stored import pack_result, parse_request

HTTP_BLOCKS = {"http_request": "http", "webhook_send": "webhook"}
MODEL_BLOCKS = ("agent", "extract", "summarize")
SENT = "nothing was sent: blocks that send requests went on as if the answer were 200"
ASKED = "no model was asked: the agent went on with a placeholder for its answer"
EXTRACTED = "no model was asked: facts and summaries were not made"
MODEL_ANSWER = "[the answer of the model]"
OWN_IS_LEFT_OUT = "an async block of your own runs only when the pipeline is deployed"


class NoSecrets(SecretResolver):
    """Gives a placeholder for each secret."""

    def read_for_block(self, reference: str) -> str:
        """Return the placeholder."""
        return REDACTED

    def read_to_send(self, reference: str, host: str, uid: str) -> str:
        """Return the placeholder."""
        return REDACTED


class ShownCalls(CallExecutor):
    """Shows requests in the steps that made them, and answers them with placeholders."""

    def __init__(
        self,
        plan: Plan,
        secrets: SecretResolver,
        max_bytes: int,
        recorder: Recorder,
        refusals: Mapping[str, str],
    ) -> None:
        super().__init__(plan, secrets, PUBLIC_ONLY, max_bytes)
        self._recorder, self._refusals = recorder, refusals

    def leaves_out(self, pending: Pending) -> bool:
        """Return whether a call is not executed, because its code is not that of Memrelay."""
        subscriber = self._find_subscriber(pending)
        is_own = (
            isinstance(subscriber.executor, AsyncBlock) or built_in_source(subscriber.block) is None
        )
        if is_own:
            self._recorder.find_call(pending.deferred_call_id).not_run = OWN_IS_LEFT_OUT
        return is_own

    async def execute(self, pending: Pending, answer: Answer) -> Ended:
        """Return the end of a deferred call."""
        block, request = self._find_subscriber(pending).block, parse_request(pending)
        if block in HTTP_BLOCKS:
            target = f"{request['method']} {request['url']}"
            self._show(pending, HTTP_BLOCKS[block], target, request.get("content") or "")
            if refusal := self._refusals.get(pending.agent):
                self._recorder.find_call(pending.deferred_call_id).fault = refusal
                return self._end({"error": refusal})
            self._recorder.note(SENT)
            return self._end({"status": 200, "headers": {}, "text": ""})
        if block not in MODEL_BLOCKS:
            return await super().execute(pending, answer)
        model, body = request.get("options", request), orjson.dumps(_list_messages(request))
        self._show(pending, "model", f"{model['model']} at {model['url']}", body.decode())
        if block == "agent":
            self._recorder.note(ASKED)
            return self._end({"text": MODEL_ANSWER, "actions": []})
        self._recorder.note(EXTRACTED)
        fault = {"error": "no model was asked", "is_rejected": False, "was_sent": False}
        ended_at = {"turns": request["turns"], "ended_at_ms": time.time_ns() // 1_000_000}
        return self._end(fault | ended_at)

    def _find_subscriber(self, pending: Pending) -> PlannedAgent:
        subscriber = self._plan.subscriber(pending.agent)
        assert subscriber is not None  # it has made the call
        return subscriber

    def _end(self, value: Any) -> Ended:
        return Ended(pack_result(value, self._max_bytes))

    def _show(self, pending: Pending, what: str, target: str, body: str) -> None:
        step = self._recorder.find_call(pending.deferred_call_id)
        # A repeated call is shown once.
        step.sends[:] = [{"what": what, "target": target, "body": body}]
        self._recorder.count_bytes(body)


def _list_messages(request: dict[str, Any]) -> Any:
    """Return the messages for a model. An agent would add its conversation and its tools."""
    if "messages" in request:
        return request["messages"]
    parts = (("system", request.get("prompt", "")), ("user", request.get("text", "")))
    return [{"role": role, "content": text} for role, text in parts if text]
