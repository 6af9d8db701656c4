"""Commands that the server refused inside a MULTI, as on a key of another type: the rest of it was
done all the same."""

import logging
from collections.abc import Collection, Sequence
from typing import Any

import hiredis

log = logging.getLogger(__name__)


def tell_refusals(replies: Collection[Any], pipelines: Sequence[str]) -> bool:
    """Tells of the first, and how many there were. Whether there was any."""
    if hiredis.ReplyError in set(
        map(type, replies)
    ):  # asked of each by itself it costs three times as much
        refused = [str(reply) for reply in replies if isinstance(reply, hiredis.ReplyError)]
        log.error(
            "server_refused_commands",
            extra={
                "pipelines": pipelines,
                "count": len(refused),
                "reason": refused[0],
                "remedy": "`memrelay doctor` names the key or the right",
            },
        )
        return True
    return False
