"""`memrelay records create|get|list|search|append|update|delete`: what a pipeline remembers, made
from the operations."""

from memrelay.cli.operation_command import command_for
from memrelay.memory.operation import all_operations

records = [
    command_for(operation) for operation in all_operations().values() if operation.noun == "records"
]


# `memrelay entries create|list|get|update|delete`: what named memories hold, made from the
# operations.

entries = [
    command_for(operation) for operation in all_operations().values() if operation.noun == "entries"
]


# `memrelay knowledge search|context`: what is found in named memories, made from the
# operations.

knowledge = [
    command_for(operation)
    for operation in all_operations().values()
    if operation.noun == "knowledge"
]


# `memrelay memories create|list|get|update|delete`: named memories, made from the operations.

memories = [
    command_for(operation)
    for operation in all_operations().values()
    if operation.noun == "memories"
]
