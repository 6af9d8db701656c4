"""The memory tool behind keys with few scopes: the commands that they may call."""

from collections.abc import Mapping
from typing import Any

from memrelay.web.api.operation_scopes import scope_of_command
from memrelay.web.auth.authorizer import Caller


def check_command(caller: Caller, name: str, given: Mapping[str, Any]) -> None:
    """Check the scope of a tool call's command. Raises NotAllowed: the scope is missing."""
    if needed := scope_of_command(name, given):
        caller.check(needed)
