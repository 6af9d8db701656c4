"""`memrelay memories create|list|get|update|delete`: named memories, made from the operations."""

from cli.operation_command import command_for
from memory.operation import all_operations

memories = [
    command_for(operation)
    for operation in all_operations().values()
    if operation.noun == "memories"
]
