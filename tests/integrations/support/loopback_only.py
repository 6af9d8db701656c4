"""A plugin for pytest: a connection beyond loopback fails, so that no framework reports its use."""

import sys
from typing import Any

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _refuse_others(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in (*LOOPBACK, None, ""):
        raise PermissionError(f"a test connects to {host}; only loopback is allowed")


sys.addaudithook(_refuse_others)
