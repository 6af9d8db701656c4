"""Disks without room: how it is told, and what to do about them."""

import errno

ROOM = "make room"
# it may be either
ROOM_OR_DISK = f"{ROOM} where its disk is full, else look at the disk (the system's log says more)"


def lacks_room(error: BaseException) -> bool:
    """Whether the system refused something since the disk is full, or what this user may take of
    it."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
