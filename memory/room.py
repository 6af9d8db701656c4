"""Disks without room."""
import errno


def lacks_room(error: BaseException) -> bool:
    """Whether the system refused something since the disk is full, or what this user may take of it."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
