"""Answers read-only calls on stores that this thread owns."""

import time
from typing import Any

import orjson

from memrelay.bus.request import Question, error_answer
from memrelay.memory.engine.open_for_read import ReadableStores
from memrelay.memory.errors import Refused, VectorPending
from memrelay.memory.operations import known_operation
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.calls import resolve_store
from memrelay.worker.run.queries import Query, answer_all


def answer_read(
    stores: ReadableStores, plan: Plan, question: Question, now_ms: int, answer_bytes: int
) -> dict[str, Any]:
    """Return {"output": ...} or {"error": {"code", "detail"}}. Only the call itself counts of
    `question`: `op`, `input`, `store` and `actor`.
    """
    operation = known_operation(question.op)
    try:
        memory_id = resolve_store(plan, question.store, operation)
    except Refused as error:
        return _parse(error_answer(error.code, str(error)))
    language = plan.languages.get(memory_id, DEFAULT_LANGUAGE)
    query = Query(operation, question, memory_id, language, float("inf"), plan)
    while True:
        try:
            (answer,) = answer_all(stores, [query], answer_bytes, now_ms)
        except VectorPending as pending:
            time.sleep(pending.after_s)
            continue
        # None stands for a stepwise query that continues.
        if answer is not None:
            return _parse(answer)


def _parse(answer: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(answer)
    return parsed
