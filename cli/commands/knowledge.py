"""`memrelay knowledge search|context`: what is found in named memories, made from the
operations."""

from cli.operation_command import command_for
from memory.operation import all_operations

knowledge = [
    command_for(operation)
    for operation in all_operations().values()
    if operation.noun == "knowledge"
]
