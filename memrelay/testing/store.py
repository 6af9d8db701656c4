"""A store of a pipeline under test, with the typed methods of `open_store`."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from memrelay.blocks.async_call import OperationFailed
from memrelay.bus.request import NewCall
from memrelay.client.nouns import EmbeddedNouns
from memrelay.memory.engine.identity import CONTEXTS, VOUCHED
from memrelay.memory.errors import Refused
from memrelay.memory.operations import AS_OF, Operation, known_operation
from memrelay.memory.stopped_writes import read_stopped
from memrelay.pipelines.rules import in_a_line

ACTOR = "test"


class PipelineStore(EmbeddedNouns):
    """A store with a method for each operation, such as `store.records.create`.

    The calls take the way of all calls through the worker's code, at the virtual time. A refused
    call raises OperationFailed.
    """

    def __init__(self, uid: str, name: str, answer: Callable[[NewCall], dict[str, Any]]) -> None:
        self._uid, self._name, self._answer = uid, name, answer

    def operate(self, name: str, input: Mapping[str, Any], *, as_of: str = "") -> Any:
        """Run an operation by its name, such as `records.create`, and return its output as JSON
        values. `as_of` reads the state of a past time. Raises OperationFailed and Refused.
        """
        operation = known_operation(name)
        if as_of and not operation.takes_as_of:
            raise Refused(f"{name} has no `as_of`")
        return self._send(operation, orjson.dumps(dict(input)), as_of)

    def _call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        fields = {name: value for name, value in arguments.items() if name != "self"}
        as_of = fields.pop(AS_OF, "") if operation.takes_as_of else ""
        if operation.has_caller:
            fields[VOUCHED] = CONTEXTS
        try:
            given = operation.adapter.validate_python(fields)
        except ValidationError as error:
            raise Refused(f"{operation.name}: {in_a_line(error)}") from error
        output = self._send(operation, orjson.dumps(given), as_of)
        if operation.mutates and (stopped := read_stopped(output)) is not None:
            return stopped
        return TypeAdapter(operation.output).validate_json(orjson.dumps(output))

    def _send(self, operation: Operation, data: bytes, as_of: str) -> Any:
        store = "" if operation.store and not operation.any_store else self._name
        call = NewCall(
            self._uid, operation.name, data, operation.mutates, store, ACTOR, as_of=as_of
        )
        answer = self._answer(call)
        if (error := answer.get("error")) is not None:
            raise OperationFailed(error["code"], error["detail"])
        return answer["output"]
