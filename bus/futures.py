"""Futures that somebody may have stopped waiting for."""

import asyncio
from typing import Any


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Gives it the error, where it has no result yet; who has given up need not be told in the
    log."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen
