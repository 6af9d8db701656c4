"""`memrelay records create|get|list|search|append|update|delete`: what a pipeline remembers, made
from the operations."""

from cli.operation_command import command_for
from memory.operation import all_operations

records = [
    command_for(operation) for operation in all_operations().values() if operation.noun == "records"
]
