"""Loggers: structlog events that become records of the standard library.

Modules log with `get_logger(__name__)`: a static event name, and data as keywords. structlog is
imported at the first event, because importing it takes a fifth of the processor time of a short
command, and most commands log nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class _Logger:
    """The logger of a module, made when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        structlog = importlib.import_module("structlog")
        if not structlog.is_configured():
            route_to_standard_library()
        found = getattr(structlog.stdlib.get_logger(self._name), method)
        setattr(self, method, found)
        return found


def get_logger(name: str) -> "BoundLogger":
    """Return the logger of a module."""
    return cast("BoundLogger", _Logger(name))


def route_to_standard_library() -> None:
    """Make structlog events records of the standard library. Its defaults print them to stdout."""
    structlog = importlib.import_module("structlog")
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
