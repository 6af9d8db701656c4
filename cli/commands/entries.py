"""`memrelay entries create|list|get|update|delete`: what named memories hold, made from the
operations."""

from cli.operation_command import command_for
from memory.operation import all_operations

entries = [
    command_for(operation) for operation in all_operations().values() if operation.noun == "entries"
]
